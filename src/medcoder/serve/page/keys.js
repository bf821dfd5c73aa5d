// Keys as shortcuts: not while somebody types, and not with modifiers, which are the browser's.

export function typing(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true;
  const at = event.target;
  return at instanceof HTMLElement
    && (at.isContentEditable || at.matches("input:not([type=checkbox]):not([type=radio]):not([type=file]), textarea, select"));
}
