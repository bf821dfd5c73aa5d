"""The records of a mapping project: source rows, candidates, decisions.

`Project.meta` is a dict with these keys, of plain JSON values:
    file, sha256, format      the input: its name, what identifies it, csv | tsv | xlsx | parquet
    column, code, count,      columns of the input that hold the text, the local code, how often
    language                  it occurs, and its language; "" where there is none
    context                   role by column: {"dept": "type"}
    source_vocabulary         {"name", "uri", "version"} of the local codes; "" where unknown
    terminology               {"fingerprint", "vocabularies": {name: version}}
    model                     {"name", "fingerprint"}
    medcoder, created, updated  version that made it, ISO times in UTC
    top, vocabularies         candidates a row; vocabularies asked for ([]: all)
    split, targets            whether several things in a cell are answered one by one; which
                              concepts may be answered with. Not in projects of medcoder 0.1
    precision, threshold      promised precision; least confidence of an automatic mapping
    expected                  {"terms", "rows", "count"}: precision to expect of the automatic ones,
                              by terms, rows, and rows as often as they occur; or None
    unknown_context           {column: {value: rows}} of context values that say nothing
    bad_rows                  rows with a wrong number of fields that were kept
    rows, complete            rows read so far; whether all of them are read and mapped
    read, run, settled,       how far reading, mapping and refreshing are; the threshold of the
    refreshing, refreshed,    run before
    threshold_before
    timing                    {"seconds", "rows", "strings"} of the last run that did something
    written                   {"run", "event", "sha256"}: what the results have, and their file
    delimiter, marked         of text: what is between fields, whether it began with a mark
    recalibrations            of the confidences, by `medcoder map calibrate`: the last stands, the
                              others are for undoing it. Each has the keys in RECALIBRATION
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

from medcoder.errors import UnknownName
from medcoder.types import Code, Match, Span

Status = Literal["auto", "review", "none", "approved", "flagged"]
STATUSES: tuple[Status, ...] = get_args(Status)

# What the target is to the source: "broader" says that the target means more than the source.
Equivalence = Literal["equivalent", "broader", "narrower", "related", "no match"]
EQUIVALENCES: tuple[Equivalence, ...] = get_args(Equivalence)

# What the project file keeps of a match.
CANDIDATE_KEYS = (
    "concept", "name", "codes", "term", "cosine", "score", "confidence", "stage", "attributes",
    "span", "twins",
)  # fmt: skip

# What a project of medcoder 0.1, which does not say, was mapped with.
UNSAID: dict[str, Any] = {"split": False, "targets": "any"}

# Of a recalibration: its two numbers, who made it and when, the decisions that it was fitted on and
# how many of them found the machine right; then pairs of before and after.
RECALIBRATION = (
    "intercept", "slope", "who", "when", "decisions", "right", "log_loss", "calibration_error",
    "threshold",
)  # fmt: skip

Role = Literal["type", "vocabulary", "language", "hint"]
ROLES: tuple[Role, ...] = get_args(Role)


def unknown(noun: str, name: object, known: Iterable[str]) -> UnknownName:
    """The error for a word that is none of these."""
    remedy = f"There are: {', '.join(known)}"
    return UnknownName(f"no such {noun}", values=repr(name), remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class SourceRow:
    """A row of the input."""

    number: int  # from 1, the header not counted
    text: str  # the string that is mapped, on one line
    code: str = ""
    count: int = 1  # how often it occurs where it comes from
    language: str = ""
    context: dict[str, str] = field(default_factory=dict)  # value by column
    fields: tuple[str, ...] = ()  # all columns, as in the header of the project


class Target(NamedTuple):
    """What a row is mapped to, or a part of its cell."""

    concept: str
    name: str
    codes: tuple[Code, ...]


class Part(NamedTuple):
    """One of several things in a cell, and what the machine says of it."""

    span: Span  # where it is in the text
    text: str
    status: str  # one of PARTS
    reason: str  # why nothing is meant: "negated (no)"
    review: str  # why a person must look
    confidence: float
    candidates: int

    @property
    def negated(self) -> bool:
        """Whether it says that something is not there: it has no target, and needs none."""
        return self.reason.startswith("negated")


PARTS = ("match", "review", "none")


class Said(NamedTuple):
    """What the machine says of a string beside its candidates."""

    reason: str = ""  # why nothing is meant
    steps: tuple[str, ...] = ()  # what was done with it before it was looked up
    parts: tuple[Part, ...] = ()  # of a cell with several things


NOTHING_SAID = Said()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a person decided for a source term."""

    concept: str | None  # None: there is no match
    name: str
    codes: tuple[Code, ...]
    equivalence: Equivalence
    who: str
    when: str  # ISO, UTC
    note: str
    version: int  # of the source term after it


