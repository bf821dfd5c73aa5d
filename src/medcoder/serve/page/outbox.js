// Decisions on their way: kept in this browser until the service has acknowledged each.

import { post } from "./api.js";
import { keep, recall } from "./kept.js";
import { sameDecision } from "./terms.js";

const AGAIN = 3000; // ms until a service that does not answer is tried again

// saved(entry, decision), stale(entry, detail) and refused(entry, error) hear of each; changed(number)
// of how many wait.
export function outbox({ saved, stale, refused, changed }) {
  let entries = recall("outbox", []);
  let running = null;
  let timer = 0;
  let closed = false;

  function store() {
    keep("outbox", entries.length ? entries : null);
    changed(entries.length);
  }

  function add(entry) {
    entries.push(entry);
    store();
    return flush();
  }

  function flush() {
    clearTimeout(timer);
    running ??= run().finally(() => { running = null; });
    return running;
  }

  async function run() {
    while (entries.length) {
      const entry = entries[0];
      let told;
      try {
        const answer = await post(`projects/${encodeURIComponent(entry.project)}/terms/${entry.key}/decision`, entry.body);
        // A second thought on the same term was about this version, not about that of somebody else.
        for (const later of entries.slice(1)) {
          if (later.project === entry.project && later.key === entry.key) later.body.expected_version = answer.version;
        }
        told = () => saved(entry, answer);
      } catch (error) {
        if (error.status === 0 || error.status >= 500 || error.status === 401) {
          if (!closed) timer = setTimeout(flush, AGAIN);
          changed(entries.length, error);
          return;
        }
        const theirs = error.detail.theirs ?? null;
        const version = error.detail.found;
        if (error.detail.code !== "stale") told = () => refused(entry, error);
        else if (sameDecision(entry.body, theirs)) told = () => saved(entry, { ...theirs, version });
        else told = () => stale(entry, { theirs, version });
      }
      entries = entries.filter((one) => one !== entry);
      store();
      told();
    }
  }

  if (entries.length) flush();
  return { add, flush, waiting: () => entries, close: () => { closed = true; clearTimeout(timer); } };
}
