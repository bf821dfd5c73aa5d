"""The currencies that rooms pay each other with: Arrow schemas, small records, protocols."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TERMS = pa.schema(
    {
        "concept": pa.string(),  # id of the concept, unique within the graph
        "term": pa.string(),  # the string as the release has it
        "language": pa.string(),  # BCP 47, lower case: en, es, pt, zh
        "source": pa.string(),  # vocabulary: SNOMEDCT_US, HP, ICD10CM
        "code": pa.string(),  # the concept's code in that vocabulary
        "kind": pa.string(),  # the release's own word for the role: PT, SY, EXACT, layperson
        "rank": pa.int32(),  # the lowest of a concept's English terms is its preferred name
    }
)
EDGES = pa.schema({"head": pa.string(), "relation": pa.string(), "tail": pa.string()})
TYPES = pa.schema({"concept": pa.string(), "type": pa.string(), "name": pa.string()})
XREFS = pa.schema(
    {
        "concept": pa.string(),
        "source": pa.string(),  # vocabulary that the code belongs to
        "code": pa.string(),
        "kind": pa.string(),  # "alt": another code of the very concept; "xref": said to match it
    }
)
FLAGS = pa.schema({"concept": pa.string(), "flag": pa.string()})

Part = Literal["terms", "types", "xrefs", "flags", "edges"]
SCHEMAS: dict[Part, pa.Schema] = {
    "terms": TERMS,
    "types": TYPES,
    "xrefs": XREFS,
    "flags": FLAGS,
    "edges": EDGES,
}

# What a concept's flags may say. "extension": a code that only adds an encounter or laterality
# character to its parent; it is in the graph, and gets no vector of its own. "heading": a chapter,
# a block or a root: it says where concepts belong, and is no answer. "billable": a code of
# ICD-10-CM that a bill may bear, since none lies below it.
CONCEPT_FLAGS = ("standard", "invalid", "extension", "heading", "billable")

# Kinds of terms that no source gave as names: strings are matched with them, and nothing is learnt
# or measured by them. "derived": a name without what it leaves open; "includes": what else a code
# is for, which may be narrower than the code; "usual": what wards call it, of lists of our own.
DERIVED, INCLUDES, USUAL = "derived", "includes", "usual"
ADDED_KINDS = frozenset({DERIVED, INCLUDES, USUAL})

# How long work reports how far it is: what is being done, how much of it, of how much.
Progress = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """The `Progress` that tells nobody."""


class Term(NamedTuple):
    """One surface form of a concept."""

    text: str
    language: str
    vocabulary: str
    code: str
    kind: str

    @property
    def source(self) -> str:
        """The old name of `vocabulary`."""
        warnings.warn("Term.source is now Term.vocabulary, and goes in 0.3", DeprecationWarning, 2)
        return self.vocabulary

    def as_dict(self) -> dict[str, str]:
        """The term as JSON has it, where the vocabulary is called `source`."""
        return {"source" if key == "vocabulary" else key: v for key, v in self._asdict().items()}


class Code(NamedTuple):
    """A concept's code in one vocabulary.

    >>> Code("HP", "HP:0001658").curie, Code("ICD10CM", "I21").curie
    ('HP:0001658', 'ICD10CM:I21')
    >>> Code.parse("ICD10CM:R51.9")
    Code(vocabulary='ICD10CM', code='R51.9')
    """

    vocabulary: str
    code: str

    @property
    def curie(self) -> str:
        """VOCABULARY:CODE, with the vocabulary said once."""
        prefix = f"{self.vocabulary}:"
        return self.code if self.code.startswith(prefix) else prefix + self.code

    @classmethod
    def parse(cls, curie: str) -> Code | None:
        """What VOCABULARY:CODE names; None where there is no colon inside."""
        vocabulary, colon, code = curie.strip().partition(":")
        return cls(vocabulary, code) if colon and vocabulary and code else None


class SemanticType(NamedTuple):
    id: str
    name: str


class Edge(NamedTuple):
    """One triplet: "head relation tail" reads true."""

    head: str
    relation: str
    tail: str


class Vocabulary(NamedTuple):
    """A source vocabulary as its release names it."""

    name: str
    version: str = ""
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What to leave out of a release while reading it."""

    languages: frozenset[str] | None = None  # None: all
    vocabularies: frozenset[str] | None = None  # None: all
    obsolete: bool = False  # take obsolete and inactive rows too
    suppressed: bool = False  # take rows that the editors suppressed too
    standard_only: bool = False  # OMOP: standard concepts only
    columns: tuple[tuple[str, str], ...] = ()  # table: our name, the file's name


