"""`medcoder index`: build, fit and describe what the normaliser looks things up in."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medcoder.artefact import META, read_meta
from medcoder.cli.command import INTERRUPTED, command, progress_bar
from medcoder.cli.console import add_row, errors, line, new_table, out, print_json
from medcoder.cli.open import exported_encoder, open_graph, open_index
from medcoder.cli.options import AsJson, Graph, Index, user_path
from medcoder.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from medcoder.normalize import Normalizer
    from medcoder.normalize.calibrate import Calibration
    from medcoder.normalize.refit import Reached, Refit
    from medcoder.vectors.known import Known

app = typer.Typer(help="Build, fit and describe indexes, which hold all that normalising needs.",
                  no_args_is_help=True)  # fmt: skip

PRECISIONS = (0.90, 0.95, 0.98, 0.99)
# What the confidences rest on, by what the index says of its calibration; and on what they were
# measured, which is how far they can be trusted.
TO_STRINGS, TO_GRAPH = "fitted to your strings", "fitted to this graph"
CALIBRATED = {
    "bundled": "fitted on the strings of people and several terminologies that come with medcoder",
    "graph": TO_GRAPH,
    "given": "taken from a file that was given",
}
_CHECK = "check the promise on some of your own"
CAVEATS = {
    CALIBRATED["bundled"]: "Measured on such strings, kept out of the fit, and not on your "
    f"terminology: {_CHECK} strings",
    TO_GRAPH: "Measured on terms drawn from the graph itself, with part of it hidden. Strings that "
    f"people write are other strings: {_CHECK}",
    CALIBRATED["given"]: "Measured where the file was made, which may have been on another graph: "
    f"{_CHECK} strings",
    TO_STRINGS: "Measured on your strings and on terms drawn from the graph, kept out of the fit. "
    "It holds for strings like these",
}
Model = Annotated[
    str | None,
    typer.Option(help="Folder of the model, or its name. Without it: the bundled one."),
]
_EXAMPLES = """
[bold]Examples[/bold]

  medcoder index build --kg umls.kg --out umls.index

  medcoder index build --kg umls.kg --model runs/eng.onnx --kind ivf --out umls.index

  medcoder index build --kg umls-2026AB.kg --known umls.index --out umls-2026AB.index
"""
_FIT_EXAMPLES = """
[bold]Examples[/bold]

  medcoder index fit umls.index --strings coded.csv --out ward.index

  medcoder index fit --strings coded.xlsx --out ward.index
"""


@app.command(epilog=_EXAMPLES)
@command
def build(
    to: Annotated[Path, typer.Option("--out", help="Directory to make.")],
    kg: Graph = None,
    model: Model = None,
    kind: Annotated[
        str | None,
        typer.Option(help="exact, ivf or hnsw. Without it: what suits the number of terms."),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Vectors of this graph by this model: medcoder embed.")
    ] = None,
    known: Annotated[
        list[Path] | None,
        typer.Option(help="An index, or vectors, by this model: their strings are not encoded."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the index that is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Build the index of a graph with an exported model. Embedding resumes if interrupted."""
    from medcoder.normalize.build import build as build_index
    from medcoder.vectors import Vectors

    if vectors is not None and known:
        raise UsageError("--vectors leaves nothing to encode: leave out --known")
    to, begin = user_path(to), time.perf_counter()
    encoder = exported_encoder(model)
    try:
        with open_graph(kg) as graph, progress_bar() as progress:
            build_index(
                graph,
                encoder,
                to,
                kind=kind,
                vectors=Vectors.open(user_path(vectors), kg=graph) if vectors else None,
                known=[_known(user_path(path)) for path in known or ()],
                overwrite=overwrite,
                progress=progress,
            )
    except KeyboardInterrupt as error:
        line("interrupted: the same command goes on with what was embedded", console=errors())
        raise typer.Exit(INTERRUPTED) from error
    with open_index(to) as normalizer:
        entry = describe(normalizer)
    if as_json:
        print_json(entry)
        return
    _show(entry)
    line(f"built in {time.perf_counter() - begin:.1f} s")


