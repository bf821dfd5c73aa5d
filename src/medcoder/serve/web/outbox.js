// Decisions on their way: kept in this browser until the service has acknowledged each.

import { post } from "./api.js";
import { keep, recall, recallAll } from "./kept.js";
import { sameDecision } from "./terms.js";

const AGAIN = 3000; // ms until a service that does not answer is tried again
const PREFIX = "outbox."; // each has a name of its own: another window of this browser keeps others
let made = 0;

// saved(entry, decision), stale(entry, detail) and refused(entry, error) hear of each; changed(number)
// of how many wait.
export function outbox({ saved, stale, refused, changed }) {
  let entries = recallAll(PREFIX);
  const found = new Set(entries); // of a window that is gone, or of one that sends them itself
  let running = null;
  let timer = 0;
  let closed = false;

  function add(given) {
    const entry = { ...given, name: nextName() };
    entries.push(entry);
    keep(entry.name, entry);
    changed(entries.length);
    return flush();
  }

  function remove(entry) {
    entries = entries.filter((one) => one !== entry);
    keep(entry.name, null);
    changed(entries.length);
  }

  function flush() {
    clearTimeout(timer);
    running ??= run().finally(() => { running = null; });
    return running;
  }

  async function run() {
    while (entries.length) {
      const entry = entries[0];
      if (found.has(entry) && recall(entry.name) === null) { // another window was faster
        remove(entry);
        continue;
      }
      let told;
      try {
        const answer = await post(`projects/${encodeURIComponent(entry.project)}/terms/${entry.key}/decision`, entry.body);
        // A second thought on the same term was about this version, not about that of somebody else.
        for (const later of entries.slice(1)) {
          if (later.project !== entry.project || later.key !== entry.key) continue;
          later.body.expected_version = answer.version;
          keep(later.name, later);
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
      remove(entry);
      told();
    }
  }

  if (entries.length) flush();
  return { add, flush, waiting: () => entries, close: () => { closed = true; clearTimeout(timer); } };
}

// Later ones sort after earlier ones; no two windows make the same.
function nextName() {
  made += 1;
  return `${PREFIX}${Date.now()}-${String(made).padStart(6, "0")}-${Math.random().toString(36).slice(2)}`;
}
