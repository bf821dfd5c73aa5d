// What is around the queue and the term: project, progress, filters, messages.

import { debounce, h, key } from "./dom.js";
import { askWho, who } from "./who.js";
import { STATUSES, count, plural } from "./words.js";

const SORTS = { doubt: "By doubt", count: "By frequency", row: "By row" };

// acts: filter({status, sort, q}), bulk(), step(by)
export function frame(root, choose, asked, acts) {
  const name = h("button", { type: "button", class: "quiet", title: "Who reviews", onclick: async () => { await askWho({ change: true }); named(); } });
  const statuses = h("div", { class: "statuses", role: "group", "aria-label": "Show terms by status" });
  const bar = h("div", { class: "stack-bar", "aria-hidden": "true" });
  const waiting = h("p", { class: "waiting", role: "status", hidden: true });
  const promise = h("p", { class: "promise", role: "status", hidden: true });
  const others = h("p", { class: "others", hidden: true });
  const words = h("input", {
    type: "search", placeholder: "Filter by words", "aria-label": "Filter by words", maxlength: "200",
    oninput: debounce(200, () => acts.filter({ q: words.value.trim() })),
    onkeydown: (event) => { if (event.key === "Escape") words.blur(); },
  });
  const sort = h("select", { "aria-label": "Sort by", onchange: () => acts.filter({ sort: sort.value }) },
    Object.entries(SORTS).map(([value, text]) => h("option", { value }, text)));
  const list = h("div", { class: "queue-list" });
  const card = h("div", { class: "card" });
  const at = h("span", { class: "soft number" });
  const end = h("div", {});
  let counts = {};

  root.replaceChildren(h("div", { class: "reviewing" },
    h("header", { class: "over stack" },
      h("div", { class: "review-head" }, choose, statuses,
        h("div", { class: "end" }, name, h("button", { type: "button", "aria-keyshortcuts": "b", onclick: acts.bulk }, key("b"), "Accept above…"))),
      bar, promise, waiting),
    h("aside", { class: "queue-box panel", "aria-label": "Queue" }, h("div", { class: "queue-tools" }, words, sort), list),
    h("section", { class: "stack", "aria-label": "Term" },
      h("div", { class: "steps" },
        h("button", { type: "button", onclick: () => acts.step(-1), "aria-label": "Previous term" }, "‹"), at,
        h("button", { type: "button", onclick: () => acts.step(1), "aria-label": "Next term" }, "›")),
      others, card, end)));

  function named() {
    name.textContent = who() || "Who reviews?";
  }

  function draw() {
    const total = Object.values(counts).reduce((sum, one) => sum + one.terms, 0);
    const button = (status, text, number) => h("button", {
      type: "button", "aria-pressed": String(asked.status === status), onclick: () => acts.filter({ status }),
    }, status && h("span", { class: `dot ${status}`, "aria-hidden": "true" }), text, h("b", {}, count(number)));
    const focused = [...statuses.children].indexOf(document.activeElement);
    statuses.replaceChildren(
      ...Object.entries(STATUSES).filter(([status]) => counts[status]?.terms || status === asked.status || status === "review")
        .map(([status, text]) => button(status, text, counts[status]?.terms)),
      button("", "All", total));
    statuses.children[focused]?.focus();
    bar.replaceChildren(...["approved", "auto", "review", "flagged", "none"].map((status) =>
      h("i", { class: status, vars: { share: counts[status]?.terms ?? 0 } })));
  }

  // Said again by screen readers only if it is another warning.
  function warn(warning) {
    promise.hidden = !warning;
    const text = warning ? `Warning: ${warning}.` : "";
    if (promise.textContent !== text) promise.textContent = text;
  }

  named();
  return {
    list, card,
    asked: () => {
      end.replaceChildren();
      sort.value = asked.sort;
      if (document.activeElement !== words) words.value = asked.q;
      draw();
    },
    summary: (summary) => { counts = summary.counts ?? {}; named(); draw(); warn(summary.promise?.warning ?? ""); },
    place: ([number, of]) => { at.textContent = of ? `${count(number)} of ${count(of)}` : ""; end.replaceChildren(); },
    others: (text) => { others.hidden = !text; others.textContent = text; },
    waiting: (number, error) => {
      waiting.hidden = !(number && error);
      waiting.textContent = number && error ? `${plural(number, "decision")} not saved yet: ${error.message} They are kept here and sent again.` : "";
    },
    failed: (error) => card.replaceChildren(h("p", { class: "error panel", role: "alert" }, error.message)),
    nothing: ({ status, q }) => end.replaceChildren(h("div", { class: "empty panel" },
      h("p", {}, q ? "No term has these words." : status === "review" ? "Nothing is left to review." : "No term has this status."),
      h("p", {}, h("a", { href: "#/export" }, "Export what there is")))),
    finished: () => end.replaceChildren(h("div", { class: "empty panel" }, h("p", {}, "That was the last one here."),
      h("p", {}, "Choose another status above, or ", h("a", { href: "#/export" }, "export"), "."))),
  };
}
