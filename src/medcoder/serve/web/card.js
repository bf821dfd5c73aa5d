// One source term: what it is, what is offered, what is decided.

import { h, key, term as said } from "./dom.js";
import { keep, recall } from "./kept.js";
import { attributes, codes, status, steps, sure, underlined, why } from "./marks.js";
import { write } from "./route.js";
import { inWords } from "./terms.js";
import { EQUIVALENCES, count, language, when } from "./words.js";

const KEYS = 5; // candidates that have a key
const NAMES = Object.keys(EQUIVALENCES);

// acts: choose(candidate), none(), another(), undo(), history(), changed()
export function card(place, project, acts) {
  let term = null;
  let note = null;
  let equivalence = "equivalent";

  const draft = () => `note.${project}.${term.key}`;

  function show(next) {
    term = next;
    if (!term) {
      place.replaceChildren();
      return;
    }
    const made = term.decision;
    equivalence = made && made.equivalence in EQUIVALENCES ? made.equivalence : "equivalent";
    note = h("textarea", {
      id: "note", rows: "1", maxlength: "2000", placeholder: "Note (c)", "aria-label": "Note", "aria-keyshortcuts": "c",
      value: recall(draft(), made?.note ?? ""),
      oninput: () => { keep(draft(), note.value === (made?.note ?? "") ? null : note.value); edited(); },
      onkeydown: (event) => {
        if (event.key === "Escape" || (event.key === "Enter" && (event.ctrlKey || event.metaKey))) {
          event.preventDefault();
          if (event.key === "Enter" && isEdited()) acts.changed();
          focus();
        }
      },
    });
    place.replaceChildren(head(), offers(), tools(), details());
    edited();
  }

  function head() {
    const context = Object.entries(term.context).filter(([, value]) => value);
    const made = term.decision;
    return h("header", { class: "term" },
      h("h1", { tabindex: "-1" }, term.parts.length ? underlined(term.text, term.parts, term.language) : said(term.text, term.language)),
      h("p", { class: "row soft" },
        h("span", { class: "state" }, status(term.status)),
        h("span", {}, `${count(term.count)}×`),
        term.code && h("span", { class: "chip code" }, term.code),
        term.language && h("span", {}, language(term.language)),
        context.map(([name, value]) => h("span", {}, `${name}: ${value}`))),
      term.flag && h("p", { class: "flag" }, term.flag),
      term.review && h("p", { class: "look-at" }, h("b", {}, "To be looked at: "), h("span", { dir: "auto" }, `${term.review}.`)),
      term.said && h("p", { class: "soft", dir: "auto" }, `Said: ${term.said}`),
      steps(term.steps),
      term.parts.length > 0 && h("p", { class: "soft small" }, "Several things: the candidates are of the part that they name. A decision is for all of it."),
      made && h("p", { class: "decided" }, h("b", { dir: "auto" }, inWords(made)), ` – ${made.who}, ${when(made.when)}`,
        term.saving && h("span", { class: "soft" }, " · saving"), made.note && h("span", { class: "soft", dir: "auto" }, ` · ${made.note}`)));
  }

  function offers() {
    const chosen = term.decision?.concept ?? null;
    const listed = term.candidates.slice(0, 9);
    const extra = chosen !== null && !listed.some((one) => one.concept === chosen);
    return h("ol", { class: "offers", "aria-label": "Candidates" },
      listed.map((one, place) => offer(one, place, one.concept === chosen)),
      extra && offer({ ...term.decision, stage: "chosen by search", confidence: null }, null, true),
      !listed.length && !extra && h("li", { class: "empty" }, "The machine offers nothing for this term."));
  }

  function offer(one, place, chosen) {
    const numbered = place !== null && place < KEYS;
    return h("li", { class: chosen ? "chosen" : "" },
      h("button", {
        type: "button", class: "offer", "aria-pressed": String(chosen), "aria-keyshortcuts": numbered ? String(place + 1) : undefined,
        onclick: () => acts.choose(one),
      },
      h("span", { class: "digit" }, numbered ? key(String(place + 1)) : h("span", { "aria-hidden": "true" }, "·")),
      h("span", { class: "name", dir: "auto" }, one.name || one.concept),
      one.confidence === null ? h("span", {}) : sure(one.confidence),
      h("span", { class: "why" }, part(one), attributes(one.attributes), " ", why(one), " ", codes(one.codes, 3 + (one.twins?.length ?? 0)))),
      h("a", { class: "more", href: write("look", [], { q: term.text, c: one.concept }), title: "Open in Look up", "aria-label": `Open ${one.name} in Look up` }, "›"));
  }

  // The words that a candidate is for, where the cell has several things.
  function part({ span }) {
    const of = span && term.parts.find((some) => some.span[0] === span[0] && some.span[1] === span[1]);
    return of ? [h("u", { dir: "auto" }, of.text), " · "] : null;
  }

  function tools() {
    return h("div", { class: "acts" },
      h("button", { type: "button", "aria-keyshortcuts": "n", "aria-pressed": String(term.decision !== null && term.decision.concept === null), onclick: acts.none }, key("n"), "None"),
      h("button", { type: "button", "aria-keyshortcuts": "/", onclick: acts.another }, key("/"), "Search another"),
      h("button", { type: "button", "aria-keyshortcuts": "u", onclick: acts.undo }, key("u"), "Undo"),
      h("button", { type: "button", class: "quiet", "aria-keyshortcuts": "h", onclick: acts.history }, key("h"), "History"));
  }

  function details() {
    const choices = h("fieldset", { class: "equivalence" }, h("legend", { class: "hidden" }, "Equivalence (e)"),
      NAMES.map((name) => {
        const box = h("input", { type: "radio", name: "equivalence", value: name, onchange: () => { equivalence = name; edited(); } });
        box.checked = name === equivalence;
        return h("label", {}, box, h("span", {}, EQUIVALENCES[name]));
      }));
    return h("div", { class: "details" }, choices, note,
      h("button", { type: "button", class: "main save", hidden: true, onclick: acts.changed }, "Save change"));
  }

  function isEdited() {
    const made = term.decision;
    return Boolean(made) && (note.value !== made.note || (made.concept !== null && equivalence !== made.equivalence));
  }

  function edited() {
    place.querySelector(".save").hidden = !isEdited();
  }

  function nextEquivalence() {
    const next = NAMES[(NAMES.indexOf(equivalence) + 1) % NAMES.length];
    const box = place.querySelector(`input[value="${next}"]`);
    if (box) box.click();
    return EQUIVALENCES[next];
  }

  function focus() {
    const heading = place.querySelector("h1");
    heading?.focus({ preventScroll: true });
    if (heading?.getBoundingClientRect().top < 0) heading.scrollIntoView(); // below it on a phone
  }

  return {
    show, focus, nextEquivalence, isEdited,
    term: () => term,
    typed: () => ({ note: note.value.trim(), equivalence }),
    forget: () => keep(draft(), null),
    writeNote: () => note.focus(),
  };
}
