// All that was decided on a term, newest first.

import { get } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { inWords } from "./terms.js";
import { when } from "./words.js";

const DID = { decide: "decided", undo: "undid, back to", flag: "flagged" };

export async function showHistory(project, term) {
  const path = `projects/${encodeURIComponent(project)}/terms/${term.key}/history`;
  const answer = await get(path);
  const events = [...answer.events].reverse();
  return ask("History", () => h("div", { class: "stack" }, h("p", {}, "“", h("b", { dir: "auto" }, term.text), "”"),
    events.length
      ? h("ol", { class: "history" }, events.map((event) => h("li", {},
        h("b", {}, event.who), ` ${DID[event.action] ?? event.action} `, h("span", { dir: "auto" }, event.action === "flag" ? event.flag : inWords(event.decision)),
        event.note && h("span", { class: "soft" }, ` – ${event.note}`), h("span", { class: "soft small" }, ` ${when(event.when)}`))))
      : h("p", { class: "soft" }, "Nothing is decided yet.")));
}
