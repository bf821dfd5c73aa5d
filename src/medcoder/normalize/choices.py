"""What a string may mean, side by side: the candidates of all that it may say, with their features.

A name is behind others, or ahead of them, only within one string; so some features are made here,
of all candidates together. Candidates of one name, and codes of one category (I21.0 and I21.9), are
no rivals of each other.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.kg import KG
from medcoder.normalize.abbreviations import undotted
from medcoder.normalize.batch import Candidate
from medcoder.normalize.features import COLUMN, FEATURES
from medcoder.normalize.interpretations import Interpretation
from medcoder.text import fold

Table = npt.NDArray[np.float64]

BEHIND = ("cosine", "name", "centre", "spelling", "covered", "said")
COLUMNS = (
    *FEATURES, "weight", "written", "known", *(f"{name}_behind" for name in BEHIND),
    "cosine_known", "said_known", "covered_known", "spelling_known", "letters_known", "own_name",
)  # fmt: skip
# Of a string, whatever its candidates are.
OF_TEXT = ("words", "signs", "ideographs", "other_script", "capitals", "digits", "readings")
_WITH_KNOWN = ("cosine", "said", "covered", "spelling", "letters")
_LEAST_WEIGHT = 1e-3
_KEPT = 1 << 16
_MANY = 4  # the logarithm of a number of concepts among which whatever is asked for has neighbours
_NEIGHBOURS = 200  # of a concept that are looked at
_CATEGORY = re.compile(r"([A-Z]\d[0-9A-Z]|\d{3}|E\d{3}|V\d{2})(?:\.[0-9A-Z]+)?")  # of an ICD
_IDEOGRAPHS = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL")


@dataclass(frozen=True, slots=True)
class Choices:
    """The candidates of a string, each concept once: by the reading that speaks most for it."""

    candidates: Sequence[Candidate]
    readings: Sequence[int]  # the interpretation that each is of
    table: Table  # (n, COLUMNS)
    of_text: Table  # (OF_TEXT,)
    alike: npt.NDArray[np.bool_]  # (n, n): no rivals, of one name or of one category
    related: Callable[[int, int], bool]  # whether one of two is above the other
    few: float = 0.0  # how few concepts there are to choose from: 1 for one, 0 for ten thousand

    @property
    def certain(self) -> npt.NDArray[np.bool_]:
        certain: npt.NDArray[np.bool_] = self.table[:, COLUMN["certain"]] > 0
        return certain


class Relatives(NamedTuple):
    """What concepts have to do with each other."""

    few: float
    category: Callable[[int], str]
    neighbours: Callable[[int], frozenset[int]]


def relatives(kg: KG) -> Relatives:
    """Categories of codes, and neighbours, of the concepts of a graph; the last asked for stay."""

    def category(concept: int) -> str:
        _, code, _, vocabulary, _ = next(iter(kg.terms.of(concept)))
        coded = _CATEGORY.fullmatch(code)
        return f"{vocabulary}:{coded[1]}" if coded else f"={concept}"

    def neighbours(concept: int) -> frozenset[int]:
        edges = kg.neighbours(kg.terms.id(concept), limit=_NEIGHBOURS)
        return frozenset(kg.index(end) for edge in edges for end in (edge.head, edge.tail))

    few = max(1 - math.log10(max(len(kg), 1)) / _MANY, 0.0)
    return Relatives(few, lru_cache(_KEPT)(category), lru_cache(_KEPT)(neighbours))


def choices(
    text: str,
    meant: Sequence[Interpretation],
    ranked: Mapping[str, Sequence[Candidate]],
    kin: Relatives,
) -> Choices | None:
    """The choices for a string, of its interpretations and what was found for each; None: none."""
    candidates, readings = [], []
    for reading, some in enumerate(meant):
        for candidate in ranked.get(some.text, ()):
            if candidate.features is None:
                break
            candidates.append(candidate)
            readings.append(reading)
    if not candidates:
        return None
    shares = _shares(candidates, readings, [some.weight for some in meant], kin)
    table = _table(candidates, shares, [meant[reading].written_out for reading in readings])
    certain = any(candidate.hit for candidate in candidates)
    return Choices(
        candidates, readings, table, _of_text(text, len(meant), certain), _alike(candidates, kin),
        lambda one, other: candidates[other].concept in kin.neighbours(candidates[one].concept),
        kin.few,
    )  # fmt: skip


def _shares(
    candidates: Sequence[Candidate],
    readings: Sequence[int],
    weights: Sequence[float],
    kin: Relatives,
) -> list[float]:
    """How likely the reading of each candidate is, with those that lead to its category too."""
    groups = [kin.category(candidate.concept) for candidate in candidates]
    leads: dict[int, str] = {}
    for reading, group in zip(readings, groups, strict=True):
        leads.setdefault(reading, group)
    if len(leads) == 1:
        return [weights[reading] for reading in readings]
    return [
        sum(weights[other] for other, first in leads.items() if other == reading or first == group)
        for reading, group in zip(readings, groups, strict=True)
    ]


def _table(
    candidates: Sequence[Candidate], shares: Sequence[float], written: Sequence[bool]
) -> Table:
    own = np.array([candidate.features for candidate in candidates], np.float64)
    weights = [math.log(max(share, _LEAST_WEIGHT)) for share in shares]
    known = np.array([candidate.known for candidate in candidates], np.float64)
    compared = own[:, [COLUMN[name] for name in BEHIND]]
    with_known = own[:, [COLUMN[name] for name in _WITH_KNOWN]] * known[:, None]
    added = own[:, COLUMN["derived"]] + own[:, COLUMN["includes"]] > 0
    own_name = (own[:, COLUMN["certain"]] > 0) & ~added & ~np.array(written, np.bool_)
    behind = compared.max(axis=0) - compared
    return np.column_stack([own, weights, written, known, behind, with_known, own_name])


def leaders(candidates: Sequence[Candidate]) -> list[int]:
    """The position of the first candidate with the name of each; without a name, its own."""
    first: dict[str, int] = {}
    return [
        position if candidate.name is None else first.setdefault(candidate.name, position)
        for position, candidate in enumerate(candidates)
    ]


def _alike(candidates: Sequence[Candidate], kin: Relatives) -> npt.NDArray[np.bool_]:
    numbers: dict[str, int] = {}
    groups = np.array(
        [
            numbers.setdefault(kin.category(candidate.concept), len(numbers))
            for candidate in candidates
        ]
    )
    names = np.array(leaders(candidates))
    alike: npt.NDArray[np.bool_] = (names[:, None] == names) | (groups[:, None] == groups)
    return alike


def _of_text(text: str, readings: int, certain: bool) -> Table:
    """By what a look-up sees of a string: a full stop or a bullet is none of it, and a name is what
    it says in capitals too.
    """
    text = undotted(text)
    folded = fold(text)
    letters = [sign for sign in folded if sign.isalpha()]
    capitals = [] if certain else [sign for sign in text if sign.isupper()]
    name = unicodedata.name(letters[0], "") if letters else "LATIN"
    ideographs = name.startswith(_IDEOGRAPHS)
    return np.array(
        (
            sum(any(map(str.isalnum, word)) for word in folded.split()),
            len(letters),
            ideographs,
            not ideographs and not name.startswith("LATIN"),
            min(len(capitals) / max(len(letters), 1), 1.0),
            any(map(str.isdigit, folded)),
            readings,
        ),
        np.float64,
    )
