// The neighbourhood of a concept as a small map: near points mean nearly the same.

import { s } from "./dom.js";

const NARROWEST = 300;
const WIDEST = 620;
const EDGE = 22;
const LETTER = 6.1; // width of one at 11px, about
const LINE = 13;
const LONGEST = 30; // letters of a label
const AWAY = 8; // from the point to its label

// room: width that there is, in pixels; letters keep their size whatever it is
export function plot(concept, neighbours, link, room) {
  const width = Math.max(NARROWEST, Math.min(WIDEST, room));
  const size = { width, height: Math.round(Math.max(230, width * 0.5)) };
  const all = neighbours.map((one) => ({ ...one, here: one.concept === concept.id }));
  all.sort((one, other) => other.here - one.here || other.cosine - one.cosine); // the nearest get a label first
  const points = scaled(all, size);
  const taken = points.map(({ px, py }) => ({ left: px - 5, right: px + 5, top: py - 5, bottom: py + 5 }));
  const named = new Set(); // two concepts of one name in one place get one label
  const marks = points.map((point, place) => mark(point, label(point, taken, place, size, named), link));
  return s("svg", { class: "plot", viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": `Map of what is near ${concept.name}` },
    marks.reverse()); // the nearest on top
}

// One scale for both directions: distances stay true.
function scaled(points, { width, height }) {
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min((width - 2 * EDGE) / (right - left || 1), (height - 2 * EDGE) / (high - low || 1));
  return points.map((point) => ({
    ...point,
    px: width / 2 + (point.x - (left + right) / 2) * scale,
    py: height / 2 - (point.y - (low + high) / 2) * scale,
  }));
}

// A label where there is room around its point, or else only when that is pointed at.
function label(point, taken, own, size, named) {
  const text = point.name.length > LONGEST ? `${point.name.slice(0, LONGEST - 1)}…` : point.name;
  const width = text.length * LETTER * (point.here ? 1.08 : 1);
  const places = [
    { anchor: "start", x: point.px + AWAY, y: point.py, left: point.px + AWAY },
    { anchor: "end", x: point.px - AWAY, y: point.py, left: point.px - AWAY - width },
    { anchor: "middle", x: point.px, y: point.py - LINE, left: point.px - width / 2 },
    { anchor: "middle", x: point.px, y: point.py + LINE, left: point.px - width / 2 },
  ].map((one) => ({ ...one, right: one.left + width, top: one.y - LINE / 2, bottom: one.y + LINE / 2 }));
  const inside = places.filter((one) => one.left > 0 && one.right < size.width && one.top > 0 && one.bottom < size.height);
  const known = named.has(point.name.toLowerCase());
  const free = !known && inside.find((box) => taken.every((other, number) => number === own
    || other.right < box.left || other.left > box.right || other.bottom < box.top || other.top > box.bottom));
  const chosen = free || inside[0] || places[0];
  if (free || point.here) {
    taken.push(chosen);
    named.add(point.name.toLowerCase());
  }
  return { ...chosen, text, late: !free && !point.here };
}

function mark(point, shown, link) {
  const parts = [
    s("title", {}, point.name),
    s("circle", { class: "hit", cx: point.px, cy: point.py, r: 12 }),
    s("circle", { class: point.here ? "here" : "", cx: point.px, cy: point.py, r: point.here ? 7 : 4.5 }),
    s("text", { class: shown.late ? "late" : "", x: shown.x, y: shown.y + 4, "text-anchor": shown.anchor }, shown.text),
  ];
  // The list below has the same links, for the keyboard.
  return point.here ? s("g", {}, parts) : s("a", { href: link(point.concept), tabindex: "-1", "aria-hidden": "true" }, parts);
}
