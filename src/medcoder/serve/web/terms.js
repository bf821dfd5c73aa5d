// Source terms as the review shows them.

const DECIDED = ["approved", "flagged"];

// Keys are strings, as addresses have them.
export function asTerm(raw) {
  return { ...raw, key: String(raw.key) };
}

export function decided(term) {
  return DECIDED.includes(term.status);
}

// Of a cell of several things, that of the least likely.
export function confidence(term) {
  const meant = Math.max(1, term.parts.filter((part) => part.status !== "none").length);
  const sure = term.candidates.slice(0, meant).map((one) => one.confidence);
  return sure.length ? Math.min(...sure) : 0;
}

// What a decision says, in words.
export function inWords(decision) {
  if (!decision) return "nothing decided";
  const what = decision.concept === null ? "no match" : decision.name || decision.concept;
  const how = ["equivalent", "no match"].includes(decision.equivalence) ? "" : ` (${decision.equivalence})`;
  return what + how;
}

// Two decisions that say the same: one that was sent twice, not two people who differ.
export function sameDecision(one, other) {
  return Boolean(one && other)
    && ["concept", "equivalence", "note", "who"].every((name) => (one[name] ?? null) === (other[name] ?? null));
}
