"""A machine that says more of a string than its candidates: attributes, parts, reasons."""

from dataclasses import replace

from medcoder.types import Answer, Attribute
from support.mapped import COLD, FEVER, HEAD, MI, PAIN, Machine

HEADER = ("id", "term", "n", "lang", "unit")
LEFT = Attribute("side", "left", "R")
PAST = Attribute("history", "", "h/o")
NOT = Attribute("negated", "", "no")
# What each string is answered with: of a cell, its parts.
SURE = 0.999
STRINGS = {
    "fever": ([(FEVER, 0.999)], {}),
    "h/o heart attack R": ([(MI, 0.998)], {"attributes": (PAST, LEFT)}),
    "?fever": ([(FEVER, 0.999)], {"review": "in doubt (?)"}),
    "no fever": ([(FEVER, 0.999)], {"reason": "negated (no)", "attributes": (NOT,)}),
    "rubbish": ([], {"reason": "not a term: a number or a date", "review": "look"}),
    "cold": ([(COLD, 0.3)], {}),
    "flu, cold": ([(COLD, 0.4), (PAIN, 0.3)], {"review": "several things may be in it"}),
    "ache": ([(PAIN, 0.997), (HEAD, 0.1)], {}),
    "heart attack": ([(MI, 0.996), (PAIN, 0.2)], {}),
}
CELLS = {
    "fever; ache": ["fever", "ache"],
    "fever; no fever": ["fever", "no fever"],
    "no fever; no fever": ["no fever", "no fever"],
    "heart attack; ?fever": ["heart attack", "?fever"],
    "heart attack; cold": ["heart attack", "cold"],
}
ROWS = [(f"A{number}", text, "1", "", "") for number, text in enumerate([*STRINGS, *CELLS], 1)]


class Sayer(Machine):
    """Answers from the tables; a cell is split where that is asked for."""

    def __init__(self, strings=STRINGS, cells=CELLS, version="1"):
        self.strings, self.cells, self.version = strings, cells, version
        self.options = []

    def describe(self):
        told = super().describe()
        return told | {"model": {"name": "fake", "fingerprint": self.version}}

    def normalize_many(self, texts, *, targets, split, **options):
        self.options.append((targets, split))
        for text in texts:
            yield self.cell(text) if split and text in self.cells else self.plain(text)

    def plain(self, text, span=None, query=None):
        found, said = self.strings.get(text, ([], {}))
        attributes = said.get("attributes", ())
        twins = ("X1",) if text == "fever" else ()
        matches = tuple(
            replace(self.match(text, target, confidence, "dense"), attributes=attributes, span=span,
                    twins=twins)
            for target, confidence in found
        )  # fmt: skip
        reason = said.get("reason", "")
        sure = bool(matches) and matches[0].confidence >= 0.5 and not reason
        return Answer(
            query=text, matches=matches if sure else (), rejected=() if sure else matches,
            threshold=0.5, reason=reason, review=said.get("review", ""), span=span,
            steps=("took off 'h/o': history",) if attributes else (),
        )  # fmt: skip

    def cell(self, text):
        parts, start = [], 0
        for part in self.cells[text]:
            start = text.index(part, start)
            parts.append(self.plain(part, (start, start + len(part))))
            start += len(part)
        best = tuple(part.matches[0] for part in parts if part.matches)
        rejected = () if best else tuple(part.rejected[0] for part in parts if part.rejected)
        return Answer(
            query=text, matches=best, rejected=rejected, threshold=0.5, parts=tuple(parts),
            review="; ".join(f"{part.query!r}: {part.review}" for part in parts if part.review),
            steps=(f"split into {len(parts)}",),
        )  # fmt: skip
