// Numbers and codes of the service in words.

// How a concept was found: alone, and before the term that it was found by.
export const STAGES = {
  code: ["by its code", "by the code of"],
  exact: ["same words", "same words as"],
  abbreviation: ["short for it", "short for"],
  slip: ["misspelt", "misspelt for"],
  dense: ["near in meaning", "near in meaning to"],
  ngram: ["spelt alike", "spelt like"],
};
export const STATUSES = {
  review: "To review",
  auto: "Automatic",
  none: "No candidate",
  approved: "Decided",
  flagged: "Flagged",
};
export const EQUIVALENCES = {
  equivalent: "Equivalent",
  broader: "Target is broader",
  narrower: "Target is narrower",
  related: "Related only",
};

export const TARGETS = {
  any: "Any concept",
  leaf: "None below it",
  billable: "Billable codes",
  standard: "Standard concepts",
};

let names;
try {
  names = new Intl.DisplayNames(["en"], { type: "language" });
} catch {
  names = null;
}

export function language(tag) {
  if (!tag) return "Any language";
  try {
    return names?.of(tag) ?? tag;
  } catch {
    return tag; // not a language tag
  }
}

// Never 0 or 100%: nothing that a machine says is certain.
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const value = 100 * share;
  if (value >= 99.95) return "> 99.9%";
  if (value < 0.5) return "< 1%";
  return value >= 95 ? `${value.toFixed(1)}%` : `${Math.round(value)}%`;
}

// A reason of the service as a sentence of its own.
export function sentence(reason) {
  return `${reason[0].toUpperCase()}${reason.slice(1)}.`;
}

export function count(number) {
  return Number(number ?? 0).toLocaleString("en");
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${Number(number) === 1 ? one : many}`;
}

// A code with its vocabulary, said once.
export function curie(code) {
  const [vocabulary, value] = Array.isArray(code) ? code : [code.vocabulary, code.code];
  return value.startsWith(`${vocabulary}:`) ? value : `${vocabulary}:${value}`;
}

export function when(iso) {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso;
  const today = new Date().toDateString() === time.toDateString();
  return today
    ? time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : time.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
}
