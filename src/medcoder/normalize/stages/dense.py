"""Terms whose vectors are nearest to that of the query: what means the same."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from medcoder.normalize.batch import Batch, Floats, Pairs, enough
from medcoder.normalize.filters import Ints
from medcoder.normalize.stages import Measure, Searched


class Dense:
    """Nearest neighbours by cosine."""

    name: ClassVar[str] = "dense"
    label: ClassVar[str] = "by its meaning"
    justification: ClassVar[str] = "semapv:SemanticSimilarityThresholdMatching"
    measure: ClassVar[Measure | None] = "cosine"

    def __init__(self, searched: Searched) -> None:
        self._index = searched.index

    def find(self, batch: Batch, vectors: Floats) -> Pairs:
        mask = batch.search.mask

        def look(queries: Ints, size: int) -> Pairs:
            scores, rows = self._index.search(vectors[queries], size, allowed=mask)
            real = rows >= 0
            query = np.broadcast_to(queries[:, None], rows.shape)[real]
            return Pairs(query, rows[real], np.minimum(scores[real], 1).astype(np.float64))

        return enough(look, np.flatnonzero(batch.unsettled), batch)