@dataclass
class Count:
    """Rows of one file: read = kept + left out."""

    read: int = 0
    kept: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def drop(self, reason: str, rows: int) -> None:
        if rows:
            self.left_out[reason] += rows

    @property
    def adds_up(self) -> bool:
        return self.read == self.kept + self.left_out.total()

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        # By name, so that it does not tell in which order rows were read.
        left_out = dict(sorted(self.left_out.items()))
        return {"read": self.read, "kept": self.kept, "left_out": left_out}


class Tally(dict[str, Count]):
    """Counts by file or by stage; asking for a name makes its count."""

    def __missing__(self, name: str) -> Count:
        return self.setdefault(name, Count())


class Source(Protocol):
    """A release on disk, read as Arrow tables.

    `concepts` is exhausted before `edges` starts. Both count every row they read in `tally`.
    """

    name: str
    namespace: str  # the vocabulary whose codes its concept ids are (UMLS), or ""

    def vocabularies(self) -> Iterable[Vocabulary]:
        """Names and versions of the vocabularies, as far as the release tells."""
        ...

    def size(self) -> int:
        """Bytes that reading it takes in, for progress."""
        ...

    def done(self) -> int:
        """Bytes read so far."""
        ...

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        """Terms, types, cross-references and flags, in any order."""
        ...

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        """Relation triplets."""
        ...