@app.command(epilog=_FIT_EXAMPLES)
@command
def fit(
    to: Annotated[Path, typer.Option("--out", help="Directory to make.")],
    index: Annotated[
        Path | None,
        typer.Argument(
            metavar="INDEX",
            envvar="MEDCODER_INDEX",
            help="Directory of the index to start from. Without it: the bundled one.",
        ),
    ] = None,
    strings: Annotated[
        Path | None,
        typer.Option(help="Table of strings with the columns string and concept, an id or a code."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the index that is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fit the ranking and the confidences to your terminology and your strings.

    The new index is written only if that is a gain on concepts that the fit has not seen. INDEX
    stays as it is.
    """
    from medcoder.normalize.refit import refit

    begin = time.perf_counter()
    with open_index(index) as normalizer, progress_bar() as progress:
        outcome = refit(
            normalizer.path,
            user_path(to),
            strings=None if strings is None else user_path(strings),
            overwrite=overwrite,
            progress=progress,
        )
    if as_json:
        print_json(outcome.as_dict())
        return
    _show_fit(outcome)
    line(f"fitted in {time.perf_counter() - begin:.1f} s")


@app.command()
@command
def info(index: Index = None, as_json: AsJson = False) -> None:
    """Show what an index holds, and how far its confidences can be trusted."""
    with open_index(index) as normalizer:
        entry = describe(normalizer)
    if as_json:
        print_json(entry)
    else:
        _show(entry)


def describe(normalizer: Normalizer) -> dict[str, Any]:
    """Counts, kind, model and calibration of an index."""
    from medcoder.encode.onnx import KIND
    from medcoder.normalize.build import ENCODER, calibrated_by

    meta, path = normalizer.meta, normalizer.path
    encoder = read_meta(path / ENCODER, kind=KIND)
    about = ("kind", "version", "files", "parents", "pad", "seal")
    return {
        "path": str(path),
        "kind": meta["index"],
        "concepts": meta["concepts"],
        "terms": meta["terms"],
        "vectors": meta["rows"],
        "custom_terms": len(normalizer.custom_terms),
        "lost_terms": len(normalizer.custom_terms.lost),
        "bytes": sum(entry["size"] for entry in meta["files"].values()),
        "made_by": meta["made_by"],
        "model": {name: value for name, value in encoder.items() if name not in about},
        "calibration": _calibration(normalizer.calibration(), calibrated_by(meta)),
    }


def _calibration(fitted: Calibration, calibrated: str) -> dict[str, Any]:
    from medcoder.normalize.refit import YOURS

    about = CALIBRATED.get(calibrated, TO_STRINGS if YOURS in fitted.queries else TO_GRAPH)
    return {
        "from": calibrated,
        "about": about,
        "error": fitted.error,
        "threshold": fitted.threshold,
        "at_threshold": _at(fitted, fitted.threshold),
        "precision": [
            {"precision": precision, **_at(fitted, fitted.threshold_for(precision))}
            for precision in PRECISIONS
        ],
        "queries": fitted.queries,
        "accuracy": fitted.accuracy,
        "caveat": CAVEATS[about],
    }


def _at(fitted: Calibration, confidence: float | None) -> dict[str, float | None]:
    """What answering from this confidence on gave: of all queries the share, and how many right."""
    if confidence is None:
        return {"confidence": None, "answered": None, "right": None}
    rows = [row for row in fitted.curve if row[0] >= confidence]  # the surest first
    answered, right = (rows[-1][1], rows[-1][2]) if rows else (0.0, 0.0)
    return {"confidence": confidence, "answered": answered, "right": right}


def _known(path: Path) -> Known:
    """Vectors of an index or of a directory of vectors."""
    from medcoder.normalize.build import VECTORS
    from medcoder.vectors import Vectors
    from medcoder.vectors.known import known_vectors

    inside = path / VECTORS
    return known_vectors(Vectors.open(inside if (inside / META).exists() else path))


def _show(entry: dict[str, Any]) -> None:
    model, fitted = entry["model"], entry["calibration"]
    line((entry["path"], "bold"), f"  {entry['bytes'] / 1e6:,.1f} MB, by {entry['made_by']}")
    custom = f", {entry['custom_terms']:,} of your own" if entry["custom_terms"] else ""
    lost = f", {entry['lost_terms']:,} of concepts it lacks" if entry["lost_terms"] else ""
    line(f"{entry['concepts']:,} concepts, {entry['terms']:,} terms{custom}{lost}")
    line(f"{entry['vectors']:,} vectors of {model['width']}, index {entry['kind']}")
    named = ", ".join(f"{name} {value}" for name, value in model.items() if _plain(value))
    line(f"model: {named}")
    line(f"calibration: {fitted['about']}")
    at = fitted["at_threshold"]
    line(f"threshold {fitted['threshold']:.3f}: {at['answered']:.1%} answered, "
         f"{at['right']:.1%} of them right")  # fmt: skip
    line(f"expected calibration error {fitted['error']:.3f}")
    _show_precisions(fitted["precision"])
    line((fitted["caveat"], "dim"))


def _show_fit(outcome: Refit) -> None:
    if outcome.rows:
        left = ", ".join(f"{count:,} {why}" for why, count in outcome.left_out.items() if count)
        line(f"{outcome.rows:,} strings" + (f"; left out: {left}" if left else ""))
    table = new_table(
        "kept out of the fit", "", "strings", "right first", "calibration error", "threshold",
        "answered", "of them right", "log loss",
    )  # fmt: skip
    for name, some in (("your strings", outcome.strings), ("drawn from the graph", outcome.drawn)):
        if some is not None:
            _add_reached(table, (name, "before", f"{some.count:,}"), some.before)
            _add_reached(table, (name, "after", f"{some.count:,}"), some.after)
    out().print(table)
    if outcome.path is None:
        line(f"nothing was written: on what was kept out of the fit, {outcome.reason}")
    else:
        line((str(outcome.path), "bold"), "  has the new weights")


def _add_reached(table: Table, first: Sequence[str], reached: Reached) -> None:
    add_row(
        table,
        *first,
        _percent(reached.right_first),
        f"{reached.calibration_error:.3f}",
        f"{reached.threshold:.3f}",
        _percent(reached.answered),
        _percent(reached.right),
        f"{reached.log_loss:.4f}",
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _show_precisions(rows: Sequence[dict[str, Any]]) -> None:
    table = new_table("precision", "confidence needed", "answered")
    for row in rows:
        reached = row["confidence"] is not None
        add_row(
            table,
            f"{row['precision']:.0%}",
            f"{row['confidence']:.3f}" if reached else "not reached",
            f"{row['answered']:.1%}" if reached else "",
        )
    out().print(table)


def _plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
