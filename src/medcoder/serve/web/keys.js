// Keys as shortcuts: not while somebody types, not with modifiers, which are the browser's, and not
// if they are switched off, as who speaks to a computer may want.

import { recall } from "./kept.js";

export function typing(event) {
  if (recall("keys", true) === false) return true;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true;
  const at = event.target;
  return at instanceof HTMLElement
    && (at.isContentEditable || at.matches("input:not([type=checkbox]):not([type=radio]):not([type=file]), textarea, select"));
}
