"""The command line: parse, call, show."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from medcoder import __version__
from medcoder.cli import kg, train
from medcoder.cli.run import EXIT_CODES

EXAMPLES = """
[bold]Examples[/bold]

  medcoder kg find "heart attack"

  medcoder kg build umls=2026AA/META --out umls.kg

  medcoder kg stats --kg umls.kg --json
"""

app = typer.Typer(
    name="medcoder",
    help="Turn messy medical words, in any language, into standard concepts.",
    epilog=EXAMPLES + EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(kg.app, name="kg")
app.command()(train.train)


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
    app(prog_name="medcoder")
