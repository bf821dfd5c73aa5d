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
    precision, threshold      promised precision; least confidence of an automatic mapping
    expected                  {"terms", "rows", "count"}: precision to expect of the automatic ones,
                              by terms, rows, and rows as often as they occur; or None
    unknown_context           {column: {value: rows}} of context values that say nothing
    bad_rows                  rows with a wrong number of fields that were kept
    rows, complete            rows read so far; whether all of them are read and mapped
    read, run, settled,       how far reading, mapping and refreshing are
    refreshing, refreshed
    timing                    {"seconds", "rows", "strings"} of the last run that did something
    written                   {"run", "event", "sha256"}: what the results have, and their file
    delimiter, marked         of text: what is between fields, whether it began with a mark
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from medcoder.errors import UnknownName
from medcoder.types import Code, Match

Status = Literal["auto", "review", "none", "approved", "flagged"]
STATUSES: tuple[Status, ...] = get_args(Status)

# What the target is to the source: "broader" says that the target means more than the source.
Equivalence = Literal["equivalent", "broader", "narrower", "related", "no match"]
EQUIVALENCES: tuple[Equivalence, ...] = get_args(Equivalence)

# What the project file keeps of a match.
CANDIDATE_KEYS = ("concept", "name", "codes", "term", "cosine", "score", "confidence", "stage")

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
    """What a row is mapped to."""

    concept: str
    name: str
    codes: tuple[Code, ...]


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

    @property
    def target(self) -> Target | None:
        """The decided concept; for an automatic mapping, the first candidate."""
        if self.decision is not None:
            chosen = self.decision
            if chosen.concept is None:
                return None
            return Target(chosen.concept, chosen.name, chosen.codes)
        if self.status == "auto":
            best = self.candidates[0]
            return Target(best.concept, best.name, best.codes)
        return None

    @property
    def confidence(self) -> float:
        """That the first candidate is right; 0 if there is none."""
        return self.candidates[0].confidence if self.candidates else 0.0

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
        }
