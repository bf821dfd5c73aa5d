// Look up: ranked concepts as one types, and the page of the one that is chosen.

import { get } from "./api.js";
import { conceptPage } from "./concept.js";
import { debounce, h, say } from "./dom.js";
import { filters } from "./filters.js";
import { isOpen } from "./dialog.js";
import { typing } from "./keys.js";
import { attributes, codes, scores, steps, sure, underlined, why } from "./marks.js";
import { go, replace, write } from "./route.js";
import { plural, sentence } from "./words.js";

const WAIT = 110; // ms after a key
const TOP = 12;
const KINDS = ["types", "vocabularies", "languages", "targets"];
const EXAMPLES = ["heart attack", "high blod pressure", "type 2 diabetes"];

export function mount(root, route) {
  const chosen = Object.fromEntries(KINDS.map((kind) => [kind, new Set(route.query.getAll(kind))]));
  const field = h("input", {
    type: "search", "aria-label": "Words to look up", placeholder: "Type a diagnosis, a finding, an abbreviation…",
    autocomplete: "off", autocapitalize: "off", spellcheck: "false", "data-start": true, maxlength: "500",
    oninput: () => later(), onkeydown: fromField,
  });
  const found = h("section", { class: "found", "aria-label": "Results" });
  const place = h("article", { class: "concept panel", "aria-label": "Concept", hidden: true });
  const bar = filters(chosen, () => search());
  const view = h("div", { class: "look" },
    h("div", { class: "ask stack", role: "search" }, h("h1", { class: "hidden" }, "Look up"), h("div", { class: "search" }, field), bar),
    found, place);
  root.append(view);

  let asked = null; // what the results are of
  let open = null; // the concept that is shown
  let stop = new AbortController();
  const later = debounce(WAIT, () => search());
  const here = (concept = open) => write("look", [], {
    q: field.value.trim(), c: concept, ...Object.fromEntries(KINDS.map((kind) => [kind, [...chosen[kind]]])),
  });
  const page = conceptPage(place, {
    link: (concept) => here(concept),
    back: () => { go(here(null)); field.focus(); },
  });

  async function search() {
    later.cancel();
    const text = field.value.trim();
    const query = { q: text, top: TOP, split: true, ...Object.fromEntries(KINDS.map((kind) => [kind, [...chosen[kind]]])) };
    const now = JSON.stringify(query);
    if (now === asked) return;
    asked = now;
    stop.abort();
    stop = new AbortController();
    replace(here());
    if (!text) {
      found.replaceChildren(start());
      return;
    }
    const list = found.querySelector(".results");
    list?.setAttribute("aria-busy", "true");
    try {
      const answer = await get("search", query, { signal: stop.signal });
      show(answer);
    } catch (error) {
      if (error.name === "AbortError") return;
      asked = null;
      found.replaceChildren(h("p", { class: "empty error", role: "alert" }, error.message));
    }
  }

  function show(answer) {
    const { matches, parts, query, reason, review } = answer;
    if (!matches.length && !parts.length) {
      found.replaceChildren(h("div", { class: "empty" }, h("p", {}, reason ? sentence(reason) : "Nothing is like this."),
        review && h("p", {}, sentence(review)),
        steps(answer.steps), h("p", {}, "Other words, or fewer filters, may find more.")));
      say("No concepts");
      return;
    }
    found.replaceChildren(...(parts.length
      ? [h("p", { class: "cell" }, underlined(query, parts)), ...parts.map(part)]
      : [h("div", { class: "results" }, read(answer), h("ol", {}, matches.map(result)))]));
    mark();
    const doubt = review ? `. To be looked at: ${review}` : "";
    say(parts.length ? `${plural(parts.length, "thing")}${doubt}` : `${plural(matches.length, "concept")}${doubt}`);
  }

  // One of several things: its words, and its own list.
  function part(answer) {
    return h("section", { class: "results", "aria-label": answer.query }, h("h2", {}, h("u", { dir: "auto" }, answer.query)), read(answer),
      answer.matches.length ? h("ol", {}, answer.matches.map(result)) : h("p", { class: "doubt" }, "Nothing is like this."));
  }

  // How a string was read, and why its first concept is no match.
  function read({ accepted, matches, reason, review, steps: taken }) {
    return [steps(taken),
      review && h("p", { class: "doubt" }, h("b", {}, "To be looked at: "), `${review}.`),
      !review && !accepted && matches.length > 0 && h("p", { class: "doubt" }, reason ? `${sentence(reason)} ` : "None is likely to be meant. ", "The nearest are:")];
  }

  function result(match) {
    const types = match.types.map((type) => type.name).join(", ");
    return h("li", {}, h("a", { class: "result", href: here(match.concept), "data-concept": match.concept, onkeydown: fromResult },
      h("span", {}, h("span", { class: "name", dir: "auto" }, match.name), " ", attributes(match.attributes), " ", codes(match.codes, 2 + match.twins.length)), sure(match.confidence),
      h("span", { class: "why", title: types }, why(match), types && ` · ${types}`),
      h("span", { class: "scores" }, scores(match))));
  }

  function start() {
    return h("div", { class: "empty" }, h("p", {}, "Concepts appear as you type, in any language that the terminology has."),
      h("p", {}, "For example ", EXAMPLES.map((text, place) => [place ? ", " : "",
        h("a", { href: write("look", [], { q: text }) }, text)])));
  }

  function mark() {
    for (const link of found.querySelectorAll(".result")) {
      if (link.dataset.concept === open) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  function fromField(event) {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      const first = found.querySelector(".result");
      if (!first) return;
      event.preventDefault();
      if (event.key === "Enter") first.click();
      else first.focus();
    }
  }

  function fromResult(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      const all = [...found.querySelectorAll(".result")];
      (all[all.indexOf(event.currentTarget) + step] ?? (step < 0 ? field : event.currentTarget)).focus();
    } else if (event.key === "Escape") field.focus();
  }

  function update(next) {
    const text = next.query.get("q") ?? "";
    if (text !== field.value.trim()) field.value = text;
    const to = next.query.get("c");
    if (to !== open) {
      open = to;
      view.classList.toggle("opened", Boolean(open));
      place.hidden = !open;
      for (const link of found.querySelectorAll(".result")) link.href = here(link.dataset.concept);
      if (open) page.show(open);
      mark();
    }
    search();
  }

  function onkey(event) {
    if (event.key !== "/" || typing(event) || isOpen()) return;
    event.preventDefault();
    field.focus();
    field.select();
  }
  document.addEventListener("keydown", onkey);
  update(route);
  return { update, close: () => { document.removeEventListener("keydown", onkey); stop.abort(); } };
}
