(() => {
  const COLORS = 10, MAX_GROUPS = 40; // colors times shapes that can be told apart
  const MARGIN = 28, HIT_RADIUS = 14;
  const data = JSON.parse(find("data").textContent);
  const decode = (text, Kind) => new Kind(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  const ids = data.ids, count = ids.length;
  const positions = decode(data.positions, Uint16Array);
  const neighbors = decode(data.neighbors, Uint16Array), cosines = decode(data.cosines, Int16Array);
  const groupings = data.groupings.map((each) => ({ ...each, of: decode(each.of, Uint16Array) }));
  const map = find("map"), tip = find("tip"), selectedPanel = find("selected"), legend = find("legend");
  const context = map.getContext("2d");
  let coloring = groupings[0], isolated = null, selected = null, sprites = [];
  let view = { zoom: 1, x: 0, y: 0 }, frameRequested = false;

  // ---- groups: a color and a shape each; those beyond the maximum share the last one ----

  const groupOf = (node, by = coloring) => Math.min(by.of[node], MAX_GROUPS - 1);
  const nameOf = (node, by) => by.names[by.of[node]];

  function groupsOf(by) {
    const sizes = new Array(Math.min(by.names.length, MAX_GROUPS)).fill(0);
    for (let node = 0; node < count; node++) sizes[groupOf(node, by)]++;
    const rest = by.names.length - MAX_GROUPS + 1;
    return sizes.map((size, group) => ({
      size, group, name: rest > 1 && group === MAX_GROUPS - 1 ? `${rest} smaller ones` : by.names[group],
    }));
  }

  function drawShape(context, group, middle, radius) {
    const theme = getComputedStyle(document.documentElement);
    context.fillStyle = theme.getPropertyValue(`--c${group % COLORS}`);
    context.strokeStyle = theme.getPropertyValue("--well");
    context.lineWidth = radius > 2.5 ? 0.7 : 0;
    context.beginPath();
    const corners = [0, 4, 3, 4][Math.floor(group / COLORS) % 4], turn = [0, 0.25, -0.5, 0][Math.floor(group / COLORS) % 4];
    if (!corners) context.arc(middle, middle, radius, 0, 2 * Math.PI);
    for (let corner = 0; corner < corners; corner++) {
      const angle = Math.PI * (turn + (2 * corner) / corners), size = 1.25 * radius;
      context.lineTo(middle + size * Math.cos(angle), middle + size * Math.sin(angle));
    }
    context.closePath();
    context.fill();
    if (context.lineWidth && radius > 2.5) context.stroke();
  }

  // ---- drawing ----

  const low = [65535, 65535], high = [0, 0];
  positions.forEach((value, index) => {
    low[index % 2] = Math.min(low[index % 2], value);
    high[index % 2] = Math.max(high[index % 2], value);
  });

  /** A function from a node to its position on the canvas, in CSS pixels. */
  function projection() {
    const width = map.clientWidth, height = map.clientHeight;
    const room = [width - 2 * MARGIN, height - 2 * MARGIN];
    const fit = view.zoom * Math.min(room[0] / Math.max(high[0] - low[0], 1), room[1] / Math.max(high[1] - low[1], 1));
    const scale = Number.isFinite(fit) ? fit : 0;
    const middle = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
    return (node) => [
      width / 2 + view.x + scale * (positions[2 * node] - middle[0]),
      height / 2 + view.y - scale * (positions[2 * node + 1] - middle[1]),
    ];
  }

  function radius() {
    const scale = Math.min(1, Math.sqrt(map.clientWidth / 600)); // smaller dots on a phone
    return Math.min(9, Math.max(1.6, scale * Math.min(5.5, 130 / Math.sqrt(count))) * Math.sqrt(view.zoom));
  }

  function makeSprites(size, ratio) {
    const edge = Math.ceil((1.3 * size + 1) * 2 * ratio);
    sprites = groupsOf(coloring).map(({ group }) => {
      const sprite = make("canvas", { width: edge, height: edge });
      drawShape(sprite.getContext("2d"), group, edge / 2, size * ratio);
      return sprite;
    });
    return edge / ratio;
  }

  function draw() {
    frameRequested = false;
    const ratio = window.devicePixelRatio || 1, width = map.clientWidth, height = map.clientHeight;
    if (map.width !== Math.round(width * ratio) || map.height !== Math.round(height * ratio)) {
      map.width = Math.round(width * ratio);
      map.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const size = radius(), edge = makeSprites(size, ratio), toCanvas = projection();
    for (const front of isolated === null ? [true] : [false, true]) {
      context.globalAlpha = front ? (count > 3000 ? 0.8 : 0.9) : 0.07;
      for (let node = 0; node < count; node++) {
        if (isolated !== null && (groupOf(node) === isolated) !== front) continue;
        const [x, y] = toCanvas(node);
        if (x < -edge || y < -edge || x > width + edge || y > height + edge) continue;
        context.drawImage(sprites[groupOf(node)], x - edge / 2, y - edge / 2, edge, edge);
      }
    }
    context.globalAlpha = 1;
    if (selected !== null) drawSelected(toCanvas, size);
    map.classList.toggle("zoomed", view.zoom > 1);
  }

  function drawSelected(toCanvas, size) {
    const theme = getComputedStyle(document.documentElement), [x, y] = toCanvas(selected);
    context.strokeStyle = theme.getPropertyValue("--ink");
    for (const { node } of nearestOf(selected)) {
      const [a, b] = toCanvas(node);
      context.lineWidth = 1;
      context.globalAlpha = 0.55;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(a, b);
      context.stroke();
      context.globalAlpha = 1;
      drawRing(a, b, size + 1.5);
    }
    context.lineWidth = 2.5;
    drawRing(x, y, size + 5);
    const edge = 2 * Math.ceil(1.3 * size + 1);
    context.drawImage(sprites[groupOf(selected)], x - edge / 2, y - edge / 2, edge, edge);
  }

  function drawRing(x, y, size) {
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.stroke();
  }

  function redraw() {
    if (!frameRequested) requestAnimationFrame(draw);
    frameRequested = true;
  }

  // ---- details of a node ----

  function nearestOf(node) {
    const nearest = [];
    for (let rank = node * data.k; rank < (node + 1) * data.k; rank++) nearest.push({ node: neighbors[rank], cosine: cosines[rank] / 32767 });
    return nearest;
  }

  const describeNode = (node) => groupings.map((by) => make("div", {}, `${by.title}: ${nameOf(node, by)}`));

  function swatch(group) {
    const ratio = 2, picture = make("canvas", { className: "swatch", width: 14 * ratio, height: 14 * ratio });
    drawShape(picture.getContext("2d"), group, 7 * ratio, 5 * ratio);
    picture.setAttribute("aria-hidden", "true");
    return picture;
  }

  function showSelected() {
    if (selected === null) {
      selectedPanel.replaceChildren(make("p", {}, "Point at a dot to see its id. Find a node, or click one, to see its nearest neighbors."));
      return;
    }
    const description = groupings.map((by) => `${by.title} ${nameOf(selected, by)}`).join(" · ");
    const list = make("ol", {}, ...nearestOf(selected).map(({ node, cosine }) => make("li", {}, nodeButton(node, cosine))));
    const title = make("h3", { className: "id" }, ids[selected]);
    selectedPanel.replaceChildren(title, make("p", {}, description), make("p", {}, data.k ? "Nearest neighbors and their cosine similarities:" : "There is no other node."), list);
  }

  function nodeButton(node, cosine) {
    const button = make("button", { type: "button", title: ids[node] });
    button.append(swatch(groupOf(node)), make("span", {}, ids[node]), make("small", {}, cosine.toFixed(3)));
    button.addEventListener("click", () => select(node));
    return button;
  }

  function select(node) {
    selected = node;
    if (node !== null) {
      const [x, y] = projection()(node), out = x < 0 || y < 0 || x > map.clientWidth || y > map.clientHeight;
      if (out) view = { zoom: view.zoom, x: view.x + map.clientWidth / 2 - x, y: view.y + map.clientHeight / 2 - y };
    }
    tip.hidden = true;
    showSelected();
    redraw();
  }

  // ---- legend and colors ----

  function showLegend() {
    find("legend-title").textContent = coloring.title[0].toUpperCase() + coloring.title.slice(1);
    legend.classList.toggle("isolated", isolated !== null);
    legend.replaceChildren(...groupsOf(coloring).map(({ group, size, name }) => {
      const button = make("button", { type: "button" }, swatch(group), make("span", {}, name), make("small", {}, size.toLocaleString("en")));
      button.setAttribute("aria-pressed", String(group === isolated));
      button.addEventListener("click", () => {
        isolated = group === isolated ? null : group;
        showLegend();
        legend.querySelectorAll("button")[group].focus();
        redraw();
      });
      return make("li", {}, button);
    }));
  }

  function showAll() {
    showLegend();
    showSelected();
    redraw();
  }

  for (const by of groupings) {
    const choice = make("input", { type: "radio", name: "colors", value: by.title, checked: by === coloring });
    choice.addEventListener("change", () => {
      [coloring, isolated] = [by, null];
      showAll();
    });
    find("colors").hidden = groupings.length < 2;
    find("colors").append(make("label", {}, choice, make("span", {}, by.title)));
  }

  // ---- pointing, moving, zooming ----

  const pointers = new Map();
  let dragged = 0;

  function nodeAt(x, y, hitRadius) {
    const toCanvas = projection();
    let best = null, smallest = (hitRadius + radius()) ** 2;
    for (let node = 0; node < count; node++) {
      if (isolated !== null && groupOf(node) !== isolated) continue;
      const [a, b] = toCanvas(node), distance = (a - x) ** 2 + (b - y) ** 2;
      if (distance < smallest) [best, smallest] = [node, distance];
    }
    return best;
  }

  function showTip(node) {
    map.classList.toggle("over", node !== null);
    tip.hidden = node === null;
    if (node === null) return;
    tip.replaceChildren(make("div", { className: "id" }, ids[node]), ...describeNode(node));
    const [x, y] = projection()(node), left = Math.min(Math.max(x - tip.offsetWidth / 2, 4), map.clientWidth - tip.offsetWidth - 4);
    const above = y - tip.offsetHeight - 12;
    tip.style.transform = `translate(${left}px, ${above > 4 ? above : y + 14}px)`;
  }

  function zoom(factor, x = map.clientWidth / 2, y = map.clientHeight / 2) {
    const next = Math.min(60, Math.max(1, view.zoom * factor)), by = next / view.zoom;
    const center = [x - map.clientWidth / 2, y - map.clientHeight / 2];
    view = { zoom: next, x: center[0] + by * (view.x - center[0]), y: center[1] + by * (view.y - center[1]) };
    if (next === 1) view = { zoom: 1, x: 0, y: 0 };
    tip.hidden = true;
    redraw();
  }

  function move(x, y) {
    view = { ...view, x: view.x + x, y: view.y + y };
    tip.hidden = true;
    redraw();
  }

  function drag(event) {
    const before = pointers.get(event.pointerId), now = [event.offsetX, event.offsetY];
    const other = [...pointers].find(([id]) => id !== event.pointerId);
    pointers.set(event.pointerId, now);
    dragged += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (other) {
      const [x, y] = other[1], apart = (point) => Math.max(Math.hypot(point[0] - x, point[1] - y), 1);
      zoom(apart(now) / apart(before), (x + now[0]) / 2, (y + now[1]) / 2);
    } else if (dragged > 4) {
      map.classList.add("moving");
      move(now[0] - before[0], now[1] - before[1]);
    }
  }

  function release(event) {
    pointers.delete(event.pointerId);
    map.classList.remove("moving");
  }

  const hitRadiusOf = (event) => (event.pointerType === "touch" ? 2 * HIT_RADIUS : HIT_RADIUS);
  map.addEventListener("pointerdown", (event) => {
    if (!pointers.size) dragged = 0;
    map.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  });
  map.addEventListener("pointermove", (event) => {
    if (pointers.has(event.pointerId)) drag(event);
    else showTip(nodeAt(event.offsetX, event.offsetY, HIT_RADIUS));
  });
  map.addEventListener("pointerup", (event) => {
    release(event);
    if (dragged > 4) return;
    const node = nodeAt(event.offsetX, event.offsetY, hitRadiusOf(event));
    select(node);
    showTip(node);
  });
  map.addEventListener("pointercancel", release);
  map.addEventListener("pointerleave", (event) => {
    if (!pointers.size && event.pointerType !== "touch") showTip(null); // a finger leaves the canvas as it taps
  });
  map.addEventListener("wheel", (event) => {
    if (document.activeElement !== map && !event.ctrlKey) return; // else the page could not be scrolled past the map
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  map.addEventListener("keydown", (event) => {
    const keys = {
      "+": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => zoom(0), Escape: () => select(null),
      ArrowLeft: () => move(40, 0), ArrowRight: () => move(-40, 0), ArrowUp: () => move(0, 40), ArrowDown: () => move(0, -40),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    keys[event.key]();
    event.preventDefault();
  });
  find("zoom-in").addEventListener("click", () => zoom(1.6));
  find("zoom-out").addEventListener("click", () => zoom(1 / 1.6));
  find("zoom-reset").addEventListener("click", () => zoom(0));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-node]");
    if (!link) return;
    select(Number(link.dataset.node));
    find("map-title").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAll);
  new ResizeObserver(() => { tip.hidden = true; redraw(); }).observe(map);
  window.addEventListener("beforeprint", draw);
  attachSearch(ids, (node) => nameOf(node, groupings[0]), select);
  showAll();
})();
