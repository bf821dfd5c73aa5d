// Mapping jobs: how far they are, what came of them.

import { get, remove } from "./api.js";
import { h, say } from "./dom.js";
import { write } from "./route.js";
import { failed } from "./toast.js";
import { count, percent, when } from "./words.js";

const EVERY = 700; // ms while one runs
const RUNNING = ["waiting", "running"];
const STATES = { waiting: "Waiting", running: "Running", done: "Done", failed: "Failed", cancelled: "Cancelled" };

export function jobs() {
  const list = h("ul", { class: "jobs" });
  const element = h("section", { class: "panel stack", "aria-label": "Mapping jobs", tabindex: "-1", hidden: true }, h("h2", {}, "Jobs"), list);
  const states = new Map();
  const items = new Map();
  let timer = 0;
  let closed = false;

  async function refresh() {
    clearTimeout(timer);
    try {
      const answer = await get("jobs");
      show(answer.jobs);
    } catch (error) {
      if (!closed && !states.size) failed(error);
      timer = closed ? 0 : setTimeout(refresh, 5 * EVERY);
    }
  }

  function show(all) {
    if (closed) return;
    element.hidden = !all.length;
    const newest = [...all].reverse();
    for (const job of newest) {
      const before = states.get(job.id);
      if (before !== undefined && before !== job.state) say(`${named(job)}: ${STATES[job.state] ?? job.state}`);
      states.set(job.id, job.state);
      let item = items.get(job.id);
      if (!item || before !== job.state) {
        const fresh = draw(job);
        if (item?.contains(document.activeElement)) element.focus();
        item?.replaceWith(fresh);
        item = fresh;
        items.set(job.id, item);
      } else move(item, job);
    }
    const order = newest.map((job) => items.get(job.id));
    if (order.some((item, place) => list.children[place] !== item)) list.replaceChildren(...order);
    if (newest.some((job) => RUNNING.includes(job.state))) timer = setTimeout(refresh, EVERY);
  }

  function draw(job) {
    const item = h("li", { class: "job", "data-state": job.state },
      h("span", {}, h("b", {}, named(job)), " ", h("span", { class: "soft state" }), h("span", { class: "soft small" }, ` · ${when(job.created)}`)),
      h("span", { class: "row" },
        RUNNING.includes(job.state) && h("button", { type: "button", "aria-label": `Cancel ${named(job)}`, onclick: () => remove(`jobs/${job.id}`).then(refresh, failed) }, "Cancel"),
        job.state === "done" && job.project && [
          h("a", { class: "button main", href: write("review", [job.project]) }, "Review"),
          h("a", { class: "button", href: write("export", [job.project]) }, "Export")]),
      RUNNING.includes(job.state) && h("progress", { max: "1", "aria-label": `Progress of ${named(job)}` }),
      job.error && h("p", { class: "error" }, job.error));
    move(item, job);
    return item;
  }

  function move(item, job) {
    const bar = item.querySelector("progress");
    const share = job.total ? job.done / job.total : null;
    if (bar && share !== null) bar.value = share;
    const far = bar && share !== null ? ` – ${count(job.done)} of ${count(job.total)}, ${percent(Math.min(share, 0.999))}` : "";
    item.querySelector(".state").textContent = `${job.what && bar ? job.what : STATES[job.state] ?? job.state}${far}`;
  }

  refresh();
  return { element, refresh, close: () => { closed = true; clearTimeout(timer); } };
}

function named(job) {
  return job.name || `Job ${job.id}`;
}
