"""What speaks for a candidate and against it: numbers that the ranking weighs.

Some are of the string and the term (how near they are in meaning, how alike their letters are,
which words, numbers and sides one has and the other lacks), some of the concept (how many names it
has, what kind of name the term is).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Indel

from medcoder.kg import KG
from medcoder.normalize.batch import Candidate, Floats
from medcoder.normalize.stages.letters import Grams
from medcoder.normalize.twins import ASIDE, kind_of
from medcoder.text import fold
from medcoder.types import ADDED_KINDS, DERIVED
from medcoder.vectors import NO_ROW, Vectors

MEASURED = 16  # candidates of a string whose features are measured
_KEPT = 1 << 16  # rows and words that stay in memory
_NAMES = 8  # of a concept, whose vectors are looked at
_PREFIX = 4  # letters that a shortened word has at least
_LIKE = 0.6  # of the letters of two words that look alike
_ALIKE = 0.75  # of the letters of two words that are forms of one
_SIDES = {
    word: side
    for side, words in {
        "left": "left links linke linker linkes linken izquierdo izquierda gauche sinistro sinistra"
        " linker esquerdo esquerda lewy lewa levy leva",
        "right": "right rechts rechte rechter rechtes rechten derecho derecha droit droite destro"
        " destra rechter direito direita prawy prawa pravy prava",
        "bilateral": "bilateral bilaterally both beidseits beidseitig beiderseits bilaterale"
        " bilateraal beidseitige obustronny",
    }.items()
    for word in words.split()
}
_ROMAN = {"ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9"}
_NUMBER = re.compile(r"\d+")
# Words of names that say something of a thing beside what it is, which strings rarely leave out.
_CIRCUMSTANCES_SAID = """
    encounter history family screening aftercare following due secondary complicating newborn
    neonatal congenital pregnancy puerperium childbirth maternal fetal fetus postprocedural
    postoperative sequela sequelae poisoning adverse underdosing allergy status exposure other
    specified elsewhere classified without except drug induced perinatal traumatic abnormal
    increased decreased personal suspected observation injury occupant pedestrian
