// Short messages that go away, and errors that stay until they are closed.

import { h, say } from "./dom.js";

export function toast(text, { action, label, kind = "note", stay = kind === "error" } = {}) {
  const place = document.getElementById("toasts");
  const box = h("div", { class: `toast ${kind}`, role: kind === "error" ? "alert" : undefined },
    h("span", {}, text),
    action && h("button", { type: "button", onclick: () => { box.remove(); action(); } }, label),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  place.append(box);
  while (place.children.length > 3) place.firstElementChild.remove();
  if (kind !== "error") say(text);
  if (!stay) setTimeout(() => box.remove(), 6000);
  return box;
}

export function failed(error) {
  if (error.name === "AbortError") return;
  toast(error.message, { kind: "error" });
}
