"""Run benches for systems; what was done already for the same model, data and settings is kept."""

from __future__ import annotations

import datetime
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from medcoder.artefact import META
from medcoder.errors import InputError, MedcoderError, UsageError
from medcoder.evaluate.benches import BENCHES
from medcoder.evaluate.benches.task import Bench, sha256
from medcoder.evaluate.results import (
    NAME,
    Context,
    Embedding,
    Linker,
    Result,
    Score,
    add_scores,
    predictions_file,
    read_scores,
    write_predictions,
)
from medcoder.kg import KG
from medcoder.kg.keys import hash_text
from medcoder.tables.parquet import read_column
from medcoder.tables.text import read_columns
from medcoder.text import fold
from medcoder.types import Progress

# Raised when a task computes something else from the same data: its scores are then made anew.
PROTOCOL = 1

State = Literal["done", "kept", "not for it", "failed"]
System = Embedding | Linker


class Outcome(NamedTuple):
    """What became of one system and one bench."""

    system: str
    bench: str
    state: State
    scores: list[Score]
    error: MedcoderError | None = None  # why it failed

    @property
    def headline(self) -> list[str]:
        """The figures to show first, in the scale and unit of the bench.

        Those of the whole set; of a bench that only has parts, the first metric of each part.
        """
        metrics = {metric.name: metric for metric in load_bench(self.bench).card.metrics}
        known = [score for score in self.scores if score.metric in metrics]
        texts = [
            (score, metrics[score.metric].text(score.value, score.low, score.high, score.n))
            for score in known
        ]
        whole = [f"{score.metric} {text}" for score, text in texts if score.split == "all"]
        first = next(iter(metrics), None)
        return whole or [
            f"{score.split} {score.metric} {text}" for score, text in texts if score.metric == first
        ]


def load_bench(name: str) -> Bench:
    """A bench by its name; an error names those that there are."""
    bench: Bench = BENCHES.load(name)
    return bench


def choose_benches(
    names: Sequence[str], data: Path, options: Mapping[str, Any] | None = None
) -> list[str]:
    """The benches of these names; without any, those that options name, or whose data is there."""
    if names:
        for name in names:
            load_bench(name)
        return list(dict.fromkeys(names))
    context = Context(options=dict(options or {}))
    benches = {name: load_bench(name) for name in BENCHES}
    named = [name for name, bench in benches.items() if bench.named(context)]
    chosen = named or [name for name, bench in benches.items() if bench.has_data(data, context)]
    if not chosen:
        raise InputError(
            "there is no data of any bench",
            file=data,
            remedy="`medcoder bench list` says what each needs, and where it comes from",
        )
    return chosen


def describe_bench(name: str, data: Path | None = None) -> dict[str, Any]:
    """The card of a bench as plain values; `found` is None where no folder is named."""
    bench = load_bench(name)
    card = bench.card
    return {
        "name": name,
        "title": card.title,
        "about": card.about,
        "needs": [
            {
                "path": f"{card.folder or name}/{needed.path}",
                "columns": list(needed.columns),
                "rows": needed.rows,
                "sha256": needed.sha256,
                "optional": needed.optional,
            }
            for needed in card.files
        ],
        "origin": card.origin,
        "licence": card.licence,
        "reference": card.reference,
        "metrics": [metric.name for metric in card.metrics],
        "found": None if data is None else bench.has_data(data, Context()),
    }


def run_benches(
    systems: Iterable[System],
    benches: Sequence[str],
    data: Path,
    out: Path,
    *,
    seen: Seen | None = None,
    options: Mapping[str, Any] | None = None,
    pinned: bool = True,
    resamples: int = 1000,
    seed: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """Scores and predictions of each system on each bench, written to `out` as they come.

    Data that is missing or wrong is an error before anything is run. A system that fails on a
    bench is an outcome, and the others go on.

    seen: terms of a training graph; linking benches then give figures for the other queries too
    options: of benches: k, epochs, modes, queries, dictionary
    pinned: only the very files that published figures are for
    force: run again what was done already
    """
    context = Context(
        seen=seen,
        resamples=resamples,
        seed=seed,
        pinned=pinned,
        options=dict(options or {}),
    )
    loaded = {name: load_bench(name) for name in benches}
    prints = {name: bench.fingerprint(data, context) for name, bench in loaded.items()}
    names: dict[str, str] = {}
    for system in systems:
        if names.setdefault(system.name, system.fingerprint) != system.fingerprint:
            raise UsageError(
                f"two models are called {system.name!r}",
                remedy="Give one another name: SPEC,name=NAME",
            )
        for name, bench in loaded.items():
            context.progress = _labelled(progress, system.name, name)
            yield _run(system, bench, name, prints[name], data, out, context, force=force)


def _run(
    system: System,
    bench: Bench,
    name: str,
    data_print: str,
    data: Path,
    out: Path,
    context: Context,
    *,
    force: bool,
) -> Outcome:
    if not bench.accepts(system):
        return Outcome(system.name, name, "not for it", [])
    settings = _settings(system, bench, context)
    kept = [
        score
        for score in read_scores(out)
        if (score.embedding, score.bench) == (system.name, name)
        and (score.model, score.data) == (system.fingerprint, data_print)
        and score.settings == settings
    ]
    if kept and not force:
        return Outcome(system.name, name, "kept", kept)
    begin = time.perf_counter()
    try:
        result = bench.run(system, data, context)
    except MedcoderError as error:
        return Outcome(system.name, name, "failed", [], error)
    seconds = time.perf_counter() - begin
    scores = _scores(system, name, data_print, settings, seconds, result)
    if result.predictions:
        write_predictions(predictions_file(out, system.name, name), result.predictions)
    add_scores(out / NAME, scores)  # last: scores say that all is there
    return Outcome(system.name, name, "done", scores)


def _scores(
    system: System,
    bench: str,
    data: str,
    settings: dict[str, Any],
    seconds: float,
    result: Result,
) -> list[Score]:
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return [
        Score(
            embedding=system.name,
            kind=system.kind,
            bench=bench,
            **figure._asdict(),
            model=system.fingerprint,
            data=data,
            seconds=round(seconds, 3),
            made=made,
            settings=settings,
        )
        for figure in result.figures
    ]


def _settings(system: System, bench: Bench, context: Context) -> dict[str, Any]:
    """All that a figure depends on beside the model and the data, as JSON has it."""
    settings = {
        **system.settings,
        **bench.settings(context),
        "seen": context.seen.fingerprint if isinstance(context.seen, Seen) else "",
        "pinned": context.pinned,
        "resamples": context.resamples,
        "seed": context.seed,
        "protocol": PROTOCOL,
    }
    stored: dict[str, Any] = json.loads(json.dumps(settings))
    return stored


def _labelled(progress: Progress | None, system: str, bench: str) -> Progress | None:
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{system}, {bench}: {what}", done, total)


# Terms that a model was trained on, so that figures can be given without them

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
        position = int(np.searchsorted(self._hashes, hashed))
        return position < len(self._hashes) and bool(self._hashes[position] == hashed)


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
    if path.suffix == ".parquet":
        return read_column(path, COLUMN)
    return (term for (term,) in read_columns(path, (COLUMN,)))
