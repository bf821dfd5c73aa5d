"""Terms that a model was trained on, so that figures can be given without them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from medcoder.artefact import META
from medcoder.errors import InputError
from medcoder.evaluate.card import read_table, sha256
from medcoder.kg import KG
from medcoder.kg.keys import hash_text
from medcoder.text import fold

COLUMN = "term"


class Seen:
    """Whether a string is a term of training graphs, but for case, accents and punctuation."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Graph directories, or tables (.parquet, .tsv) with a column `term`."""
        self._graphs = [KG.open(path) for path in paths if _is_graph(path)]
        tables = [path for path in paths if not _is_graph(path)]
        # Eight bytes a term: graphs for training have millions.
        hashes = {hash_text(fold(term)) for path in tables for term in _terms(path)}
        self._hashes = np.sort(np.fromiter(hashes, dtype=np.uint64, count=len(hashes)))
        prints = [graph.fingerprint for graph in self._graphs] + [sha256(path) for path in tables]
        self.fingerprint = hashlib.sha256("\n".join(sorted(prints)).encode()).hexdigest()[:16]

    def __call__(self, text: str) -> bool:
        if any(graph.find_terms(text) for graph in self._graphs):
            return True
        hashed = np.uint64(hash_text(fold(text)))
        place = int(np.searchsorted(self._hashes, hashed))
        return place < len(self._hashes) and bool(self._hashes[place] == hashed)


def _is_graph(path: Path) -> bool:
    if not path.exists():
        raise InputError(
            "there is no such graph or table", file=path, remedy="Check what --seen names"
        )
    if path.is_dir() and not (path / META).exists():
        raise InputError(
            "it is a folder, and not a graph",
            file=path,
            remedy="Name a graph of `medcoder kg build`, or a table with a column `term`",
        )
    return path.is_dir()


def _terms(path: Path) -> Iterable[str]:
    if path.suffix != ".parquet":
        return [term for (term,) in read_table(path, (COLUMN,))]
    import pyarrow.parquet as pq

    if COLUMN not in pq.read_schema(path).names:
        raise InputError(
            f"there is no column {COLUMN!r}; there are: {', '.join(pq.read_schema(path).names)}",
            file=path,
            remedy=f"Call the column of the terms {COLUMN}",
        )
    return (
        term
        for batch in pq.ParquetFile(path).iter_batches(columns=[COLUMN])
        for term in batch.column(0).to_pylist()
        if term is not None
    )
