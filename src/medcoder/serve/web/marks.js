// Small parts that several views show.

import { h, hidden, term } from "./dom.js";
import { STAGES, STATUSES, curie, language, percent } from "./words.js";

// How sure the machine is, as a bar and a number.
export function sure(confidence) {
  return h("span", { class: "sure" },
    h("span", { class: "bar", "aria-hidden": "true" }, h("i", { vars: { share: confidence ?? 0 } })),
    hidden("confidence "), h("span", { class: "share" }, percent(confidence)));
}

export function status(name) {
  return [h("span", { class: `dot ${name}`, "aria-hidden": "true" }), " ", STATUSES[name] ?? name];
}

export function codes(list, most = 4) {
  const shown = (list ?? []).slice(0, most);
  const left = (list ?? []).length - shown.length;
  return h("span", { class: "chips" },
    shown.map((code) => h("span", { class: "chip code" }, curie(code))),
    left > 0 && h("span", { class: "chip" }, `+${left}`));
}

// What a string says of a thing beside its name: it was, it is on the left.
export function attributes(list) {
  if (!list?.length) return null;
  return h("span", { class: "chips" }, list.map(({ kind, value, text }) =>
    h("span", { class: "chip said", title: `${kind}: ${text}` }, kind === "date" ? text : value || kind)));
}

// A text with its parts underlined. Places are counted in characters, as the service does.
export function underlined(text, parts, language) {
  const letters = [...text];
  const cut = (start, end) => letters.slice(start, end).join("");
  const pieces = [];
  let last = 0;
  for (const { span: [start, end] } of parts.filter((part) => part.span)) {
    pieces.push(cut(last, start), h("u", {}, cut(start, end)));
    last = end;
  }
  return h("span", { lang: language || undefined, dir: "auto" }, pieces, cut(last));
}

// What was done with a string before it was looked up.
export function steps(list) {
  return list?.length ? h("ul", { class: "taken soft small", "aria-label": "How it was read" }, list.map((step) => h("li", { dir: "auto" }, step))) : null;
}

// Why a concept is offered: how it was found, by which of its terms.
export function why(match) {
  const [alone, by] = STAGES[match.stage] ?? [match.stage, match.stage];
  const same = !match.term || match.term.toLowerCase() === match.name?.toLowerCase();
  return [
    same ? alone : [`${by} “`, term(match.term, match.language), "”"],
    match.language && match.language !== "en" && ` · ${language(match.language)}`,
    match.source && ` · ${match.source}`,
  ];
}

export function scores(match) {
  const number = (value) => (value === null || value === undefined ? null : value.toFixed(2));
  const parts = [["meaning", number(match.cosine)], ["spelling", number(match.similarity)]];
  return parts.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${value}`).join(" · ");
}
