// A question in front of everything. The browser keeps the focus inside and gives it back.

import { h } from "./dom.js";

let number = 0;

// build(close) gives the contents; the promise holds what `close` was given, or null.
export function ask(title, build, { wide = false } = {}) {
  return new Promise((resolve) => {
    const id = `dialog-${(number += 1)}`;
    let answer = null;
    const close = (value = null) => {
      answer = value;
      box.close();
    };
    const box = h("dialog", { "aria-labelledby": id, class: wide ? "wide" : "" },
      h("div", { class: "dialog-head" },
        h("h2", { id }, title),
        h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => close() }, "×")),
      build(close));
    const before = document.activeElement;
    box.addEventListener("click", (event) => {
      if (event.target === box) close(); // beside the box
    });
    box.addEventListener("close", () => {
      box.remove();
      if (before?.isConnected) before.focus();
      resolve(answer);
    });
    document.body.append(box);
    box.showModal();
  });
}

export function isOpen() {
  return document.querySelector("dialog[open]") !== null;
}
