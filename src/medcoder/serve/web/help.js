// The keys of a view.

import { ask } from "./dialog.js";
import { h, key } from "./dom.js";
import { keep, recall } from "./kept.js";

const KEYS = {
  look: [
    [["/"], "Search"],
    [["↓", "↑"], "Go through the results"],
    [["Enter"], "Open a concept"],
    [["Esc"], "Back to the search"],
  ],
  review: [
    [["1", "…", "5"], "Choose that candidate"],
    [["n"], "None: there is no match"],
    [["/"], "Search another concept"],
    [["u"], "Undo my last decision"],
    [["j", "k"], "Next, previous term (also ↓ ↑)"],
    [["e"], "Next equivalence"],
    [["c"], "Write a note (a comment)"],
    [["h"], "History of the term"],
    [["o"], "Open the first candidate in Look up"],
    [["b"], "Accept all above a precision"],
    [["Esc"], "Leave a field, back to the term"],
  ],
};

export function showKeys(view) {
  const rows = [...(KEYS[view] ?? []), [["?"], "These keys"]];
  const on = h("input", { type: "checkbox", onchange: () => keep("keys", on.checked ? null : false) });
  on.checked = recall("keys", true) !== false;
  return ask("Keys", () => h("div", { class: "stack" },
    h("dl", { class: "keys" },
      rows.map(([keys, what]) => [h("dt", {}, keys.map((one) => (one === "…" ? " … " : key(one)))), h("dd", {}, what)])),
    h("label", { class: "row" }, on, "Single keys act")));
}
