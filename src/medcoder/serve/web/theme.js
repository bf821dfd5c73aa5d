// Light, dark, or as the system has it.

import { keep, recall } from "./kept.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const SIGNS = { system: "◐", light: "☀", dark: "☾" };

export function startTheme(button) {
  let theme = recall("theme", "system");
  if (!(theme in NEXT)) theme = "system";
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = SIGNS[theme];
    button.setAttribute("aria-label", `Colours: ${theme}`);
  };
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    keep("theme", theme === "system" ? null : theme);
    show();
  });
  show();
}
