// What stays in this browser: small values by name. A browser that keeps nothing is no error.

const PREFIX = "medcoder.";

export function recall(name, otherwise = null, store = localStorage) {
  try {
    const text = store.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

// Values whose names begin alike, in the order of the names.
export function recallAll(start, store = localStorage) {
  try {
    const names = Object.keys(store).filter((key) => key.startsWith(PREFIX + start)).sort();
    return names.map((key) => recall(key.slice(PREFIX.length), null, store)).filter((value) => value !== null);
  } catch {
    return [];
  }
}

export function keep(name, value, store = localStorage) {
  try {
    if (value === null || value === undefined) store.removeItem(PREFIX + name);
    else store.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Private windows may refuse; the page works without.
  }
}
