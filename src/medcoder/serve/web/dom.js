// Elements from data. Text is always set as text, never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function put(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "vars") {
    // Through the object model, which a policy against inline styles allows.
    for (const [key, number] of Object.entries(value)) element.style.setProperty(`--${key}`, number);
  } else if (name === "value") element.value = value;
  else element.setAttribute(name, value === true ? "" : value);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) put(element, name, value);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  if (attributes && "value" in attributes) put(element, "value", attributes.value); // options are in now
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function key(name) {
  return h("kbd", {}, name);
}

export function hidden(text) {
  return h("span", { class: "hidden" }, text);
}

// A string in a language of its own, for screen readers, fonts and direction.
export function term(text, language) {
  return h("span", { lang: language || undefined, dir: "auto" }, text);
}

// Say something to who does not see the screen.
export function say(text) {
  const place = document.getElementById("said");
  place.textContent = "";
  // An empty region first: the same sentence twice is said twice.
  setTimeout(() => { place.textContent = text; }, 30);
}

export function debounce(wait, act) {
  let timer = 0;
  const later = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...values), wait);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