@dataclass(frozen=True, kw_only=True)
class Event:
    """One entry of the history of a source term."""

    id: int
    action: Literal["decide", "undo", "flag"]
    row: int  # first row of the term
    text: str
    code: str
    decision: Decision | None  # what stands after it; None: nothing decided
    flag: str  # why it is flagged after it
    who: str
    when: str
    note: str
    version: int


@dataclass(frozen=True, kw_only=True)
class TermMapping:
    """A row with what the machine offers and what a person decided."""

    row: SourceRow
    status: Status
    candidates: tuple[Match, ...]  # that the machine offers, best first
    decision: Decision | None = None
    flag: str = ""  # why a decision is to be looked at again
    version: int = 0  # of the source term: what `decide` takes as `expected_version`
    review: str = ""  # why a person must look, however sure the machine is
    said: Said = NOTHING_SAID
    together: int = 1  # candidates that are meant together, the first: one for each part of a cell
    part: Part | None = None  # that it is of, see `records`

    @property
    def target(self) -> Target | None:
        """The decided concept; for an automatic mapping, the first candidate."""
        return next(iter(self.targets), None)

    @property
    def targets(self) -> tuple[Target, ...]:
        """All that it is mapped to: one, or one for each part of a cell that nobody decided on."""
        if self.decision is not None:
            chosen = self.decision
            if chosen.concept is None:
                return ()
            return (Target(chosen.concept, chosen.name, chosen.codes),)
        if self.status == "auto":
            return tuple(Target(best.concept, best.name, best.codes) for best in self.leading)
        return ()

    @property
    def leading(self) -> tuple[Match, ...]:
        """The candidates that are meant, if the machine is right: one, or one for each part."""
        return self.candidates[: self.together]

    @property
    def confidence(self) -> float:
        """That these are right, which is that of the least likely; 0 if there is none."""
        return min((match.confidence for match in self.leading), default=0.0)

    def records(self) -> list[TermMapping]:
        """Itself; of a cell that is split, one for each part that means something."""
        if self.decision is not None or not self.said.parts:
            return [self]
        parts = {part.span: part for part in self.said.parts}
        found = [
            replace(
                self,
                candidates=tuple(match for match in self.candidates if match.span == best.span),
                said=Said(parts[best.span].reason, self.said.steps),
                together=1,
                part=parts[best.span],
            )
            for best in self.leading
            if best.span in parts
        ]
        return found or [self]

    def ranked_candidates(self) -> list[dict[str, Any]]:
        """The candidates as JSON has them, with their ranks from 1."""
        return [
            {"rank": rank, **match.as_dict(CANDIDATE_KEYS)}
            for rank, match in enumerate(self.candidates, 1)
        ]

    def as_dict(self) -> dict[str, Any]:
        """As `medcoder map show --json` prints it: codes are pairs."""
        candidates = [
            entry | {"codes": match.codes}
            for entry, match in zip(self.ranked_candidates(), self.candidates, strict=True)
        ]
        return {
            "row": asdict(self.row),
            "status": self.status,
            "candidates": candidates,
            "decision": asdict(self.decision) if self.decision else None,
            "flag": self.flag,
            "version": self.version,
            **self.said_entry(),
        }

    def said_entry(self) -> dict[str, Any]:
        """What the machine says beside the candidates, as JSON has it."""
        said = self.said
        return {
            "review": self.review,
            "reason": said.reason,
            "steps": list(said.steps),
            "parts": [part._asdict() | {"span": list(part.span)} for part in said.parts],
        }
