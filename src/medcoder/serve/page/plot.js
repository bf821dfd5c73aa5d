// The neighbourhood of a concept as a small map: near points mean nearly the same.

import { s } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 300;
const EDGE = 26;
const LETTER = 5.9; // width of one at 11px, about
const LINE = 13;

export function plot(concept, answer, others, link) {
  const here = { id: concept.id, name: concept.name, x: answer.x ?? 0, y: answer.y ?? 0, here: true };
  const self = (answer.neighbours ?? answer.concepts ?? []).find((one) => (one.concept ?? one.id) === concept.id);
  if (self) Object.assign(here, { x: self.x, y: self.y });
  if (Array.isArray(answer.centre)) [here.x, here.y] = answer.centre;
  const points = scaled([here, ...others]);
  const taken = points.map(({ px, py }) => ({ left: px - 5, right: px + 5, top: py - 5, bottom: py + 5 }));
  const marks = points.map((point) => mark(point, label(point, taken), link));
  return s("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": `Map of what is near ${concept.name}` },
    marks.slice(1), marks[0]);
}

// One scale for both directions: distances stay true.
function scaled(points) {
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min((WIDTH - 2 * EDGE) / (right - left || 1), (HEIGHT - 2 * EDGE) / (high - low || 1));
  return points.map((point) => ({
    ...point,
    px: WIDTH / 2 + (point.x - (left + right) / 2) * scale,
    py: HEIGHT / 2 - (point.y - (low + high) / 2) * scale,
  }));
}

// A label where there is room: right or left of its point, or only when it is pointed at.
function label(point, taken) {
  const text = point.name.length > 30 ? `${point.name.slice(0, 29)}…` : point.name;
  const width = text.length * LETTER;
  const right = point.px + 8 + width < WIDTH;
  for (const anchor of right ? ["start", "end"] : ["end", "start"]) {
    const left = anchor === "start" ? point.px + 8 : point.px - 8 - width;
    const box = { left, right: left + width, top: point.py - LINE / 2, bottom: point.py + LINE / 2 };
    const free = box.left > 0 && box.right < WIDTH && taken.every((other) =>
      other.right < box.left || other.left > box.right || other.bottom < box.top || other.top > box.bottom);
    if (free || point.here) {
      taken.push(box);
      return { text, anchor, late: false };
    }
  }
  return { text: point.name, anchor: point.px > WIDTH / 2 ? "end" : "start", late: true };
}

function mark(point, shown, link) {
  const away = shown.anchor === "start" ? 8 : -8;
  const parts = [
    s("title", {}, point.name),
    s("circle", { class: "hit", cx: point.px, cy: point.py, r: 12 }),
    s("circle", { class: point.here ? "here" : "", cx: point.px, cy: point.py, r: point.here ? 7 : 4.5 }),
    s("text", { class: shown.late ? "late" : "", x: point.px + away, y: point.py + 4, "text-anchor": shown.anchor, "font-weight": point.here ? 600 : undefined }, shown.text),
  ];
  return point.here ? s("g", {}, parts) : s("a", { href: link(point.id), "aria-label": point.name, tabindex: "-1" }, parts);
}