"""
_CIRCUMSTANCES = frozenset(_CIRCUMSTANCES_SAID.split())
_OPEN = frozenset({"unspecified", "nos", "unspec"})

FEATURES = (
    "cosine", "name", "centre", "second", "letters", "spelling", "said", "covered", "said_most",
    "extra_most", "numbers_lacking", "numbers_extra", "marks_lacking", "marks_extra",
    "side_other", "side_extra", "circumstance", "name_circumstance", "aside", "open", "preferred",
    "derived", "includes", "names", "slip", "near", "certain", "support", "length",
    "lookalike",
)  # fmt: skip
COLUMN = {name: position for position, name in enumerate(FEATURES)}

Row = npt.NDArray[np.float32]


class Spoken(NamedTuple):
    """What the words of a text say."""

    folded: str
    words: tuple[str, ...]  # but for numbers and sides
    numbers: frozenset[str]
    marks: frozenset[str]  # single letters: type B
    sides: frozenset[str]
    circumstances: frozenset[str]
    open: bool  # it says that it leaves something open


def spoken_words(text: str) -> Spoken:
    """
    >>> spoken_words("Burn of left hand, grade III")[1:3]
    (('burn', 'of', 'hand', 'grade'), frozenset({'3'}))
    """
    folded = fold(text)
    words, numbers, marks, sides = [], set(), set(), set()
    for word in folded.split():
        if word in _SIDES:
            sides.add(_SIDES[word])
        elif word in _ROMAN:
            numbers.add(_ROMAN[word])
        elif len(word) == 1 and word.isascii() and word.isalpha():
            marks.add(word)
        elif word[0].isdigit() or word[-1].isdigit():
            numbers.update(number.lstrip("0") or "0" for number in _NUMBER.findall(word))
            if not word.isdigit():
                words.append(word)
        else:
            words.append(word)
    some = frozenset(words)
    return Spoken(
        folded,
        tuple(words),
        frozenset(numbers),
        frozenset(marks),
        frozenset(sides),
        some & _CIRCUMSTANCES,
        not _OPEN.isdisjoint(some),
    )


class Absent(NamedTuple):
    """What does not exist for a string."""

    terms: Collection[int] = ()
    texts: Sequence[str] = ()  # of rows that have no term left


_NONE = Absent()


class Rarity:
    """How rare words are, of the rows that are not absent."""

    def __init__(self, grams: Grams, absent: Sequence[str] = ()) -> None:
        self._grams = grams
        self._gone = Counter(word for text in absent for word in set(fold(text).split()))
        self.most = math.log(len(grams) - len(absent) + 2)
        self.of = lru_cache(_KEPT)(self._of)

    def _of(self, word: str) -> float:
        return self.most - math.log(self._grams.rows_with(word) - self._gone[word] + 1)


class _Asked(NamedTuple):
    """A string."""

    spoken: Spoken
    weights: Sequence[float]  # how rare each of its words is
    total: float
    known: Collection[str]  # its words that are words, and no misspellings
    rarity: Rarity
    hidden: Collection[int]


class Measures:
    """Measures candidates of a graph."""

    def __init__(self, kg: KG, vectors: Vectors, grams: Grams) -> None:
        self._kg, self._vectors, self._grams = kg, vectors, grams
        self._kinds = kg.terms.info[:, 2]
        number = {name: position for position, name in enumerate(kg.kinds)}
        self._derived = number.get(DERIVED, -1)
        self._includes = {number[kind] for kind in ADDED_KINDS - {DERIVED} if kind in number}
        aside = [kind_of(entry.name) == ASIDE for entry in kg.types]
        self._aside = np.array(aside, np.bool_)
        self._names_say = lru_cache(_KEPT)(self._name_says)
        self._rarity = Rarity(grams)
        self._spoken = lru_cache(_KEPT)(self._spoken_row)

    def measure(
        self,
        text: str,
        candidates: Sequence[Candidate],
        own: Sequence[str],  # the terms of custom candidates, by -1 - number
        vector: Floats | None,
        absent: Absent = _NONE,
        known: Collection[str] = (),
    ) -> None:
        """Say of the first candidates of a string what speaks for them.

        known: words of the string that are words, and no misspellings
        """
        if not candidates:
            return
        rarity = Rarity(self._grams, absent.texts) if absent.texts else self._rarity
        spoken = spoken_words(text)
        weights = [rarity.of(word) for word in spoken.words]
        asked = _Asked(spoken, weights, sum(weights) or 1.0, known, rarity, absent.terms)
        near, centre, second = self._cosines(candidates, vector, absent.terms)
        for position, candidate in enumerate(candidates):
            term = candidate.term
            row = NO_ROW if term < 0 else int(self._vectors.term_row[term])
            if candidate.hit or (term >= 0 and row == NO_ROW):
                said = spoken  # the string is the term, or its code
            elif term < 0:
                said = spoken_words(own[-1 - term])
            else:
                said = self._spoken(row)
            names = near[position], centre[position], second[position]
            if term < 0 and vector is not None:  # whatever else the concept is called
                names = (1.0 if candidate.hit else candidate.cosine or 0.0,) * 3
            candidate.features = self._features(asked, said, candidate, *names)

    def _features(
        self,
        question: _Asked,
        said: Spoken,
        candidate: Candidate,
        near: float,
        centre: float,
        second: float,
    ) -> Row:
        asked, most = question.spoken, question.rarity.most
        covered, lacking, theirs, extra, all_theirs = _compared(question, said)
        cosine = candidate.cosine
        term = candidate.term
        kind = int(self._kinds[term]) if term >= 0 else -1
        concept = candidate.concept
        first, last = (int(self._kg.terms.first[concept + more]) for more in (0, 1))
        hidden = [term for term in question.hidden if first <= term < last]
        called = frozenset() if first in hidden else self._names_say(concept)
        sides_other = bool(said.sides and asked.sides and said.sides != asked.sides)
        return np.array(
            (
                near if cosine is None else cosine,
                near,
                centre,
                second,
                candidate.similarity or 0.0,
                Indel.normalized_similarity(asked.folded, said.folded),
                covered / question.total,
                theirs / all_theirs,
                lacking / most,
                extra / most,
                min(len(asked.numbers - said.numbers), 3),
                min(len(said.numbers - asked.numbers), 3),
                min(len(asked.marks - said.marks), 2),
                min(len(said.marks - asked.marks), 2),
                sides_other,
                bool(said.sides - asked.sides) and not sides_other,
                min(len(said.circumstances - asked.circumstances), 3),
                min(len(called - said.circumstances - asked.circumstances), 3),
                self._is_aside(concept),
                said.open and not asked.open,
                term == first,
                kind >= 0 and kind == self._derived,
                kind in self._includes,
                math.log(max(last - first - len(hidden), 1)),
                candidate.spelt,
                candidate.near,
                candidate.hit,
                math.log(max(candidate.support, 1)),
                min(len(said.words), 12) - min(len(asked.words), 12),
                _lookalike(asked, said, question.known),
            ),
            np.float32,
        )

    def _cosines(
        self,
        candidates: Sequence[Candidate],
        vector: Floats | None,
        hidden: Collection[int],
    ) -> tuple[list[float], list[float], list[float]]:
        """The cosines of the string with the names of each: the preferred one, all on average, and
        the second best.
        """
        count = len(candidates)
        if vector is None or not vector.any():
            return [0.0] * count, [0.0] * count, [0.0] * count
        concepts = np.array([candidate.concept for candidate in candidates])
        first = self._kg.terms.first[concepts]
        names = np.minimum(self._kg.terms.first[concepts + 1] - first, _NAMES)
        starts = np.cumsum(names) - names
        terms = np.repeat(first - starts, names) + np.arange(names.sum())
        rows = np.asarray(self._vectors.term_row[terms], np.int64)
        # By einsum, each row alone: equal names must not differ by where they stand.
        every = np.einsum("rd,d->r", self._vectors.take(np.maximum(rows, 0)), vector)
        cosines = np.minimum(every, 1.0)
        seen = rows != NO_ROW
        if hidden:
            seen &= ~np.isin(terms, list(hidden))
        cosines[~seen] = 0.0
        sums = np.add.reduceat(cosines, starts)
        some = np.logical_or.reduceat(seen, starts)
        counted = np.maximum(np.add.reduceat(seen, starts, dtype=np.int64), 1)
        best = np.where(some, np.maximum.reduceat(np.where(seen, cosines, -1.0), starts), 0.0)
        rest = np.where(cosines >= np.repeat(best, names) - 1e-6, 0.0, cosines)
        second = np.where(counted > 1, np.maximum.reduceat(rest, starts), best)
        centre = sums / counted
        name = np.where(seen[starts], cosines[starts], centre)  # a hidden one says nothing
        return name.tolist(), centre.tolist(), second.tolist()

    def _name_says(self, concept: int) -> frozenset[str]:
        """The circumstances in the preferred name."""
        return spoken_words(self._kg.terms.preferred(concept)).circumstances

    def _is_aside(self, concept: int) -> bool:
        """Whether all types of a concept are of what is no thing of its own: external causes."""
        start, stop = int(self._kg.first_type[concept]), int(self._kg.first_type[concept + 1])
        return stop > start and bool(self._aside[self._kg.type_numbers[start:stop]].all())

    def _spoken_row(self, row: int) -> Spoken:
        return spoken_words(self._kg.terms.text(int(self._vectors.terms_of(row)[0])))


def _compared(asked: _Asked, said: Spoken) -> tuple[float, float, float, float, float]:
    """How much of the words of a string a term has, the rarest that it lacks; and back."""
    words = dict.fromkeys(
        said.words
    )  # in order: which of two that are as like is taken must not vary
    used: dict[str, float] = {}
    covered = lacking = 0.0
    for word, weight in zip(asked.spoken.words, asked.weights, strict=True):
        if word in words:
            share = 1.0
            used[word] = 1.0
        else:
            share, other = _likest(word, words)
            if share:
                used[other] = max(used.get(other, 0.0), share)
        covered += share * weight
        lacking = max(lacking, (1 - share) * weight)
    theirs = extra = total = 0.0
    for word in words:
        weight, share = asked.rarity.of(word), used.get(word, 0.0)
        total += weight
        theirs += share * weight
        extra = max(extra, (1 - share) * weight)
    return covered, lacking, theirs, extra, total or 1.0


def _likest(word: str, others: Iterable[str]) -> tuple[float, str]:
    """Of some words the one most like a word, and how much it counts for it.

    >>> _likest("pericard", ["acute", "pericarditis"]), _likest("haematuria", ["hematuria"])
    ... # doctest: +ELLIPSIS
    ((0.7, 'pericarditis'), (0.78..., 'hematuria'))
    >>> _likest("gout", ["goitre"])
    (0.0, '')
    """
    best, likest = 0.0, ""
    if len(word) < _PREFIX:
        return best, likest
    for other in others:
        if len(other) < _PREFIX:
            continue
        if word[:3] == other[:3] and (other.startswith(word) or word.startswith(other)):
            share = 0.7
        else:
            like = Indel.normalized_similarity(word, other, score_cutoff=_ALIKE)
            share = min((like - _ALIKE) / (1 - _ALIKE), 0.9)
        if share > best:
            best, likest = share, other
    return best, likest


def _lookalike(asked: Spoken, said: Spoken, known: Collection[str]) -> float:
    """How like a word of the term is to one of the string that is a word of its own: dioxin is no
    misspelt digoxin.
    """
    most = 0.0
    theirs = [word for word in set(said.words) - set(asked.words) if len(word) >= _PREFIX]
    for word in asked.words:
        if len(word) >= _PREFIX and word in known and word not in said.words:
            for other in theirs:
                if not (other.startswith(word) or word.startswith(other)):
                    like = Indel.normalized_similarity(word, other, score_cutoff=_LIKE)
                    most = max(most, like)
    return most
