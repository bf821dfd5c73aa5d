"""Run benches for systems; what was done already for the same model, data and settings is kept."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from medcoder.errors import MedcoderError, UsageError
from medcoder.evaluate import BENCHES
from medcoder.evaluate.base import Bench, Context, Embedding, Linker, Result
from medcoder.evaluate.predictions import predictions_file, write_predictions
from medcoder.evaluate.scores import NAME, Score, add_scores, read_scores
from medcoder.evaluate.seen import Seen

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


def run(
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
    progress: Callable[[str, int, int], None] | None = None,
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
    loaded = {name: _bench(name) for name in benches}
    prints = {name: bench.fingerprint(data, context) for name, bench in loaded.items()}
    names: dict[str, str] = {}
    for system in systems:
        if names.setdefault(system.name, system.fingerprint) != system.fingerprint:
            raise UsageError(
                f"two models are called {system.name!r}. Give one another name: SPEC,name=NAME"
            )
        for name, bench in loaded.items():
            context.progress = _labelled(progress, system.name, name)
            yield _one(system, bench, name, prints[name], data, out, context, force=force)


def _one(
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
            split=figure.split,
            metric=figure.metric,
            value=figure.value,
            low=figure.low,
            high=figure.high,
            n=figure.n,
            coverage=figure.coverage,
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


def _bench(name: str) -> Bench:
    bench: Bench = BENCHES.load(name)
    return bench


def _labelled(
    progress: Callable[[str, int, int], None] | None, system: str, bench: str
) -> Callable[[str, int, int], None] | None:
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{system}, {bench}: {what}", done, total)
