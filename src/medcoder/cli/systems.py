"""What `medcoder bench` compares: embeddings by their specs, and whole normalisers."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medcoder.artefact import META
from medcoder.cli import opened, parse
from medcoder.cli.run import Report
from medcoder.errors import UsageError
from medcoder.evaluate.base import Embedding, Kind, Linker, Ranked

if TYPE_CHECKING:
    from medcoder.encode.onnx import OnnxEncoder
    from medcoder.types import Answer

NORMALIZER = "normalizer"
CACHE = "cache"


def systems(
    specs: Sequence[str],
    out: Path,
    *,
    threads: int | None = None,
    progress: Report | None = None,
) -> Iterator[Embedding | Linker]:
    """Each system when its turn comes: two large models need not be in memory at once."""
    from medcoder.evaluate import embeddings

    with contextlib.suppress(ImportError):
        opened.no_bars()
    for spec in specs:
        if is_normalizer(spec):
            yield NormalizerLinker(*_named(spec), cache=out / CACHE, progress=progress)
        else:
            yield embeddings.load(spec, threads=threads)


def check_specs(specs: Sequence[str]) -> None:
    """Specs that cannot be right are an error before anything is run."""
    from medcoder.evaluate import embeddings

    for spec in specs:
        if is_normalizer(spec):
            _named(spec)
            continue
        kind, target, _ = embeddings.parse(spec)
        if kind in ("word", "concept") and not parse.place(Path(target)).is_file():
            raise UsageError(f"{spec!r}: there is no file {target}")


def is_normalizer(spec: str) -> bool:
    return spec.partition(",")[0].partition(":")[0] == NORMALIZER


def _named(spec: str) -> tuple[str | None, str | None]:
    """The model or index of "normalizer:PATH,name=NAME", and the name."""
    where, comma, option = spec.partition(",name=")
    _, _, path = where.partition(":")
    if "=" in where.rpartition(",")[2]:
        raise UsageError(f"{spec!r}: the one option of a normalizer is name")
    return path or None, option if comma else None


class NormalizerLinker:
    """The whole Normalizer over the dictionary of a bench.

    The dictionary becomes a graph and an index of its own, which are kept in `cache`: the second
    run, and the second bench with the same dictionary, find them there. It ranks without a
    threshold, so that it always answers, as embeddings do. Scores are its confidences.
    """

    kind: Kind = "system"

    def __init__(
        self,
        model: str | None,
        name: str | None,
        *,
        cache: Path,
        progress: Report | None = None,
    ) -> None:
        """`model`: an exported model, or an index whose model it is; None: the shipped one."""
        self._encoder = _encoder(model)
        self.name = name or f"Normalizer ({_label(model)})"
        self._cache, self._progress = cache, progress

    @property
    def fingerprint(self) -> str:
        made = f"normalizer {version('medcoder')} {self._encoder.fingerprint}"
        return hashlib.sha256(made.encode()).hexdigest()[:16]

    @property
    def settings(self) -> dict[str, Any]:
        from medcoder.types import STAGES

        return {"encoder": self._encoder.fingerprint, "stages": list(STAGES), "threshold": 0.0}

    def link(
        self, queries: Sequence[str], terms: Sequence[str], concepts: Sequence[str], k: int
    ) -> Ranked:
        from medcoder.normalize import Normalizer

        numbers: dict[str, int] = {}
        for concept in concepts:
            numbers.setdefault(concept, len(numbers))
        rows: dict[tuple[int, str], int] = {}  # of a concept and a term, and of a concept alone
        for row, (concept, term) in enumerate(zip(concepts, terms, strict=True)):
            rows.setdefault((numbers[concept], term), row)
            rows.setdefault((numbers[concept], ""), row)
        place = self._index([numbers[concept] for concept in concepts], terms)
        normalizer = Normalizer.load(place)
        found = Ranked(
            np.full((len(queries), k), -1, dtype=np.int64),
            np.full((len(queries), k), -np.inf, dtype=np.float32),
        )
        answers = normalizer.normalize_many(queries, top=k, threshold=0.0, progress=self._progress)
        for query, answer in enumerate(answers):
            _fill(found, query, answer, rows)
        return found

    def _index(self, numbers: Sequence[int], terms: Sequence[str]) -> Path:
        """The index of a dictionary, built if it is not there."""
        from medcoder.kg import KG
        from medcoder.kg.build import build_kg
        from medcoder.kg.sources import open_source
        from medcoder.normalize.build import build

        digest = hashlib.sha256(self.fingerprint.encode())
        for number, term in zip(numbers, terms, strict=True):
            digest.update(f"\n{number}\t{term}".encode())
        place = self._cache / f"{digest.hexdigest()[:16]}.index"
        if (place / META).exists():
            return place
        graph, table = place.with_suffix(".kg"), place.with_suffix(".terms.parquet")
        _write_terms(table, numbers, terms)
        build_kg([open_source(f"table={table}")], graph, overwrite=True, progress=self._progress)
        build(KG.open(graph), self._encoder, place, progress=self._progress)
        table.unlink()
        return place


def _fill(found: Ranked, query: int, answer: Answer, rows: dict[tuple[int, str], int]) -> None:
    for rank, match in enumerate(answer.matches):
        concept = int(match.concept)
        found.rows[query, rank] = rows.get((concept, match.term), rows[concept, ""])
        found.scores[query, rank] = match.confidence


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


def _encoder(model: str | None) -> OnnxEncoder:
    from medcoder.normalize.build import ENCODER

    if model is not None:
        inside = parse.place(Path(model)) / ENCODER
        if (inside / META).exists():
            return opened.exported_encoder(str(inside))
    return opened.exported_encoder(model)


def _label(model: str | None) -> str:
    from medcoder.bundled.models import MODEL

    return MODEL if model is None else Path(model).name
