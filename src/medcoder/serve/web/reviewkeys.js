// The keys of the review.

import { isOpen } from "./dialog.js";
import { typing } from "./keys.js";

const MOVES = ["j", "k", "ArrowDown", "ArrowUp"]; // may be held down
const ALWAYS = ["u", "b"]; // work without a term in front

// Gives what ends it.
export function reviewKeys(acts) {
  const keys = {
    n: () => acts.decide(null),
    "/": acts.another,
    u: acts.undo,
    b: acts.bulk,
    h: acts.history,
    j: () => acts.step(1),
    k: () => acts.step(-1),
    ArrowDown: () => acts.step(1),
    ArrowUp: () => acts.step(-1),
    c: acts.note,
    e: acts.equivalence,
    o: (term) => term.candidates[0] && acts.open(term.candidates[0]),
  };
  for (const digit of [1, 2, 3, 4, 5]) {
    keys[digit] = (term) => term.candidates[digit - 1] && acts.decide(term.candidates[digit - 1]);
  }

  function onkey(event) {
    if (typing(event) || isOpen() || !Object.hasOwn(keys, event.key)) return;
    if (event.repeat && !MOVES.includes(event.key)) return;
    if (event.key.startsWith("Arrow") && event.target.matches?.("input[type=radio]")) return;
    const term = acts.term();
    if (!term && !ALWAYS.includes(event.key)) return;
    event.preventDefault();
    keys[event.key](term);
  }

  document.addEventListener("keydown", onkey);
  return () => document.removeEventListener("keydown", onkey);
}
