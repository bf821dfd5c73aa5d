"""`medcoder model`: models as other libraries have them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from medcoder.cli.command import command
from medcoder.cli.console import line, print_json
from medcoder.cli.options import AsJson, user_path

if TYPE_CHECKING:
    from medcoder.encode.save import Precision

app = typer.Typer(help="Models for other libraries.", no_args_is_help=True)

_EXAMPLES = """
[bold]Examples[/bold]

  medcoder model save medcoder-all model

  medcoder model save eng.onnx eng --weights float16
"""


@app.callback()
def models() -> None:
    """Models for other libraries."""


@app.command(epilog=_EXAMPLES)
@command
def save(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A bundled model, or a folder of medcoder export.")
    ],
    to: Annotated[Path, typer.Argument(metavar="DIR", help="Directory to make.")],
    weights: Annotated[
        str, typer.Option(help="float32; or float16, which takes half the room.")
    ] = "float32",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the model that is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as a folder for transformers and sentence-transformers; needs no torch."""
    from medcoder.encode.save import save_exported

    folder = user_path(to)
    source = str(user_path(Path(name))) if name.startswith("~") else name
    save_exported(source, folder, weights=cast("Precision", weights), overwrite=overwrite)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if as_json:
        print_json({"path": str(folder), "weights": weights, "bytes": size})
    else:
        line(f"{folder}  {weights}, {size / 1e6:,.1f} MB")
