"""What benches compare, by lines of text: embeddings, and the whole normaliser over a dictionary.

This room does not know that of the normaliser. Whoever calls hands over how an index is built and
opened:

    from medcoder.normalize import Normalizer
    from medcoder.normalize.build import build
    from medcoder.normalize.stages import STAGES

    how = {"build": build, "load": Normalizer.load, "stages": STAGES}
    linker = NormalizerLinker(encoder, **how, cache=folder)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from medcoder.artefact import META
from medcoder.bundled.models import bundled_calibration, bundled_weights
from medcoder.errors import UsageError
from medcoder.evaluate import embeddings
from medcoder.evaluate.results import Embedding, Kind, Linker, Ranked
from medcoder.kg import KG
from medcoder.types import Answer, Encoder, Progress

NORMALIZER = "normalizer"
CACHE = "cache"  # folder of indexes in the folder of a run


class NormalizerSpec(NamedTuple):
    model: str | None  # an exported model, or an index whose model is meant; None: the bundled one
    name: str | None  # of its row


def open_systems(
    specs: Sequence[str],
    *,
    normalizer: Callable[[NormalizerSpec], Linker],
    threads: int | None = None,
) -> Iterator[Embedding | Linker]:
    """Each system when its turn comes: two large models need not be in memory at once."""
    for spec in specs:
        if is_normalizer(spec):
            yield normalizer(parse_normalizer(spec))
        else:
            yield embeddings.load(spec, threads=threads)


def check_specs(specs: Sequence[str]) -> None:
    """Specs that cannot be right are an error before anything is run."""
    for spec in specs:
        if is_normalizer(spec):
            parse_normalizer(spec)
        else:
            embeddings.check(spec)


def is_normalizer(spec: str) -> bool:
    return spec.partition(",")[0].partition(":")[0] == NORMALIZER


def parse_normalizer(spec: str) -> NormalizerSpec:
    """The model or index of "normalizer:PATH,name=NAME", and the name."""
    where, comma, option = spec.partition(",name=")
    _, _, path = where.partition(":")
    if "=" in where.rpartition(",")[2]:
        raise UsageError("the one option of a normalizer is name", where=repr(spec))
    return NormalizerSpec(path or None, option if comma else None)


class _Normalizer(Protocol):
    """What is asked of a normaliser."""

    def normalize_many(
        self,
        texts: Iterable[str],
        *,
        top: int,
        threshold: float | None,
        progress: Progress | None,
    ) -> Iterator[Answer]: ...


class NormalizerLinker:
    """The whole Normalizer over the dictionary of a bench.

    The dictionary becomes a graph and an index of its own, which are kept in `cache`: the second
    run, and the second bench with the same dictionary, find them there. All candidates are ranked,
    also those that it would not answer with (because the string says that the thing is not there,
    say, or has no word that is known), as embeddings rank for every string. Scores are its
    confidences.
    """

    kind: Kind = "system"

    def __init__(
        self,
        encoder: Encoder,
        *,
        name: str = "Normalizer",
        build: Callable[..., None],
        load: Callable[[Path], _Normalizer],
        stages: Iterable[str],
        cache: Path,
        progress: Progress | None = None,
    ) -> None:
        """`build(graph, encoder, path, progress=...)` makes an index, and `load(path)` opens it.

        stages: those of the normaliser, to be told with its results
        """
        self.name = name
        self._encoder, self._build, self._load = encoder, build, load
        self._stages, self._cache, self._progress = stages, cache, progress

    @property
    def fingerprint(self) -> str:
        made = f"normalizer {version('medcoder')} {self._encoder.fingerprint} {self._weights}"
        return hashlib.sha256(made.encode()).hexdigest()[:16]

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "encoder": self._encoder.fingerprint,
            "weights": self._weights,
            "stages": list(self._stages),
            "threshold": 0.0,
        }

    @cached_property
    def _weights(self) -> str:
        """Of the file that orders candidates, or from which an index fits what does."""
        file = bundled_calibration(self._encoder.fingerprint) or bundled_weights()
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]

    def link(
        self, queries: Sequence[str], terms: Sequence[str], concepts: Sequence[str], k: int
    ) -> Ranked:
        numbers: dict[str, int] = {}
        for concept in concepts:
            numbers.setdefault(concept, len(numbers))
        rows: dict[tuple[int, str], int] = {}  # of a concept and a term, and of a concept alone
        for row, (concept, term) in enumerate(zip(concepts, terms, strict=True)):
            rows.setdefault((numbers[concept], term), row)
            rows.setdefault((numbers[concept], ""), row)
        index = self._index([numbers[concept] for concept in concepts], terms)
        normalizer = self._load(index)
        ranked = Ranked(
            np.full((len(queries), k), -1, dtype=np.int64),
            np.full((len(queries), k), -np.inf, dtype=np.float32),
        )
        answers = normalizer.normalize_many(queries, top=k, threshold=0.0, progress=self._progress)
        for query, answer in enumerate(answers):
            for rank, match in enumerate(answer.candidates):
                number = int(match.concept)
                row = rows.get((number, match.term), rows[number, ""])
                ranked.rows[query, rank] = row
                ranked.scores[query, rank] = match.confidence
        return ranked

    def _index(self, numbers: Sequence[int], terms: Sequence[str]) -> Path:
        """The index of a dictionary, built if it is not there."""
        from medcoder.kg.build import build_kg
        from medcoder.kg.sources import open_source

        digest = hashlib.sha256(self.fingerprint.encode())
        for number, term in zip(numbers, terms, strict=True):
            digest.update(f"\n{number}\t{term}".encode())
        index = self._cache / f"{digest.hexdigest()[:16]}.index"
        if (index / META).exists():
            return index
        graph, table = index.with_suffix(".kg"), index.with_suffix(".terms.parquet")
        _write_terms(table, numbers, terms)
        source = open_source(f"table={table}")
        # A dictionary is searched whole, by this system as by others.
        build_kg([source], graph, any_names=["all"], overwrite=True, progress=self._progress)
        self._build(KG.open(graph), self._encoder, index, progress=self._progress)
        table.unlink()
        return index


def _write_terms(table: Path, numbers: Sequence[int], terms: Sequence[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "concept": pa.array([f"{number:09}" for number in numbers]),
        "term": pa.array(list(terms)),
        "language": pa.array(["en"] * len(terms)),
    }
    pq.write_table(pa.table(columns), table)
