"""Ranks the concepts of a dictionary for queries, by cosine or by a system's own means.

A concept counts by its best term, and once. Where scores tie, the term that comes first in the
table wins, so that a figure is the same on every run. Work goes by blocks of queries: memory is
bounded whatever the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.evaluate.results import (
    Embedding,
    Floats,
    Linker,
    Mask,
    Ranked,
    Rows,
    Vectors,
)
from medcoder.types import Progress

_CELLS = 1 << 23  # scores at a time: 32 MB
_TEXTS = 2048  # embedded between two signs of progress


@dataclass(frozen=True)
class Dictionary:
    """Terms and the concept of each: its ids, joined by "|" where it has several."""

    concepts: list[str]
    terms: list[str]

    def __post_init__(self) -> None:
        assert len(self.concepts) == len(self.terms)

    def __len__(self) -> int:
        return len(self.terms)


def link(
    system: Embedding | Linker,
    queries: Sequence[str],
    dictionary: Dictionary,
    k: int,
    *,
    progress: Progress | None = None,
) -> tuple[Ranked, Mask]:
    """The best k concepts of each query, and which queries the system knows.

    The same string is embedded once, however often it is asked for.
    """
    distinct, places = distinct_texts(queries)
    if isinstance(system, Linker):
        ranked = system.link(distinct, dictionary.terms, dictionary.concepts, k)
        known = ranked.rows[:, 0] >= 0
    else:
        terms, term_places = distinct_texts(dictionary.terms)
        candidates = embed(system, terms, corpus=terms, progress=progress)
        asked = embed(system, distinct, corpus=terms, progress=progress)
        ranked = rank(asked, candidates, term_places, dictionary.concepts, k, progress=progress)
        known = asked.known
    return Ranked(ranked.rows[places], ranked.scores[places]), known[places]


def distinct_texts(texts: Sequence[str]) -> tuple[list[str], Rows]:
    """Each string once, in the order of its first use, and where each text is among them."""
    numbers: dict[str, int] = {}
    places = np.fromiter(
        (numbers.setdefault(text, len(numbers)) for text in texts), dtype=np.int64, count=len(texts)
    )
    return list(numbers), places


def embed(
    embedding: Embedding,
    texts: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
    corpus: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Vectors:
    """Vectors of the texts, in pieces where that costs nothing, so that progress can be seen."""
    if embedding.kind not in ("contextual", "ours") or len(texts) <= _TEXTS:
        return embedding.embed(texts, ids=ids, corpus=corpus)
    # Texts of like length together: pieces then waste no padding.
    order = np.argsort([len(text) for text in texts], kind="stable")
    rows: Floats | None = None
    known = np.zeros(len(texts), dtype=bool)
    for start in range(0, len(order), _TEXTS):
        some = order[start : start + _TEXTS]
        vectors = embedding.embed(
            [texts[position] for position in some],
            ids=None if ids is None else [ids[position] for position in some],
            corpus=corpus,
        )
        if rows is None:
            rows = np.zeros((len(texts), vectors.rows.shape[1]), dtype=np.float32)
        rows[some], known[some] = vectors.rows, vectors.known
        if progress is not None:
            progress("embedding", min(start + _TEXTS, len(order)), len(order))
    return Vectors(rows, known)


def rank(
    queries: Vectors,
    terms: Vectors,
    places: Rows,
    concepts: Sequence[str],
    k: int,
    *,
    progress: Progress | None = None,
) -> Ranked:
    """The best k concepts of each query by cosine.

    `terms` are distinct strings; `places` says which of them each row of the dictionary has, and
    `concepts` which concept it names. A query or term without a vector matches nothing. In a
    sparse space a score of 0 says that nothing is shared: that is no match either.
    """
    _, numbers = distinct_texts(concepts)
    order = np.argsort(numbers, kind="stable")  # rows of a concept together, in table order
    first = np.flatnonzero(np.diff(numbers[order], prepend=-1))  # where each concept begins
    usable = terms.known[places[order]]  # (rows,)
    k_found = min(k, len(first))
    ranked = Ranked(
        np.full((len(queries.known), k), -1, dtype=np.int64),
        np.full((len(queries.known), k), -np.inf, dtype=np.float32),
    )
    block = max(1, _CELLS // max(len(order), 1))
    for start in range(0, len(queries.known), block):
        some = slice(start, start + block)
        scores = _scores(queries.rows[some], terms.rows)[:, places[order]]  # (b, rows)
        scores[:, ~usable] = -np.inf
        scores[~queries.known[some]] = -np.inf
        _best(scores, order, first, k_found, ranked, start)
        if progress is not None:
            progress("ranking", min(start + block, len(queries.known)), len(queries.known))
    return ranked


def _scores(queries: Any, terms: Any) -> Floats:
    """Cosines of a block of queries with all terms."""
    if isinstance(queries, np.ndarray):
        dense: Floats = queries @ terms.T
        return dense
    shared: Floats = np.asarray((queries @ terms.T).todense(), dtype=np.float32)
    shared[shared <= 0] = -np.inf
    return shared


def _best(
    scores: Floats, order: Rows, first: npt.NDArray[np.intp], k: int, ranked: Ranked, start: int
) -> None:
    """Fill in the best k concepts of a block of queries."""
    if not k:
        return
    best = np.maximum.reduceat(scores, first, axis=1)  # (b, concepts)
    least = np.partition(best, best.shape[1] - k, axis=1)[:, best.shape[1] - k]
    query, concept = np.nonzero((best >= least[:, None]) & np.isfinite(best))  # ties and all
    last = np.append(first[1:], scores.shape[1])
    # The first of a concept's terms that has its best score.
    row = np.fromiter(
        (
            order[first[c] + int(np.argmax(scores[q, first[c] : last[c]]))]
            for q, c in zip(query.tolist(), concept.tolist(), strict=True)
        ),
        dtype=np.int64,
        count=len(query),
    )
    score = best[query, concept]
    sequence = np.lexsort((row, -score, query))
    query, row, score = query[sequence], row[sequence], score[sequence]
    begin = np.searchsorted(query, np.arange(len(scores)))
    rank_in = np.arange(len(query)) - begin[query]
    kept = rank_in < k
    ranked.rows[start + query[kept], rank_in[kept]] = row[kept]
    ranked.scores[start + query[kept], rank_in[kept]] = score[kept]


def nearest(vectors: Vectors, k: int, *, progress: Progress | None = None) -> tuple[Rows, Rows]:
    """Of the items that have a vector: which they are, and the k nearest others of each.

    An item is not its own neighbour, and in a sparse space neither is one that shares nothing with
    it. Ties go to the item that comes first; -1 where there are no more.
    """
    items = np.flatnonzero(vectors.known)
    rows = vectors.rows[items]
    k_found = min(k, max(len(items) - 1, 0))
    near = np.full((len(items), k), -1, dtype=np.int64)
    block = max(1, _CELLS // max(len(items), 1))
    for start in range(0, len(items) if k_found else 0, block):
        scores = _scores(rows[start : start + block], rows)  # (b, n)
        mine = np.arange(len(scores))
        scores[mine, start + mine] = -np.inf
        query, other = np.nonzero(_first_best(scores, k_found))
        sequence = np.lexsort((other, -scores[query, other], query))
        query, other = query[sequence], other[sequence]
        rank = np.arange(len(query)) - np.searchsorted(query, mine)[query]
        near[start + query, rank] = other
        if progress is not None:
            progress("neighbours", min(start + block, len(items)), len(items))
    return items, near


def _first_best(scores: Floats, k: int) -> Mask:
    """The k best of each row, of those that tie for the last places the first ones."""
    least = np.partition(scores, scores.shape[1] - k, axis=1)[:, -k][:, None]
    above, tied = scores > least, scores == least
    room = k - above.sum(axis=1, dtype=np.int32)[:, None]
    tied &= np.cumsum(tied, axis=1, dtype=np.int32) <= room
    best: Mask = (above | tied) & np.isfinite(scores)
    return best


def ranks_of_gold(ranked: Ranked, concepts: Sequence[str], gold: Sequence[frozenset[str]]) -> Rows:
    """Where the first right concept stands, from 0; -1 where it is not among the ranked."""
    ids = [frozenset(concept.split("|")) for concept in concepts]
    return np.fromiter(
        (
            next((rank for rank, row in enumerate(rows) if row >= 0 and ids[row] & wanted), -1)
            for rows, wanted in zip(ranked.rows.tolist(), gold, strict=True)
        ),
        dtype=np.int64,
        count=len(gold),
    )
