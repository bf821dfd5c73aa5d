"""`medcoder export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from medcoder.cli.command import command
from medcoder.cli.console import line, print_json
from medcoder.cli.open import no_bars
from medcoder.cli.options import AsJson, user_path
from medcoder.cli.texts import given
from medcoder.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from medcoder.model.export import Weights

Precision = Literal["float32", "float16", "int8", "dynamic-int8"]
EXAMPLES = """
[bold]Examples[/bold]

  medcoder export runs/eng/model --out eng.onnx --weights int8

  medcoder export runs/eng/model --out eng.onnx --weights dynamic-int8 --sample terms.txt
"""


@command
def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Hugging Face folder or name.")],
    to: Annotated[Path, typer.Option("--out", help="Directory to make.")],
    weights: Annotated[
        str,
        typer.Option(
            help="float32; float16 or int8, which make small files; dynamic-int8 computes in int8."
        ),
    ] = "float32",
    sample: Annotated[
        Path | None,
        typer.Option(help="Strings that judge dynamic-int8: 99% must keep their nearest."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the export that is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a trained model into one that runs without torch."""
    precision = _precision(weights)
    if (sample is not None) != (precision == "dynamic-int8"):
        raise UsageError("--weights dynamic-int8 and --sample FILE go together")
    texts: list[str] = []
    if sample is not None:
        with given(None, sample, doing="reading") as batches:
            texts = [text for batch in batches for text in batch]
    try:
        from medcoder.model.encoder import TransformerEncoder
        from medcoder.model.export import export as export_model

        no_bars()
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"exporting needs {error.name}. Install it with: pip install 'medcoder[export]'"
        ) from error
    to = user_path(to)
    loaded = TransformerEncoder.load(user_path(Path(model)) if model.startswith("~") else model)
    made = export_model(loaded, to, weights=precision, sample=texts, overwrite=overwrite)
    size = sum(file.stat().st_size for file in to.iterdir())
    if as_json:
        print_json({"path": str(to), "width": made.width, "weights": weights, "bytes": size})
    else:
        line(f"{made!r}, {size / 1e6:,.1f} MB")


def _precision(name: str) -> Weights:
    for known in get_args(Precision):
        if name == known:
            precision: Weights = known
            return precision
    raise UsageError(f"no weights {name!r}: there are {', '.join(get_args(Precision))}")