class Encoder(Protocol):
    """Texts to unit vectors, whatever computes them."""

    @property
    def width(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """What identifies the weights, the tokenizer and the pooling."""
        ...

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit rows (n, width), in the order of the texts."""
        ...


# The keys of a match in JSON. `source` is what files and replies call the vocabulary of the term.
MATCH_KEYS = (
    "concept", "name", "codes", "term", "language", "source", "cosine", "similarity", "score",
    "confidence", "stage", "attributes", "span", "twins",
)  # fmt: skip

Span = tuple[int, int]  # where it starts in a string, and where it ends


class Attribute(NamedTuple):
    """What a string says of a thing beside its name: that it was, is doubted, is on the left."""

    kind: str  # one of ATTRIBUTES
    value: str  # "left", "mild", "2014"; empty where the kind says all
    text: str  # as it stands in the string: "h/o"


# What attributes may be of. The first four decide what a match is worth.
ATTRIBUTES = ("history", "family", "negated", "doubt", "side", "severity", "course", "date")


@dataclass(frozen=True, kw_only=True)
class Match:
    """A concept for a string, and why: an answer, a reply of the service, a stored candidate."""

    concept: str  # its id
    name: str  # its preferred name
    codes: tuple[Code, ...]  # in the vocabularies asked for, or in all
    term: str  # the term that matched
    language: str = ""  # of that term
    vocabulary: str = ""  # of that term, or "local" for a custom one
    # Of string and term, or of a misspelt string as the term most alike spells it; None where the
    # dense stage was left out, and where the kind of what was found gave the code of the past
    cosine: float | None = None
    similarity: float | None = None  # of their trigrams; None where that stage was left out
    score: float  # what it was found by: 1 if exact, or cosine and similarity fused
    # Calibrated probability that the term is what the string means. Concepts that share it, such as
    # a disease in two vocabularies, all have it.
    confidence: float
    stage: str  # which stage found it first
    attributes: tuple[Attribute, ...] = ()  # what was taken off the string for the look-up
    span: Span | None = None  # of the part of the string that it is for; None: the whole
    twins: tuple[str, ...] = ()  # ids of the same thing in other vocabularies; `codes` has theirs
    # What each feature adds to the log-odds of the confidence; empty where that is not known.
    weighed: Mapping[str, float] = field(default_factory=dict, compare=False, repr=False)

    @property
    def source(self) -> str:
        """The old name of `vocabulary`."""
        warnings.warn(
            "Match.source is now Match.vocabulary, and goes in 0.3", DeprecationWarning, 2
        )
        return self.vocabulary

    def as_dict(
        self, keys: Sequence[str] = MATCH_KEYS, *, digits: int | None = None
    ) -> dict[str, Any]:
        """The match as JSON has it: these keys, in this order, numbers rounded to `digits`."""
        entry: dict[str, Any] = {}
        for key in keys:
            value = getattr(self, "vocabulary" if key == "source" else key)
            if key in ("codes", "attributes"):
                value = [part._asdict() for part in value]
            elif key in ("span", "twins"):
                value = None if value is None else list(value)
            elif digits is not None and isinstance(value, float):
                value = round(value, digits)
            entry[key] = value
        return entry

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Self:
        """The match that `as_dict` wrote; what it left out is empty. Other keys are ignored."""
        fields = {key: entry[key] for key in MATCH_KEYS if key in entry}
        fields["codes"] = tuple(
            Code(code["vocabulary"], code["code"]) for code in fields.get("codes", ())
        )
        fields["attributes"] = tuple(
            Attribute(some["kind"], some["value"], some["text"])
            for some in fields.get("attributes", ())
        )
        span = fields.get("span")
        fields["span"] = (span[0], span[1]) if span else None
        fields["twins"] = tuple(fields.get("twins", ()))
        return cls(vocabulary=fields.pop("source", ""), **fields)


@dataclass(frozen=True, kw_only=True)
class Answer(Sequence[Match]):
    """The matches of one string, best first: empty if none is likely enough to be right.

    Then `rejected` holds the best candidates, for a person to look at.
    """

    query: str
    matches: tuple[Match, ...]
    rejected: tuple[Match, ...] = ()
    threshold: float  # least confidence of the best candidate
    namesakes: int = 1  # concepts that the term of the best candidate finds, itself included
    reason: str = ""  # why nothing can be meant: "not a term: a number or a date"
    # Why a person must look at it before it counts, however sure it is: "in doubt (r/o)".
    review: str = ""
    steps: tuple[str, ...] = ()  # what was done with the string before it was looked up, in words
    # Of several things in a string, the answer for each; `matches` has the best of each then.
    parts: tuple[Answer, ...] = ()
    span: Span | None = None  # of a part, in the string that it is of

    @overload
    def __getitem__(self, position: int) -> Match: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Match]: ...
    def __getitem__(self, position: int | slice) -> Match | Sequence[Match]:
        return self.matches[position]

    def __len__(self) -> int:
        return len(self.matches)

    @property
    def candidates(self) -> tuple[Match, ...]:
        """Accepted or not."""
        return self.matches or self.rejected

    @property
    def confidence(self) -> float:
        """That the best candidate is right; 0 if there is none."""
        return self.candidates[0].confidence if self.candidates else 0.0

    @property
    def status(self) -> Literal["match", "review", "none"]:
        """What it is worth: a match, something for a person to look at, or nothing."""
        if self.review:
            return "review"
        return "match" if self.matches else "none"

    def as_dict(
        self, keys: Sequence[str] = MATCH_KEYS, *, digits: int | None = None
    ) -> dict[str, Any]:
        """The answer as JSON has it, with these keys of each match."""
        return {
            "query": self.query,
            "status": self.status,
            "matches": [match.as_dict(keys, digits=digits) for match in self.matches],
            "rejected": [match.as_dict(keys, digits=digits) for match in self.rejected],
            "threshold": self.threshold if digits is None else round(self.threshold, digits),
            "reason": self.reason,
            "review": self.review,
            "steps": list(self.steps),
            "parts": [part.as_dict(keys, digits=digits) for part in self.parts],
            "span": self.span and list(self.span),
        }
