// Who reviews: a name that decisions carry, kept in this browser.

import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { keep, recall } from "./kept.js";

export function who() {
  return recall("who", "");
}

// The name, asked for if there is none or if it is to be changed; null if it is not given.
export async function askWho({ change = false } = {}) {
  const known = who();
  if (known && !change) return known;
  const name = await ask("Who reviews?", (close) => {
    const field = h("input", { id: "who", autofocus: true, required: true, maxlength: "100", autocomplete: "name", value: known });
    return h("form", { onsubmit: (event) => { event.preventDefault(); if (field.value.trim()) close(field.value.trim()); } },
      h("label", { for: "who" }, "Your name"), field,
      h("p", { class: "soft" }, "Each decision carries it. Others who review the same project see it."),
      h("div", { class: "buttons" }, h("button", { class: "main" }, "Continue")));
  });
  if (name) keep("who", name);
  return name;
}
