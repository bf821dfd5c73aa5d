"""Every row compared: the truth, and fast enough for some hundred thousand rows."""

from __future__ import annotations

from pathlib import Path

from medcoder.index.filtered import Filtered
from medcoder.index.scan import ROUNDING, SPARE, Floats, Found, Mask, checked, scan, settle
from medcoder.index.stored import Stored
from medcoder.vectors import Vectors


class ExactIndex:
    """Needs nothing on disk but the vectors."""

    def __init__(self, vectors: Vectors, folder: Path) -> None:
        self._vectors = Stored(vectors)
        self._filtered = Filtered(self._vectors)

    @staticmethod
    def build(vectors: Vectors, folder: Path) -> None:
        """Nothing to do."""

    def search(self, queries: Floats, k: int, *, allowed: Mask | None = None) -> Found:
        allowed = checked(self._vectors, queries, allowed)
        if allowed is not None:
            return self._filtered.search(queries, k, allowed)
        return settle(
            lambda some, size: scan(self._vectors, some, size),
            self._vectors,
            queries,
            k,
            first=k + SPARE,
            among=len(self._vectors),
            slack=ROUNDING,
        )
