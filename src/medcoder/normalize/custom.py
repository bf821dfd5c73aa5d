"""Custom terms beside those of the graph: which may answer, and how near they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medcoder.index import Mask
from medcoder.normalize.batch import Batch, Floats, Scored
from medcoder.normalize.custom_terms import Overlay
from medcoder.normalize.filters import Allowed
from medcoder.normalize.grams import Grams
from medcoder.text import fold

Row = tuple[int, int, int, bool, float, float, float, bool]  # of `Scored`


def custom_mask(overlay: Overlay, allowed: Allowed | None) -> Mask:
    """Which terms may be answered with."""
    if allowed is None:
        return np.ones(len(overlay), np.bool_)
    pairs = zip(overlay.concepts, overlay.languages, strict=True)
    return np.array([allowed.custom(*pair) for pair in pairs], np.bool_)


def custom_slips(
    overlay: Overlay, grams: Grams, asked: Batch
) -> Iterator[tuple[int, tuple[int, float]]]:
    """The places of queries that are a term but for a slip, with its number and similarity."""
    for place in np.flatnonzero(~asked.known).tolist() if asked.letters else ():
        for number, similarity in overlay.similar(asked.texts[place], grams, asked.custom).items():
            if asked.spelt(place, fold(overlay.texts[number]).split()):
                yield place, (number, similarity)


def with_custom(
    overlay: Overlay, grams: Grams, asked: Batch, vectors: Floats | None, scored: Scored
) -> Scored:
    """Custom terms added to those of the graph."""
    rows = [
        row
        for place in range(len(asked.texts))
        for row in _rows(overlay, grams, asked, vectors, place)
    ]
    if not rows:
        return scored
    more = (
        np.array(column, kept.dtype)
        for column, kept in zip(zip(*rows, strict=True), scored, strict=True)
    )
    return Scored(*(np.concatenate(pair) for pair in zip(scored, more, strict=True)))


def _rows(
    overlay: Overlay, grams: Grams, asked: Batch, vectors: Floats | None, place: int
) -> Iterator[Row]:
    query, known = asked.texts[place], bool(asked.known[place])
    cosines = overlay.cosines(vectors[place]) if vectors is not None else None
    near = overlay.near(cosines, asked.custom) if cosines is not None else []
    alike = overlay.similar(query, grams, asked.custom) if asked.letters else {}
    for number in dict.fromkeys([*near, *alike]):
        words = fold(overlay.texts[number]).split()
        cosine = min(float(cosines[number]), 1.0) if cosines is not None else None
        similarity = alike.get(number)
        if asked.letters and similarity is None:
            similarity = float(grams.similarity(query, [overlay.texts[number]])[0])
        spelt = asked.letters and not known and asked.spelt(place, words)
        yield (
            place,
            overlay.concepts[number],
            -1 - number,
            number in near,
            np.nan if cosine is None else cosine,
            np.nan if similarity is None else similarity,
            asked.search.fusion.score(cosine, similarity, known=known, spelt=spelt),
            spelt,
        )
