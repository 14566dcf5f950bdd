
"use strict";
const find = (id) => document.getElementById(id);

/** Create an element with text or children; text is never parsed as HTML. */
function make(tag, options = {}, ...content) {
  const element = Object.assign(document.createElement(tag), options);
  element.append(...content);
  return element;
}

/** Up to `most` nodes: an exact id first, then ids that begin with the text, then ids that contain it. */
function lookUp(text, ids, loweredIds, most) {
  const lowered = text.toLowerCase(), ranks = [[], [], []];
  for (let node = 0; node < ids.length; node++) {
    const position = loweredIds[node].indexOf(lowered);
    if (position < 0) continue;
    const rank = ids[node] === text ? 0 : position === 0 ? 1 : 2;
    if (ranks[rank].length < most) ranks[rank].push(node);
  }
  return ranks.flat().slice(0, most);
}

/** The search box: suggestions while typing, by mouse or by keyboard; `select` is called with a node. */
function attachSearch(ids, describe, select) {
  const search = find("search"), list = find("suggestions");
  const loweredIds = ids.map((id) => id.toLowerCase());
  let suggested = [], active = 0;

  function optionOf(node, index) {
    const option = make("li", { id: `suggestion-${index}` }, make("span", { className: "id" }, ids[node]), make("small", {}, describe(node)));
    option.setAttribute("role", "option");
    option.addEventListener("pointerdown", (event) => event.preventDefault()); // else the box loses its focus first
    option.addEventListener("click", () => accept(index));
    return option;
  }

  function suggest() {
    suggested = search.value ? lookUp(search.value, ids, loweredIds, 8) : [];
    list.replaceChildren(...suggested.map(optionOf));
    if (!suggested.length) list.append(make("li", {}, make("small", {}, "No id contains this text.")));
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
    if (suggested.length) search.setAttribute("aria-activedescendant", `suggestion-${active}`);
  }

  function accept(index) {
    search.value = ids[suggested[index]];
    open(false);
    select(suggested[index]);
  }

  search.addEventListener("input", suggest);
  search.addEventListener("focus", () => search.value && suggest());
  search.addEventListener("blur", () => open(false));
  search.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") open(false);
    if (!suggested.length || list.hidden) return;
    if (event.key === "Enter") accept(active);
    if (!step) return;
    activate((active + step + suggested.length) % suggested.length);
    event.preventDefault();
  });
}
