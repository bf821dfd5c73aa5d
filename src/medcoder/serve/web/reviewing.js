// One project under review: keys and clicks become decisions, decisions of others come in.

import { searchAnother } from "./another.js";
import { get, post } from "./api.js";
import { bulkAccept } from "./bulk.js";
import { card } from "./card.js";
import { say } from "./dom.js";
import { frame } from "./frame.js";
import { showHistory } from "./history.js";
import { outbox } from "./outbox.js";
import { queue } from "./queue.js";
import { reviewKeys } from "./reviewkeys.js";
import { go, replace, write } from "./route.js";
import { choose as chooseVersion } from "./stale.js";
import { sync } from "./sync.js";
import { asTerm, inWords } from "./terms.js";
import { failed, toast } from "./toast.js";
import { askWho } from "./who.js";
import { plural } from "./words.js";

const MANY = 20; // terms that change at once before the list is read anew

export function reviewing(root, project, route, choose) {
  const path = `projects/${encodeURIComponent(project)}`;
  const asked = { status: "review", sort: "doubt", q: "" };
  let closed = false;
  let watch = null;
  let summary = {};

  const view = frame(root, choose, asked, {
    filter: (changes) => { Object.assign(asked, changes); open(); },
    bulk, step,
  });
  const address = (key) => write("review", [project], { ...asked, status: asked.status || "all", t: key });
  const list = queue(view.list, { link: address, pick: (key) => go(address(key)) });
  const shown = card(view.card, project, {
    choose: (candidate) => decide(candidate), none: () => decide(null), another, undo, history, changed: change,
  });
  const box = outbox({
    saved, stale, refused,
    changed: (number, error) => view.waiting(number, error),
  });

  function take(next) {
    const status = next.query.get("status");
    asked.status = status === "all" ? "" : status ?? "review";
    asked.sort = next.query.get("sort") ?? "doubt";
    asked.q = next.query.get("q") ?? "";
    return next.query.get("t");
  }

  async function start() {
    const wanted = take(route);
    view.asked(asked);
    try {
      await box.flush();
      summary = await get(path);
      if (closed) return;
      view.summary(summary);
      watch = sync(project, summary.last_change, heard);
      await open(wanted);
    } catch (error) {
      view.failed(error);
    }
  }

  async function open(wanted = null) {
    view.asked(asked);
    try {
      if (!(await list.open({ project, ...asked })) || closed) return;
      if (wanted && !list.find(wanted)) list.add(asTerm(await get(`${path}/terms/${wanted}`)));
      front(list.find(wanted) ?? list.first());
    } catch (error) {
      failed(error);
      front(list.first());
    }
  }

  function front(term) {
    list.select(term?.key ?? null);
    replace(address(term?.key));
    view.others("");
    view.place(list.place());
    shown.show(term);
    if (!term) {
      view.nothing(asked);
      return;
    }
    const at = document.activeElement;
    if (!at || at === document.body || !at.matches("input, select, textarea, .queue a")) shown.focus();
  }

  function update(next) {
    const { status, sort, q } = asked;
    const wanted = take(next);
    if (status !== asked.status || sort !== asked.sort || q !== asked.q) open(wanted);
    else if (wanted && wanted !== shown.term()?.key) {
      const term = list.find(wanted);
      if (term) front(term);
      else open(wanted);
    }
  }

  async function step(by) {
    let next = list.step(by);
    if (!next && by > 0 && list.remaining() && (await list.more())) next = list.step(by);
    if (next) front(next);
  }

  // Decisions

  async function decide(candidate, { stay = false } = {}) {
    const term = shown.term();
    if (!term) return;
    const who = await askWho();
    if (!who || shown.term() !== term) return;
    const { note, equivalence } = shown.typed();
    const body = {
      concept: candidate?.concept ?? null, equivalence: candidate ? equivalence : "no match", note, who, expected_version: term.version,
    };
    const named = { name: candidate?.name ?? "", codes: candidate?.codes ?? [] };
    term.before ??= { status: term.status, decision: term.decision, flag: term.flag };
    Object.assign(term, { status: "approved", flag: "", saving: true });
    term.decision = { ...body, ...named, when: new Date().toISOString() };
    shown.forget();
    list.redraw(term);
    box.add({ project, key: term.key, text: term.text, named, body });
    let next = null;
    if (!stay) {
      next = list.nextOpen();
      if (!next && list.remaining() && (await list.more())) next = list.nextOpen();
    }
    if (shown.term() !== term) return;
    front(next ?? term);
    if (next) say(`${term.text}: ${inWords(term.decision)}. Next: ${next.text}`);
    else {
      say(`${term.text}: ${inWords(term.decision)}`);
      if (!stay) view.finished();
    }
  }

  // Another note or equivalence for the same concept.
  function change() {
    const made = shown.term()?.decision;
    if (made) decide(made.concept === null ? null : made, { stay: true });
  }

  function saved(entry, decision) {
    if (entry.project !== project) return;
    const term = list.find(entry.key);
    if (term) {
      Object.assign(term, { decision, version: decision.version, saving: false });
      delete term.before;
      settle(term);
    }
    count();
  }

  function refused(entry, error) {
    failed(error);
    const term = list.find(entry.key);
    if (term && entry.project === project) {
      Object.assign(term, term.before, { saving: false });
      delete term.before;
      settle(term);
    }
  }

  async function stale(entry, { theirs, version }) {
    const mine = { ...entry.body, ...entry.named };
    const answer = await chooseVersion(entry.text, mine, theirs);
    if (answer === "mine") {
      box.add({ ...entry, body: { ...entry.body, expected_version: version } });
      return;
    }
    await refresh([entry.key]);
    count();
  }

  async function undo() {
    const who = await askWho();
    if (!who) return;
    try {
      await box.flush();
      if (box.waiting().length) {
        toast("Decisions wait to be saved. Undo works when the service answers again");
        return;
      }
      const term = asTerm((await post(`${path}/undo`, { who })).term);
      merge(term);
      front(list.find(term.key));
      toast(`Undone: ${term.text}`);
      count();
    } catch (error) {
      if (error.detail?.code === "nothing_to_undo") toast("Nothing of yours is left to undo");
      else failed(error);
    }
  }

  async function another() {
    const term = shown.term();
    if (!term) return;
    const match = await searchAnother(term.text);
    if (match && shown.term() === term) decide(match);
  }

  async function bulk() {
    const who = await askWho();
    if (!who) return;
    await box.flush();
    const answer = await bulkAccept(project, summary, who);
    if (!answer) return;
    toast(`${plural(answer.terms, "term")} accepted`);
    count();
    open(null);
  }

  function history() {
    const term = shown.term();
    if (term) showHistory(project, term).catch(failed);
  }

  // What others do

  async function heard(changes) {
    const keys = new Set();
    for (const change of changes) {
      const key = String(change.key);
      const term = list.find(key);
      if (term && !term.saving && change.version > term.version) keys.add(key);
    }
    count();
    if (!keys.size) return;
    const mine = shown.term()?.key;
    if (keys.size > MANY) {
      await open(mine);
      return;
    }
    await refresh([...keys]);
    const last = changes.filter((change) => String(change.key) === mine).at(-1);
    if (keys.has(mine) && last) {
      const did = last.action === "undo" ? "undid a decision here" : `decided: ${inWords(last.decision)}`;
      view.others(`${last.who} ${did}`);
      say(`${last.who} ${did}`);
    }
  }

  async function refresh(keys) {
    for (const key of keys) merge(asTerm(await get(`${path}/terms/${key}`)));
  }

  function merge(fresh) {
    const term = list.find(fresh.key);
    if (!term) list.add(fresh);
    else {
      Object.assign(term, fresh, { saving: false });
      delete term.before;
      settle(term);
    }
  }

  // Show a term as it is now, and leave alone what is being typed.
  function settle(term) {
    list.redraw(term);
    if (shown.term() !== term) return;
    const at = document.activeElement;
    if (at?.id === "note") return;
    const inside = view.card.contains(at);
    shown.show(term);
    if (inside) shown.focus();
  }

  async function count() {
    try {
      summary = await get(path);
      if (!closed) view.summary(summary);
    } catch {
      // The next decision counts again.
    }
  }

  const stopKeys = reviewKeys({
    term: shown.term, decide, another, undo, bulk, history, step,
    note: shown.writeNote, equivalence: () => say(shown.nextEquivalence()),
    open: (candidate) => go(write("look", [], { q: shown.term().text, c: candidate.concept })),
  });
  start();
  return {
    project, update,
    close: () => {
      closed = true;
      stopKeys();
      watch?.close();
      box.close();
    },
  };
}
