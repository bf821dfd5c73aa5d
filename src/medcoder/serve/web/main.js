// The frame: which view is shown, where the focus goes, keys that work everywhere.

import { h } from "./dom.js";
import { showKeys } from "./help.js";
import { typing } from "./keys.js";
import { isOpen } from "./dialog.js";
import { read } from "./route.js";
import { startTheme } from "./theme.js";

// A view is mount(root, route) -> { update(route), close() }.
const VIEWS = {
  look: { title: "Look up", load: () => import("./look.js") },
  map: { title: "Map", load: () => import("./map.js") },
  review: { title: "Review", load: () => import("./review.js") },
  export: { title: "Export", load: () => import("./export.js") },
};
const main = document.getElementById("main");
let shown = null; // { name, view }
let turn = 0;

async function show() {
  const route = read();
  const name = route.view in VIEWS ? route.view : "look";
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (shown?.name === name) {
    shown.view.update?.(route);
    return;
  }
  const mine = (turn += 1);
  const first = shown === null;
  shown?.view.close?.();
  shown = { name, view: {} };
  document.title = `${VIEWS[name].title} · medcoder`;
  document.body.dataset.view = name;
  try {
    const module = await VIEWS[name].load();
    if (mine !== turn) return;
    main.replaceChildren();
    shown.view = module.mount(main, route);
  } catch (error) {
    if (mine !== turn) return;
    shown = null;
    main.replaceChildren(h("p", { class: "error", role: "alert" }, `This view cannot be shown: ${error.message}`));
    return;
  }
  const start = main.querySelector("[data-start]");
  if (start) start.focus();
  else if (!first) main.focus();
}

document.addEventListener("keydown", (event) => {
  if (typing(event) || isOpen()) return;
  if (event.key === "?") {
    event.preventDefault();
    showKeys(shown?.name);
  }
});
document.getElementById("help").addEventListener("click", () => showKeys(shown?.name));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address holds the view
  main.focus();
});
window.addEventListener("hashchange", show);
startTheme(document.getElementById("theme"));
show();
