// Search another concept than those that are offered: a field and a list, by keyboard.

import { get } from "./api.js";
import { ask } from "./dialog.js";
import { debounce, h, key } from "./dom.js";
import { codes, sure, why } from "./marks.js";
import { sentence } from "./words.js";

const TOP = 8;

export function searchAnother(text) {
  return ask("Search another concept", (close) => {
    let matches = [];
    let at = 0;
    let stop = new AbortController();
    const list = h("ul", { role: "listbox", id: "another-list", "aria-label": "Concepts", class: "options" });
    const said = h("p", { class: "soft small", role: "status" });
    const field = h("input", {
      type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "another-list", "aria-autocomplete": "list",
      "aria-label": "Words to look up", autofocus: true, autocomplete: "off", maxlength: "500", value: text, oninput: () => later(), onkeydown,
    });
    const later = debounce(110, search);

    async function search() {
      stop.abort();
      stop = new AbortController();
      const query = field.value.trim();
      if (!query) return show([]);
      try {
        const answer = await get("search", { q: query, top: TOP }, { signal: stop.signal });
        show(answer.matches, answer.reason);
      } catch (error) {
        if (error.name !== "AbortError") said.textContent = error.message;
      }
    }

    function show(found, reason) {
      matches = found;
      at = 0;
      said.textContent = found.length ? "" : reason ? sentence(reason) : "Nothing is like this.";
      list.replaceChildren(...found.map((match, place) => h("li", {
        role: "option", id: `another-${place}`, onclick: () => close(match), onpointermove: () => move(place),
      }, h("span", { class: "name", dir: "auto" }, match.name), sure(match.confidence),
      h("span", { class: "why" }, why(match)), codes(match.codes, 3))));
      move(0);
    }

    function move(place) {
      at = Math.max(0, Math.min(matches.length - 1, place));
      [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
      if (matches.length) field.setAttribute("aria-activedescendant", `another-${at}`);
      list.children[at]?.scrollIntoView({ block: "nearest" });
    }

    function onkeydown(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        move(at + step);
      } else if (event.key === "Enter" && matches[at]) {
        event.preventDefault();
        close(matches[at]);
      } else if (event.key === "Escape") {
        event.preventDefault(); // which would empty the field first
        close();
      }
    }

    search();
    setTimeout(() => field.select(), 0);
    return h("div", { class: "stack another" }, field, said, list,
      h("p", { class: "soft small" }, key("↑"), " ", key("↓"), " move, ", key("Enter"), " chooses, ", key("Esc"), " leaves"));
  }, { wide: true });
}
