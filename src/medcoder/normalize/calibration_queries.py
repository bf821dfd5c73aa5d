"""Queries drawn from a graph to calibrate by, and the misspellings among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from medcoder.kg.masks import Mask, named_terms
from medcoder.normalize.rank import Ranker
from medcoder.text import fold

# Kinds of queries and their shares: of strings that people bring, about a third mean
# something that the terminology does not have, or nothing at all.
SHARES = {"synonym": 0.40, "verbatim": 0.10, "misspelt": 0.15, "absent": 0.30, "nonsense": 0.05}
_TWICE = 0.3  # share of the misspelt ones that have two slips
_SEED = 20


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


def draw(ranker: Ranker, count: int) -> list[Query]:
    """About `count` queries, no two of the same concept, of the kinds in their shares, shuffled."""
    rng = np.random.default_rng(_SEED)
    wanted = {kind: round(share * count) for kind, share in SHARES.items()}
    queries: list[Query] = []
    names = named_terms(ranker.kg)
    for concept in rng.permutation(len(ranker.kg)).tolist():
        kinds = [kind for kind, left in wanted.items() if left]
        if not kinds:
            break
        # What few concepts can be asked for comes first.
        for kind in kinds:
            query = _query(ranker, names, kind, concept, rng)
            if query is not None:
                queries.append(query)
                wanted[kind] -= 1
                break
    return [queries[position] for position in rng.permutation(len(queries)).tolist()]


def _query(
    ranker: Ranker, names: Mask, kind: str, concept: int, rng: np.random.Generator
) -> Query | None:
    """A query of this kind about a concept, if it has names for it; `names` are masked terms."""
    kg, vectors = ranker.kg, ranker.vectors
    first, last = int(kg.terms.first[concept]), int(kg.terms.first[concept + 1])
    named = names[first:last]
    with_vector = np.flatnonzero(named & (vectors.term_row[first:last] >= 0))
    if not len(with_vector):
        return None
    number = int(rng.choice(with_vector))
    texts = [text for text, *_ in kg.terms.of(concept)]
    text, row = texts[number], int(vectors.term_row[first + number])
    if kind == "verbatim":
        return Query(kind, text, row, concept, frozenset())
    if kind in ("absent", "synonym") and any(other != concept for other, _ in kg.find_terms(text)):
        return None  # hidden here, others would still bear the name, and rightly be answered with
    if kind == "absent":
        return Query(kind, text, row, concept, frozenset(range(first, last)))
    if kind == "nonsense":
        wrong = scramble(text, rng)
        # Letters may fall back into order, or make another term: MI and IM.
        return None if kg.find_terms(wrong) else Query(kind, wrong, -1, concept, frozenset())
    key = fold(text)
    if kind == "misspelt":
        wrong = misspell(text, rng)
        if rng.random() < _TWICE:
            wrong = misspell(wrong, rng)
        return Query(kind, wrong, -1, concept, frozenset()) if fold(wrong) != key else None
    # What was made of the hidden name is hidden with it.
    alike = frozenset(
        first + other for other, same in enumerate(texts) if fold(same) == key or not named[other]
    )
    return Query(kind, text, row, concept, alike) if len(alike) < last - first else None


def scramble(text: str, rng: np.random.Generator) -> str:
    """The same letters in another order, word by word: what means nothing.

    >>> scramble("heart attack", np.random.default_rng(1))
    'thear kcaatt'
    """
    words = [rng.permutation(list(word)).tolist() for word in text.split()[:4]]
    return " ".join("".join(letters) for letters in words)


def misspell(text: str, rng: np.random.Generator) -> str:
    """A slip of the fingers: a letter dropped, doubled, swapped or replaced.

    >>> misspell("heart attack", np.random.default_rng(1))
    'heart ttack'
    """
    letters = [position for position, letter in enumerate(text) if letter.isalpha()]
    if len(letters) < 4:
        return text
    position = letters[int(rng.integers(1, len(letters)))]
    slip = int(rng.integers(4))
    if slip == 0 or (slip == 2 and not text[position - 1].isalpha()):
        return text[:position] + text[position + 1 :]
    if slip == 1:
        return text[:position] + text[position] + text[position:]
    if slip == 2:
        return text[: position - 1] + text[position] + text[position - 1] + text[position + 1 :]
    other = text[letters[int(rng.integers(len(letters)))]]
    return text[:position] + other + text[position + 1 :]
