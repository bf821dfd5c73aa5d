// What others decide meanwhile: asked for every few seconds while the page is seen.

import { get } from "./api.js";

const EVERY = 2000; // ms

export function sync(project, since, heard) {
  let last = since;
  let timer = 0;
  let closed = false;
  let asking = false;

  async function ask() {
    clearTimeout(timer);
    if (closed || asking || document.hidden) return;
    asking = true;
    try {
      const answer = await get(`projects/${encodeURIComponent(project)}/changes`, { since: last });
      last = answer.last;
      if (answer.events.length && !closed) heard(answer.events);
    } catch {
      // The next time, perhaps.
    } finally {
      asking = false;
      if (!closed) timer = setTimeout(ask, EVERY);
    }
  }

  document.addEventListener("visibilitychange", ask);
  timer = setTimeout(ask, EVERY);
  return { ask, close: () => { closed = true; clearTimeout(timer); document.removeEventListener("visibilitychange", ask); } };
}
