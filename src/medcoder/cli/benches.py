"""Running benches and showing what came out, for the commands of `medcoder bench`."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from medcoder.cli import parse
from medcoder.cli.lines import errors, line, out, print_json_lines
from medcoder.cli.run import INTERRUPTED, progress_bar
from medcoder.cli.shown import add_row, new_table
from medcoder.cli.systems import systems
from medcoder.errors import InputError, UsageError
from medcoder.evaluate import BENCHES, Bench, Context, Score, read_scores
from medcoder.evaluate.base import Prediction

_COUNTS = ("hits", "mcsm", "mcsm_oov0")  # metrics that are no shares


def bench(name: str) -> Bench:
    found: Bench = BENCHES.load(name)
    return found


def context(options: Mapping[str, Any]) -> Context:
    return Context(options=dict(options))


def chosen(names: Sequence[str] | None, data: Path, options: Mapping[str, Any]) -> list[str]:
    """Benches by name; or the one of the tables that were named; or all whose data is there."""
    if names:
        split = [one for name in names for one in parse.names("--benches", name) or []]
        for name in split:
            bench(name)  # an error that names those that there are
        return list(dict.fromkeys(split))
    if "queries" in options:
        return ["custom"]
    found = [name for name in BENCHES if bench(name).found(data, context(options))]
    if not found:
        raise InputError(
            "there is no data of any bench",
            file=data,
            remedy="`medcoder bench list` says what each needs, and where it comes from",
        )
    return found


def run_all(
    specs: Sequence[str],
    names: Sequence[str],
    data: Path,
    to: Path,
    *,
    seen: Sequence[Path] = (),
    threads: int | None = None,
    as_json: bool = False,
    options: Mapping[str, Any],
    **settings: Any,
) -> int:
    """Run and show each outcome as it comes; the exit code of the first that failed, or 0."""
    from medcoder.evaluate.run import run
    from medcoder.evaluate.seen import Seen

    with interruptible(), progress_bar() as progress:
        outcomes = run(
            systems(specs, to, threads=threads, progress=progress),
            names,
            data,
            to,
            seen=Seen([parse.place(path) for path in seen]) if seen else None,
            options=options,
            progress=progress,
            **settings,
        )
        code = 0
        for system, name, state, scores, error in outcomes:
            if error is not None:
                code = code or error.exit_code
                line((f"{system}, {name}: ", "bold"), ("error:", "red"), f" {error}",
                     console=errors())  # fmt: skip
            elif as_json:
                print_json_lines(_plain(score) for score in scores)
            else:
                _show(system, name, state, scores)
    return code


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """What was done before an interrupt is kept, and the same command goes on."""
    try:
        yield
    except KeyboardInterrupt as error:
        line("interrupted: the same command goes on from here", console=errors())
        raise typer.Exit(INTERRUPTED) from error


def _plain(score: Score) -> dict[str, Any]:
    return {field: getattr(score, field) for field in score.__dataclass_fields__}


def _show(system: str, name: str, state: str, scores: Sequence[Score]) -> None:
    if state == "not for it":
        line((f"{system}, {name}: not for this kind of model", "dim"))
        return
    shown = bench(name).card.metrics
    first = scores[0].split if scores else ""
    overall = "all" if any(score.split == "all" for score in scores) else None
    figures = [
        f"{'' if overall else score.split + ' '}{score.metric} {_figure(score)}"
        for score in scores
        if score.metric in shown
        and (score.split == overall if overall else score.metric == shown[0] or not first)
    ]
    seconds = f"  {scores[0].seconds:,.1f} s" if scores and state == "done" else "  kept"
    line((f"{system}, {name}: ", "bold"), ", ".join(figures) or "nothing", (seconds, "dim"))


def _figure(score: Score) -> str:
    if score.metric == "hits":
        return f"{score.value:.0f} of {score.n}"
    scale = 1 if score.metric in _COUNTS else 100
    low, high = score.low * scale, score.high * scale
    return f"{score.value * scale:.2f} ({low:.1f} to {high:.1f})"


# Cards


def card_entry(name: str, data: Path | None) -> dict[str, Any]:
    """A card as data; `found` is None where no folder was named."""
    card = bench(name).card
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
        "metrics": list(card.metrics),
        "found": None if data is None else bench(name).found(data, context({})),
    }


def show_cards(entries: Sequence[Mapping[str, Any]]) -> None:
    """One line for each."""
    table = new_table("bench", "what", "metrics", "licence", "found")
    marks = {None: "", True: "yes", False: "no"}
    for entry in entries:
        add_row(
            table,
            entry["name"],
            entry["title"],
            ", ".join(entry["metrics"]),
            entry["licence"],
            marks[entry["found"]],
        )
    out().print(table)


def show_card(entry: Mapping[str, Any]) -> None:
    """All of one."""
    line((f"{entry['title']}", "bold"), f"  {entry['name']}")
    line(entry["about"])
    for needed in entry["needs"]:
        columns = ", ".join(needed["columns"])
        rows = f"; {needed['rows']:,} rows" if needed["rows"] is not None else ""
        pinned = f"; sha256 {needed['sha256']}" if needed["sha256"] else ""
        line(("needs  ", "dim"), f"{needed['path']}: {columns}{rows}{pinned}")
    for name in ("origin", "licence", "reference"):
        if entry[name]:
            line((f"{name}  ", "dim"), entry[name])
    if entry["found"] is not None:
        line(("found  ", "dim"), "yes" if entry["found"] else "no")


# What a run left


def scores_of(folder: Path) -> list[Score]:
    found = read_scores(folder)
    if not found:
        raise InputError(
            "there are no scores", file=folder, remedy="Make them with: medcoder bench run"
        )
    return found


def cases_of(folder: Path, scores: Sequence[Score]) -> dict[str, list[Prediction]]:
    """What each model answered in the case studies."""
    from medcoder.evaluate.predictions import predictions_file, read_predictions

    places = {
        score.embedding: predictions_file(folder, score.embedding, "cases")
        for score in scores
        if score.bench == "cases"
    }
    return {name: read_predictions(file) for name, file in places.items() if file.exists()}


def predictions_of(folder: Path, model: str, name: str) -> Path:
    """The file of a model and a bench; a name that is not there gets the nearest."""
    from medcoder.evaluate.predictions import predictions_file

    scores = scores_of(folder)
    models = list(dict.fromkeys(score.embedding for score in scores))
    if model not in models:
        near = difflib.get_close_matches(model, models, n=1, cutoff=0.3)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise UsageError(f"no model of {folder} is called {model!r}{hint} There are: "
                         f"{', '.join(models)}")  # fmt: skip
    bench(name)
    file = predictions_file(folder, model, name)
    if not file.exists():
        there = sorted({score.bench for score in scores if score.embedding == model})
        raise UsageError(
            f"there are no predictions of {model!r} on {name}: it ran on {', '.join(there)}, and "
            "benches of pairs and types predict nothing"
        )
    return file
