// Two people decided on one term: both versions, and a choice.

import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { codes } from "./marks.js";
import { inWords } from "./terms.js";
import { when } from "./words.js";

// "theirs", "mine", or null for later.
export function choose(text, mine, theirs) {
  return ask("Somebody else decided meanwhile", (close) => h("div", { class: "stack" },
    h("p", {}, "“", h("b", { dir: "auto" }, text), "” has changed since you saw it. Nothing of yours is written yet."),
    h("div", { class: "versions" },
      version(theirs ? `${theirs.who}, ${when(theirs.when)}` : "It stands now", theirs),
      version("You", mine)),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => close("theirs"), autofocus: true }, "Keep theirs"),
      h("button", { type: "button", class: "main", onclick: () => close("mine") }, "Put mine instead"))), { wide: true });
}

function version(title, decision) {
  return h("section", { class: "panel" }, h("h3", {}, title),
    h("p", {}, h("b", { dir: "auto" }, inWords(decision))),
    decision?.codes?.length ? codes(decision.codes) : "",
    decision?.note && h("p", { class: "soft" }, decision.note));
}
