// Where one is: #/view/part/part?name=value. All that a view shows is in there, so that a reload,
// a bookmark and the back button bring it back.

export function read(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view = "", ...parts] = path.split("/").map(decode);
  return { view, parts, query: new URLSearchParams(query) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function write(view, parts = [], values = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") query.append(name, one);
    }
  }
  const path = [view, ...parts].map(encodeURIComponent).join("/");
  const tail = query.toString();
  return `#/${path}${tail ? `?${tail}` : ""}`;
}

// Change the address without a step in the history.
export function replace(hash) {
  if (hash !== location.hash) history.replaceState(null, "", hash);
}

export function go(hash) {
  location.hash = hash;
}
