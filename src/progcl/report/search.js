
"use strict";
const find = (id) => document.getElementById(id);

/** An element with text or children in it; text is never read as HTML. */
function make(tag, options = {}, ...content) {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...content);
  return element;
}

/** Up to `most` nodes: the very id first, then ids that begin with the text, then those that hold it. */
function lookUp(text, ids, folded, most) {
  const wanted = text.toLowerCase(), ranks = [[], [], []];
  for (let node = 0; node < ids.length; node++) {
    const place = folded[node].indexOf(wanted);
    if (place < 0) continue;
    const rank = ids[node] === text ? 0 : place === 0 ? 1 : 2;
    if (ranks[rank].length < most) ranks[rank].push(node);
  }
  return ranks.flat().slice(0, most);
}

/** The search box: suggestions while typing, by mouse or by keyboard; `choose` is called with a node. */
function attachSearch(ids, describe, choose) {
  const search = find("search"), list = find("found");
  const folded = ids.map((id) => id.toLowerCase());
  let suggested = [], active = 0;

  function optionOf(node, index) {
    const option = make("li", { id: `found-${index}` }, make("span", { className: "id" }, ids[node]), make("small", {}, describe(node)));
    option.setAttribute("role", "option");
    option.addEventListener("pointerdown", (event) => event.preventDefault()); // else the box loses its focus first
    option.addEventListener("click", () => take(index));
    return option;
  }

  function suggest() {
    suggested = search.value ? lookUp(search.value, ids, folded, 8) : [];
    list.replaceChildren(...suggested.map(optionOf));
    if (!suggested.length) list.append(make("li", {}, make("small", {}, "No node has this in its id.")));
    open(search.value !== "");
    activate(0);
  }

  function open(shown) {
    list.hidden = !shown;
    search.setAttribute("aria-expanded", String(shown));
    if (!shown) search.removeAttribute("aria-activedescendant");
  }

  function activate(index) {
    active = index;
    suggested.forEach((_, each) => list.children[each].setAttribute("aria-selected", String(each === active)));
    if (suggested.length) search.setAttribute("aria-activedescendant", `found-${active}`);
  }

  function take(index) {
    search.value = ids[suggested[index]];
    open(false);
    choose(suggested[index]);
  }

  search.addEventListener("input", suggest);
  search.addEventListener("focus", () => search.value && suggest());
  search.addEventListener("blur", () => open(false));
  search.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") open(false);
    if (!suggested.length || list.hidden) return;
    if (event.key === "Enter") take(active);
    if (!step) return;
    activate((active + step + suggested.length) % suggested.length);
    event.preventDefault();
  });
}
