(() => {
  const COLOURS = 10, GROUPS = 40; // colors times shapes that can be told apart
  const MARGIN = 28, REACH = 14;
  const data = JSON.parse(find("data").textContent);
  const numbers = (text, Kind) => new Kind(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
  const ids = data.ids, count = ids.length;
  const spots = numbers(data.spots, Uint16Array);
  const near = numbers(data.near, Uint16Array), cosines = numbers(data.cosines, Int16Array);
  const groupings = data.groupings.map((each) => ({ ...each, of: numbers(each.of, Uint16Array) }));
  const map = find("map"), tip = find("tip"), chosen = find("chosen"), legend = find("legend");
  const ink = map.getContext("2d");
  let coloring = groupings[0], alone = null, picked = null, sprites = [];
  let view = { zoom: 1, x: 0, y: 0 }, planned = false;

  // ---- groups: a color and a shape each; what is too many falls into one ----

  const groupOf = (node, by = coloring) => Math.min(by.of[node], GROUPS - 1);
  const nameOf = (node, by) => by.names[by.of[node]];

  function groupsOf(by) {
    const sizes = new Array(Math.min(by.names.length, GROUPS)).fill(0);
    for (let node = 0; node < count; node++) sizes[groupOf(node, by)]++;
    const rest = by.names.length - GROUPS + 1;
    return sizes.map((size, group) => ({
      size, group, name: rest > 1 && group === GROUPS - 1 ? `${rest} smaller ones` : by.names[group],
    }));
  }

  function drawShape(on, group, middle, radius) {
    const theme = getComputedStyle(document.documentElement);
    on.fillStyle = theme.getPropertyValue(`--c${group % COLOURS}`);
    on.strokeStyle = theme.getPropertyValue("--well");
    on.lineWidth = radius > 2.5 ? 0.7 : 0;
    on.beginPath();
    const corners = [0, 4, 3, 4][Math.floor(group / COLOURS) % 4], turn = [0, 0.25, -0.5, 0][Math.floor(group / COLOURS) % 4];
    if (!corners) on.arc(middle, middle, radius, 0, 2 * Math.PI);
    for (let corner = 0; corner < corners; corner++) {
      const angle = Math.PI * (turn + (2 * corner) / corners), size = 1.25 * radius;
      on.lineTo(middle + size * Math.cos(angle), middle + size * Math.sin(angle));
    }
    on.closePath();
    on.fill();
    if (on.lineWidth && radius > 2.5) on.stroke();
  }

  // ---- drawing ----

  const low = [65535, 65535], high = [0, 0];
  spots.forEach((value, index) => {
    low[index % 2] = Math.min(low[index % 2], value);
    high[index % 2] = Math.max(high[index % 2], value);
  });

  /** From a node's spot to the place on the sheet, in CSS pixels. */
  function lens() {
    const width = map.clientWidth, height = map.clientHeight;
    const room = [width - 2 * MARGIN, height - 2 * MARGIN];
    const fit = view.zoom * Math.min(room[0] / Math.max(high[0] - low[0], 1), room[1] / Math.max(high[1] - low[1], 1));
    const scale = Number.isFinite(fit) ? fit : 0;
    const middle = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
    return (node) => [
      width / 2 + view.x + scale * (spots[2 * node] - middle[0]),
      height / 2 + view.y - scale * (spots[2 * node + 1] - middle[1]),
    ];
  }

  function radius() {
    const sheet = Math.min(1, Math.sqrt(map.clientWidth / 600)); // smaller dots on a phone
    return Math.min(9, Math.max(1.6, sheet * Math.min(5.5, 130 / Math.sqrt(count))) * Math.sqrt(view.zoom));
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
    planned = false;
    const ratio = window.devicePixelRatio || 1, width = map.clientWidth, height = map.clientHeight;
    if (map.width !== Math.round(width * ratio) || map.height !== Math.round(height * ratio)) {
      map.width = Math.round(width * ratio);
      map.height = Math.round(height * ratio);
    }
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, width, height);
    const size = radius(), edge = makeSprites(size, ratio), place = lens();
    for (const front of alone === null ? [true] : [false, true]) {
      ink.globalAlpha = front ? (count > 3000 ? 0.8 : 0.9) : 0.07;
      for (let node = 0; node < count; node++) {
        if (alone !== null && (groupOf(node) === alone) !== front) continue;
        const [x, y] = place(node);
        if (x < -edge || y < -edge || x > width + edge || y > height + edge) continue;
        ink.drawImage(sprites[groupOf(node)], x - edge / 2, y - edge / 2, edge, edge);
      }
    }
    ink.globalAlpha = 1;
    if (picked !== null) drawPicked(place, size);
    map.classList.toggle("zoomed", view.zoom > 1);
  }

  function drawPicked(place, size) {
    const theme = getComputedStyle(document.documentElement), [x, y] = place(picked);
    ink.strokeStyle = theme.getPropertyValue("--ink");
    for (const { node } of nearestOf(picked)) {
      const [a, b] = place(node);
      ink.lineWidth = 1;
      ink.globalAlpha = 0.55;
      ink.beginPath();
      ink.moveTo(x, y);
      ink.lineTo(a, b);
      ink.stroke();
      ink.globalAlpha = 1;
      ring(a, b, size + 1.5);
    }
    ink.lineWidth = 2.5;
    ring(x, y, size + 5);
    const edge = 2 * Math.ceil(1.3 * size + 1);
    ink.drawImage(sprites[groupOf(picked)], x - edge / 2, y - edge / 2, edge, edge);
  }

  function ring(x, y, size) {
    ink.beginPath();
    ink.arc(x, y, size, 0, 2 * Math.PI);
    ink.stroke();
  }

  function redraw() {
    if (!planned) requestAnimationFrame(draw);
    planned = true;
  }

  // ---- what is known of a node ----

  function nearestOf(node) {
    const found = [];
    for (let rank = node * data.k; rank < (node + 1) * data.k; rank++) found.push({ node: near[rank], cosine: cosines[rank] / 32767 });
    return found;
  }

  const kindsOf = (node) => groupings.map((by) => make("div", {}, `${by.title}: ${nameOf(node, by)}`));

  function swatch(group) {
    const ratio = 2, picture = make("canvas", { className: "swatch", width: 14 * ratio, height: 14 * ratio });
    drawShape(picture.getContext("2d"), group, 7 * ratio, 5 * ratio);
    picture.setAttribute("aria-hidden", "true");
    return picture;
  }

  function showChosen() {
    if (picked === null) {
      chosen.replaceChildren(make("p", {}, "Point at a dot to see its id. Find a node, or click one, to see its nearest neighbors."));
      return;
    }
    const kinds = groupings.map((by) => `${by.title} ${nameOf(picked, by)}`).join(" · ");
    const list = make("ol", {}, ...nearestOf(picked).map(({ node, cosine }) => make("li", {}, nodeButton(node, cosine))));
    const title = make("h3", { className: "id" }, ids[picked]);
    chosen.replaceChildren(title, make("p", {}, kinds), make("p", {}, data.k ? "Nearest, with their cosines:" : "There is no other node."), list);
  }

  function nodeButton(node, cosine) {
    const button = make("button", { type: "button", title: ids[node] });
    button.append(swatch(groupOf(node)), make("span", {}, ids[node]), make("small", {}, cosine.toFixed(3)));
    button.addEventListener("click", () => choose(node));
    return button;
  }

  function choose(node) {
    picked = node;
    if (node !== null) {
      const [x, y] = lens()(node), out = x < 0 || y < 0 || x > map.clientWidth || y > map.clientHeight;
      if (out) view = { zoom: view.zoom, x: view.x + map.clientWidth / 2 - x, y: view.y + map.clientHeight / 2 - y };
    }
    tip.hidden = true;
    showChosen();
    redraw();
  }

  // ---- legend and colors ----

  function showLegend() {
    find("legend-title").textContent = coloring.title[0].toUpperCase() + coloring.title.slice(1);
    legend.classList.toggle("picked", alone !== null);
    legend.replaceChildren(...groupsOf(coloring).map(({ group, size, name }) => {
      const button = make("button", { type: "button" }, swatch(group), make("span", {}, name), make("small", {}, size.toLocaleString("en")));
      button.setAttribute("aria-pressed", String(group === alone));
      button.addEventListener("click", () => {
        alone = group === alone ? null : group;
        showLegend();
        legend.querySelectorAll("button")[group].focus();
        redraw();
      });
      return make("li", {}, button);
    }));
  }

  function showAll() {
    showLegend();
    showChosen();
    redraw();
  }

  for (const by of groupings) {
    const choice = make("input", { type: "radio", name: "colors", value: by.title, checked: by === coloring });
    choice.addEventListener("change", () => {
      [coloring, alone] = [by, null];
      showAll();
    });
    find("colors").hidden = groupings.length < 2;
    find("colors").append(make("label", {}, choice, make("span", {}, by.title)));
  }

  // ---- pointing, moving, zooming ----

  const fingers = new Map();
  let moved = 0;

  function nodeAt(x, y, reach) {
    const place = lens();
    let best = null, least = (reach + radius()) ** 2;
    for (let node = 0; node < count; node++) {
      if (alone !== null && groupOf(node) !== alone) continue;
      const [a, b] = place(node), far = (a - x) ** 2 + (b - y) ** 2;
      if (far < least) [best, least] = [node, far];
    }
    return best;
  }

  function showTip(node) {
    map.classList.toggle("over", node !== null);
    tip.hidden = node === null;
    if (node === null) return;
    tip.replaceChildren(make("div", { className: "id" }, ids[node]), ...kindsOf(node));
    const [x, y] = lens()(node), left = Math.min(Math.max(x - tip.offsetWidth / 2, 4), map.clientWidth - tip.offsetWidth - 4);
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
    const before = fingers.get(event.pointerId), now = [event.offsetX, event.offsetY];
    const other = [...fingers].find(([id]) => id !== event.pointerId);
    fingers.set(event.pointerId, now);
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (other) {
      const [x, y] = other[1], apart = (point) => Math.max(Math.hypot(point[0] - x, point[1] - y), 1);
      zoom(apart(now) / apart(before), (x + now[0]) / 2, (y + now[1]) / 2);
    } else if (moved > 4) {
      map.classList.add("moving");
      move(now[0] - before[0], now[1] - before[1]);
    }
  }

  function release(event) {
    fingers.delete(event.pointerId);
    map.classList.remove("moving");
  }

  const reachOf = (event) => (event.pointerType === "touch" ? 2 * REACH : REACH);
  map.addEventListener("pointerdown", (event) => {
    if (!fingers.size) moved = 0;
    map.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
  });
  map.addEventListener("pointermove", (event) => {
    if (fingers.has(event.pointerId)) drag(event);
    else showTip(nodeAt(event.offsetX, event.offsetY, REACH));
  });
  map.addEventListener("pointerup", (event) => {
    release(event);
    if (moved > 4) return;
    const node = nodeAt(event.offsetX, event.offsetY, reachOf(event));
    choose(node);
    showTip(node);
  });
  map.addEventListener("pointercancel", release);
  map.addEventListener("pointerleave", (event) => {
    if (!fingers.size && event.pointerType !== "touch") showTip(null); // a finger leaves as it taps
  });
  map.addEventListener("wheel", (event) => {
    if (document.activeElement !== map && !event.ctrlKey) return; // else the page could not be scrolled past the map
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }, { passive: false });
  map.addEventListener("keydown", (event) => {
    const keys = {
      "+": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => zoom(0), Escape: () => choose(null),
      ArrowLeft: () => move(40, 0), ArrowRight: () => move(-40, 0), ArrowUp: () => move(0, 40), ArrowDown: () => move(0, -40),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    keys[event.key]();
    event.preventDefault();
  });
  find("closer").addEventListener("click", () => zoom(1.6));
  find("farther").addEventListener("click", () => zoom(1 / 1.6));
  find("whole").addEventListener("click", () => zoom(0));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-node]");
    if (!link) return;
    choose(Number(link.dataset.node));
    find("map-title").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAll);
  new ResizeObserver(() => { tip.hidden = true; redraw(); }).observe(map);
  window.addEventListener("beforeprint", draw);
  attachSearch(ids, (node) => nameOf(node, groupings[0]), choose);
  showAll();
})();
