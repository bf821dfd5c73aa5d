// The terms that are to be looked at, a page at a time.

import { get } from "./api.js";
import { h, hidden } from "./dom.js";
import { asTerm, confidence, decided } from "./terms.js";
import { STATUSES, count, percent, plural } from "./words.js";

const PAGE = 60;

// pick(key) shows a term; link(key) is its address.
export function queue(place, { link, pick }) {
  let source = null; // { project, status, sort, q }
  let terms = [];
  let total = 0;
  let current = null;
  let turn = 0;
  const list = h("ol", { class: "queue" });
  const foot = h("p", { class: "soft small queue-foot" });
  place.replaceChildren(list, foot);
  list.addEventListener("click", (event) => {
    const at = event.target.closest("a");
    if (!at || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    pick(at.dataset.key);
  });

  async function page(offset) {
    const { project, status, sort, q } = source;
    const answer = await get(`projects/${encodeURIComponent(project)}/terms`, { status, sort, q, offset, limit: PAGE });
    return { terms: answer.terms.map(asTerm), total: answer.total };
  }

  async function open(next) {
    source = next;
    const mine = (turn += 1);
    place.setAttribute("aria-busy", "true");
    try {
      const answer = await page(0);
      if (mine !== turn) return false;
      ({ terms, total } = answer);
      draw();
      return true;
    } finally {
      if (mine === turn) place.removeAttribute("aria-busy");
    }
  }

  // What was decided has left the list of the service, where it is one of open terms.
  async function more() {
    const mine = turn;
    const still = terms.filter((term) => !source.status || term.status === source.status).length;
    const answer = await page(still);
    if (mine !== turn) return 0;
    const known = new Set(terms.map((term) => term.key));
    const fresh = answer.terms.filter((term) => !known.has(term.key));
    total = answer.total;
    terms.push(...fresh);
    draw();
    return fresh.length;
  }

  function add(term) {
    if (terms.some((one) => one.key === term.key)) return;
    terms.unshift(term);
    draw();
  }

  function item(term) {
    return h("li", {}, h("a", { href: link(term.key), "data-key": term.key },
      h("span", { class: `dot ${term.status}`, "aria-hidden": "true" }),
      h("span", { class: "what", dir: "auto" }, term.text),
      hidden(`, ${STATUSES[term.status]}`),
      h("span", { class: "small soft number" }, `${count(term.count)}×`),
      h("span", { class: "small soft number" }, decided(term) ? "✓" : term.candidates.length ? percent(confidence(term)) : "–")));
  }

  function draw() {
    list.replaceChildren(...terms.map(item));
    mark();
    const left = remaining();
    foot.replaceChildren(terms.length ? `${count(terms.length)} shown` : "No such term.", left > 0 ? h("button", { type: "button", class: "link", onclick: () => more() }, `${plural(left, "more", "more")}`) : "");
  }

  function remaining() {
    const still = terms.filter((term) => !source?.status || term.status === source.status).length;
    return Math.max(0, total - still);
  }

  function mark() {
    for (const at of list.querySelectorAll("a")) {
      if (at.dataset.key !== current) at.removeAttribute("aria-current");
      else {
        at.setAttribute("aria-current", "true");
        at.scrollIntoView({ block: "nearest" });
      }
    }
  }

  // Draw one term again where it is.
  function redraw(term) {
    const at = list.querySelector(`a[data-key="${CSS.escape(term.key)}"]`);
    at?.parentElement.replaceWith(item(term));
    mark();
  }

  function step(by) {
    const at = terms.findIndex((term) => term.key === current);
    return terms[at + by] ?? null;
  }

  // The next that is open, after the current one and then from the start.
  function nextOpen() {
    const at = terms.findIndex((term) => term.key === current);
    const open_ = (term) => !decided(term) && term.key !== current;
    return terms.slice(at + 1).find(open_) ?? terms.find(open_) ?? null;
  }

  return {
    open, more, add, redraw, step, nextOpen, remaining,
    find: (key) => terms.find((term) => term.key === key) ?? null,
    first: () => terms.find((term) => !decided(term)) ?? terms[0] ?? null,
    select: (key) => { current = key; mark(); },
    place: () => [terms.findIndex((term) => term.key === current) + 1, terms.length],
    lower: (number) => { total = Math.max(0, total - number); },
  };
}
