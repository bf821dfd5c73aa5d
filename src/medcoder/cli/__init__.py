"""The command line: parse, call, show."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from medcoder import __version__
from medcoder.cli import (
    bench,
    check,
    embed,
    export,
    index,
    kg,
    map,
    model,
    normalize,
    serve,
    terms,
    train,
)
from medcoder.cli.command import EXIT_CODES, INTERRUPTED, whole_output

EXAMPLES = """
[bold]Examples[/bold]

  medcoder normalize "heart attack" "dolor de espalda"

  medcoder map ward.csv --column diagnosis --out ward

  medcoder kg find "heart attack"

  medcoder kg build umls=2026AA/META --out umls.kg

  medcoder index build --kg umls.kg --out umls.index
"""

app = typer.Typer(
    name="medcoder",
    help="Turn messy medical words, in any language, into standard concepts.",
    epilog=EXAMPLES + EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command(epilog=normalize.EXAMPLES)(normalize.normalize)
app.add_typer(map.app, name="map")
app.command(epilog=serve.EXAMPLES)(serve.serve)
app.add_typer(terms.app, name="terms")
app.add_typer(index.app, name="index")
app.add_typer(kg.app, name="kg")
app.command(epilog=embed.EXAMPLES)(embed.embed)
app.command()(train.train)
app.add_typer(bench.app, name="bench")
app.command(epilog=export.EXAMPLES)(export.export)
app.add_typer(model.app, name="model")
app.command(epilog=check.EXAMPLES)(check.check)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"medcoder {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Turn messy medical words, in any language, into standard concepts."""


def main() -> None:
    """Entry point of the `medcoder` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not every terminal has every letter
            stream.reconfigure(errors="backslashreplace")
    try:
        with whole_output():
            app(prog_name="medcoder")
    except KeyboardInterrupt:  # before a command began
        sys.exit(INTERRUPTED)
