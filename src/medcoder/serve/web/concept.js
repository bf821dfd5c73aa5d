// A concept: its names by language, its codes, its neighbours in the graph and by meaning.

import { get } from "./api.js";
import { h, say, term } from "./dom.js";
import { codes } from "./marks.js";
import { plot } from "./plot.js";
import { curie, language, plural } from "./words.js";
import { toast } from "./toast.js";

const FEW = 12; // names of a language and neighbours of a relation before "all"
const LONGEST = 8; // steps of the trail

export function conceptPage(place, { link, back }) {
  let trail = []; // what one walked along
  let wanted = null;
  let drawn = null;

  async function show(id) {
    wanted = id;
    place.setAttribute("aria-busy", "true");
    try {
      const [concept, near] = await Promise.all([
        get(`concepts/${encodeURIComponent(id)}`),
        get(`concepts/${encodeURIComponent(id)}/neighbours`, { top: 30 }).catch(() => null),
      ]);
      if (wanted !== id) return;
      draw(concept, near);
    } catch (error) {
      if (wanted !== id) return;
      place.replaceChildren(returning(), h("p", { class: "error", role: "alert" }, error.message));
    } finally {
      if (wanted === id) place.removeAttribute("aria-busy");
    }
  }

  function draw(concept, near) {
    const at = trail.findIndex((step) => step.id === concept.id);
    trail = at >= 0 ? trail.slice(0, at + 1) : [...trail, { id: concept.id, name: concept.name }].slice(-LONGEST);
    const inside = place.contains(document.activeElement);
    const heading = h("h1", { tabindex: "-1", dir: "auto" }, concept.name);
    place.replaceChildren(
      returning(),
      trail.length > 1 && h("nav", { "aria-label": "The way here" }, h("ol", { class: "trail" }, trail.map((step) =>
        h("li", {}, step.id === concept.id ? h("span", { "aria-current": "page" }, step.name) : h("a", { href: link(step.id) }, step.name))))) || "",
      h("header", { class: "stack" }, heading,
        concept.flags.includes("heading") && h("p", { class: "flag" }, "A heading: it says where concepts belong, and is no code."), facts(concept)),
      names(concept), references(concept), relations(concept), near && neighbourhood(concept, near) || "");
    place.scrollTop = 0;
    // Who walks by keyboard stays in the page; who types stays in the field.
    if (inside || drawn !== null && matchMedia("(max-width: 55.99rem)").matches) heading.focus();
    drawn = concept.id;
    say(`${concept.name}, ${plural(concept.relations_total, "neighbour")} in the graph`);
  }

  function returning() {
    return h("button", { type: "button", class: "link back", onclick: back }, "‹ Results");
  }

  function facts(concept) {
    const all = concept.codes;
    const known = new Set(all.map(curie));
    return h("div", { class: "chips" },
      !known.has(concept.id) && copy(concept.id),
      all.slice(0, 20).map((code) => copy(curie(code))),
      concept.types.map((type) => h("span", { class: "chip" }, type.name)));
  }

  function names(concept) {
    const languages = Object.entries(concept.names);
    languages.sort(([one], [other]) => (other === "en") - (one === "en") || one.localeCompare(other));
    return h("section", {}, h("h2", {}, "Names"),
      h("dl", { class: "synonyms" }, languages.map(([tag, list]) => {
        const texts = [...new Map(list.map((one) => [one.text, one])).values()];
        const body = h("dd", {});
        const put = (most) => body.replaceChildren(
          ...texts.slice(0, most).map((one) => {
            const shown = term(one.text, tag);
            shown.title = [one.source, one.code, one.kind].filter(Boolean).join(" · ");
            return shown;
          }),
          texts.length > most ? more(texts.length - most, () => put(Infinity)) : "");
        put(FEW);
        return [h("dt", {}, language(tag)), body];
      })));
  }

  function references({ xrefs }) {
    if (!xrefs.length) return "";
    return h("section", {}, h("h2", {}, "Said to match"), codes(xrefs, 40));
  }

  function relations(concept) {
    const list = concept.relations;
    if (!list.length) return "";
    const groups = new Map();
    for (const one of list) {
      const name = relation(one);
      groups.set(name, [...(groups.get(name) ?? []), one]);
    }
    const left = concept.relations_total - list.length;
    return h("section", {}, h("h2", {}, "In the graph"),
      h("dl", { class: "relations" }, [...groups].map(([name, some]) => {
        const body = h("dd", {});
        const put = (most) => body.replaceChildren(
          ...some.slice(0, most).map((one) => h("a", { href: link(one.concept), dir: "auto" }, one.name)),
          some.length > most ? more(some.length - most, () => put(Infinity)) : "");
        put(FEW);
        return [h("dt", {}, name), body];
      })),
      left > 0 && h("p", { class: "soft small" }, `${plural(left, "more neighbour")} not shown`));
  }

  function neighbourhood(concept, answer) {
    const others = answer.neighbours.filter((one) => one.concept !== concept.id);
    if (!others.length) return "";
    return h("section", {}, h("h2", {}, "Near in meaning"),
      plot(concept, answer.neighbours, link, place.clientWidth - 32),
      h("ol", { class: "near" }, others.map((one) => h("li", {},
        h("a", { href: link(one.concept), dir: "auto" }, one.name), h("span", { class: "number", title: "Cosine of the vectors" }, one.cosine.toFixed(2))))));
  }

  return { show };
}

// In words of one who looks from the concept outwards.
function relation({ relation: name, direction }) {
  if (/^(is_?a|subclass_?of|inverse_isa)$/i.test(name)) {
    const up = (direction === "out") !== name.toLowerCase().startsWith("inverse");
    return up ? "Broader" : "Narrower";
  }
  const plain = name.replaceAll("_", " ");
  return direction === "out" ? `${plain} →` : `← ${plain}`;
}

function more(number, act) {
  return h("button", { type: "button", class: "link", onclick: act }, ` ${number} more`);
}

function copy(text) {
  return h("button", {
    type: "button", class: "chip code copy", title: "Copy", onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        toast(`${text} is copied`);
      } catch {
        toast("The browser does not let this page copy");
      }
    },
  }, text);
}
