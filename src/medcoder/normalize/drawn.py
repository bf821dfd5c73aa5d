"""Queries drawn from a graph to calibrate by, and the misspellings among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.normalize.calibrate import Asked, Calibration, fit
from medcoder.normalize.candidates import Candidate, Candidates, Fusion, Search
from medcoder.text import fold
from medcoder.types import Encoder, Stage

# Kinds of queries and their shares: of strings that people bring, about one in three means
# something that the terminology does not have, or nothing at all.
SHARES = {"synonym": 0.40, "verbatim": 0.10, "misspelt": 0.15, "absent": 0.30, "nonsense": 0.05}
_TWICE = 0.3  # share of the misspelt ones that have two slips
_SEED = 20
_BATCH = 256
_FUSIONS = [Fusion(gain, floor) for gain in (0.0, 0.5, 1.0, 2.0, 4.0) for floor in (0.4, 0.5, 0.6)]
_TOP = 5
_STAGES: dict[str, tuple[Stage, ...]] = {
    "dense+ngram": ("exact", "dense", "ngram"),
    "dense": ("exact", "dense"),
    "ngram": ("exact", "ngram"),
    "exact": ("exact",),
}


class Query(NamedTuple):
    """A string, the row that holds its vector (-1: none), and what is hidden from the search."""

    kind: str
    text: str
    row: int
    concept: int  # whose term it is
    hidden: frozenset[int]  # numbers of terms

    @property
    def meant(self) -> int | None:
        return None if self.kind in ("absent", "nonsense") else self.concept


def draw(found: Candidates, count: int) -> list[Query]:
    """About `count` queries, no two of one concept, of the kinds in their shares, shuffled."""
    rng = np.random.default_rng(_SEED)
    wanted = {kind: round(share * count) for kind, share in SHARES.items()}
    queries: list[Query] = []
    for concept in rng.permutation(len(found.kg)).tolist():
        kinds = [kind for kind, left in wanted.items() if left]
        if not kinds:
            break
        # What few concepts can be asked for comes first.
        for kind in kinds:
            query = _query(found, kind, concept, rng)
            if query is not None:
                queries.append(query)
                wanted[kind] -= 1
                break
    return [queries[place] for place in rng.permutation(len(queries)).tolist()]


def _query(found: Candidates, kind: str, concept: int, rng: np.random.Generator) -> Query | None:
    """A query of this kind about a concept, if it has terms for one."""
    kg, vectors = found.kg, found.vectors
    first, last = int(kg.terms.first[concept]), int(kg.terms.first[concept + 1])
    embedded = np.flatnonzero(vectors.term_row[first:last] >= 0)
    if not len(embedded):
        return None
    place = int(rng.choice(embedded))
    texts = [text for text, *_ in kg.terms.of(concept)]
    text, row = texts[place], int(vectors.term_row[first + place])
    if kind == "verbatim":
        return Query(kind, text, row, concept, frozenset())
    if kind in ("absent", "synonym") and any(one != concept for one, _ in kg.find_terms(text)):
        return None  # hidden here, others would still bear the name, and rightly be answered with
    if kind == "absent":
        return Query(kind, text, row, concept, frozenset(range(first, last)))
    if kind == "nonsense":
        wrong = scramble(text, rng)
        # Letters may fall back into place, or make another term: MI and IM.
        return None if kg.find_terms(wrong) else Query(kind, wrong, -1, concept, frozenset())
    key = fold(text)
    if kind == "misspelt":
        wrong = misspell(text, rng)
        if rng.random() < _TWICE:
            wrong = misspell(wrong, rng)
        return Query(kind, wrong, -1, concept, frozenset()) if fold(wrong) != key else None
    alike = frozenset(first + other for other, same in enumerate(texts) if fold(same) == key)
    return Query(kind, text, row, concept, alike) if len(alike) < last - first else None


def scramble(text: str, rng: np.random.Generator) -> str:
    """The same letters in another order, word by word: what means nothing.

    >>> scramble("heart attack", np.random.default_rng(1))
    'thear kcaatt'
    """
    words = [rng.permutation(list(word)).tolist() for word in text.split()[:4]]
    return " ".join("".join(letters) for letters in words)


def misspell(text: str, rng: np.random.Generator) -> str:
    """One slip of the fingers: a letter dropped, doubled, swapped or replaced.

    >>> misspell("heart attack", np.random.default_rng(1))
    'heart ttack'
    """
    letters = [place for place, letter in enumerate(text) if letter.isalpha()]
    if len(letters) < 4:
        return text
    place = letters[int(rng.integers(1, len(letters)))]
    slip = int(rng.integers(4))
    if slip == 0 or (slip == 2 and not text[place - 1].isalpha()):
        return text[:place] + text[place + 1 :]
    if slip == 1:
        return text[:place] + text[place] + text[place:]
    if slip == 2:
        return text[: place - 1] + text[place] + text[place - 1] + text[place + 1 :]
    other = text[letters[int(rng.integers(len(letters)))]]
    return text[:place] + other + text[place + 1 :]


def calibrate(
    found: Candidates, encoder: Encoder, count: int
) -> tuple[Fusion, dict[str, Calibration]]:
    """The fusion that suits the graph, and a calibration for each set of stages."""
    queries = draw(found, count)
    vectors = _vectors(found, encoder, queries)
    half = len(queries) // 2
    fusion = _best_fusion(found, queries[:half], vectors[:half])
    fitted = {}
    for name, stages in _STAGES.items():
        search = Search(top=_TOP, stages=stages, fusion=fusion)
        asked = _ask(found, queries, vectors, search)
        fitted[name] = fit(asked[:half], asked[half:])
    return fusion, fitted


def _best_fusion(
    found: Candidates, queries: Sequence[Query], vectors: npt.NDArray[np.float32]
) -> Fusion:
    """The one that is best for the kinds of queries on average; of equal ones, the least gain.

    Candidates are found once and put in order anew for each.
    """
    search = Search(top=_TOP, stages=_STAGES["dense+ngram"], fusion=Fusion())
    asked = [one for one in _ask(found, queries, vectors, search) if one.concept is not None]
    kinds = Counter(one.kind for one in asked)
    hits = {
        fusion: sum(_right(one, fusion) / kinds[one.kind] for one in asked) for fusion in _FUSIONS
    }
    return max(hits, key=lambda fusion: (hits[fusion], -fusion.gain, fusion.floor))


def _right(one: Asked, fusion: Fusion) -> bool:
    if not one.candidates or one.candidates[0].stage == "exact":
        return one.right

    def score(other: Candidate) -> float:
        return fusion.score(other.cosine, other.similarity, known=other.known, spelt=other.spelt)

    # Concepts of one name have one score: see `calibrate`.
    found = [score(other) for other in one.candidates if other.concept == one.concept]
    return bool(found) and max(found) >= max(map(score, one.candidates))


def _ask(
    found: Candidates,
    queries: Sequence[Query],
    vectors: npt.NDArray[np.float32],
    search: Search,
) -> list[Asked]:
    asked = []
    dense = "dense" in search.stages
    for start in range(0, len(queries), _BATCH):
        some = queries[start : start + _BATCH]
        answers = found.find(
            [query.text for query in some],
            vectors[start : start + _BATCH].__getitem__ if dense else None,
            search,
            without=[query.hidden for query in some],
        )
        asked += [
            Asked(query.kind, candidates, query.meant)
            for query, candidates in zip(some, answers, strict=True)
        ]
    return asked


def _vectors(
    found: Candidates, encoder: Encoder, queries: Sequence[Query]
) -> npt.NDArray[np.float32]:
    """Vectors of the queries; those of terms are there already."""
    rows = np.array([query.row for query in queries], np.int64)
    vectors = found.vectors.take(np.maximum(rows, 0))
    new = np.flatnonzero(rows < 0)
    if len(new):
        vectors[new] = encoder.encode([queries[place].text for place in new.tolist()])
    return vectors
