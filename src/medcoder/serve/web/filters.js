// Which concepts count: semantic types, vocabularies, languages.

import { get } from "./api.js";
import { h, hidden } from "./dom.js";
import { TARGETS, count, language } from "./words.js";

const KINDS = { types: "Types", vocabularies: "Vocabularies", languages: "Languages" };
const MANY = 8; // entries that want a field to find one
let known = null;

export function filters(chosen, changed) {
  const place = h("div", { class: "filters", role: "group", "aria-label": "Filters" });
  known ??= get("filters").catch((error) => { known = null; throw error; });
  known.then((all) => {
    const button = clear(place, chosen, changed);
    const none = () => Object.values(chosen).every((names) => !names.size);
    const told = () => {
      button.hidden = none();
      changed();
    };
    button.hidden = none();
    place.replaceChildren(
      ...Object.keys(KINDS).filter((kind) => all[kind].length > 1).map((kind) => menu(kind, all[kind], chosen, told)),
      targets(all.targets, chosen.targets, told), button);
  }, () => {}); // without filters, looking up works
  return place;
}

function entry(kind, one) {
  const id = one.id ?? one.name; // vocabularies have their name only
  return { id, label: kind === "languages" ? language(id) : one.name, count: one.count };
}

function menu(kind, all, chosen, changed) {
  const entries = all.map((one) => entry(kind, one));
  const summary = h("summary", {});
  const list = h("ul", {}, entries.map((one) => {
    const box = h("input", {
      type: "checkbox", value: one.id,
      onchange: () => {
        if (box.checked) chosen[kind].add(one.id);
        else chosen[kind].delete(one.id);
        title();
        changed();
      },
    });
    box.checked = chosen[kind].has(one.id);
    return h("li", {}, h("label", {}, box, h("span", {}, one.label), h("span", {}, count(one.count))));
  }));
  const find = entries.length > MANY && h("input", {
    type: "search", placeholder: `Find in ${KINDS[kind].toLowerCase()}`, "aria-label": `Find in ${KINDS[kind].toLowerCase()}`,
    oninput: (event) => {
      const part = event.target.value.toLowerCase();
      [...list.children].forEach((item, place) => { item.hidden = !entries[place].label.toLowerCase().includes(part); });
    },
  });
  const box = h("details", {
    class: "filter", "data-kind": kind,
    onkeydown: (event) => {
      if (event.key !== "Escape" || !box.open) return;
      event.stopPropagation();
      box.open = false;
      summary.focus();
    },
    onfocusout: (event) => { if (event.relatedTarget && !box.contains(event.relatedTarget)) box.open = false; },
  }, summary, h("div", { class: "filter-box" }, find, list));
  function title() {
    const number = chosen[kind].size;
    box.classList.toggle("used", number > 0);
    summary.replaceChildren(KINDS[kind], number ? ` ${number}` : "", number ? hidden(" chosen") : "");
  }
  document.addEventListener("pointerdown", (event) => { if (!box.contains(event.target)) box.open = false; });
  title();
  return box;
}

// Which concepts may be answered with, of what they are in their vocabulary.
export function targets(names, chosen, changed) {
  return h("select", {
    class: "targets", "aria-label": "Which concepts", value: [...chosen][0] ?? "any",
    onchange: (event) => {
      chosen.clear();
      if (event.target.value !== "any") chosen.add(event.target.value);
      changed();
    },
  }, names.map((name) => h("option", { value: name }, TARGETS[name] ?? name)));
}

function clear(place, chosen, changed) {
  const button = h("button", {
    type: "button", class: "quiet", onclick: () => {
      place.querySelector("summary").focus();
      button.hidden = true;
      for (const names of Object.values(chosen)) names.clear();
      place.querySelector(".targets").value = "any";
      for (const box of place.querySelectorAll("input[type=checkbox]")) box.checked = false;
      place.querySelectorAll(".filter").forEach((menu) => {
        menu.classList.remove("used");
        menu.querySelector("summary").textContent = KINDS[menu.dataset.kind];
      });
      changed();
    },
  }, "Clear filters");
  return button;
}
