"""Output: lines and tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterable
from typing import NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 1000  # columns where no terminal sets a limit
_BREAKS = "\t\n\x0b\x0c\r\x85\u2028\u2029"
# JSON may hold these as they are, but some who read it by lines take them for the end of one.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in _BREAKS if ord(char) > 0x20}


class _Console(Console):
    """Text as it is: "[X]Fever" and "a:b:c" of a release are not markup."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = _PIPE_WIDTH

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError  # rich would exit with 1, which here means that nothing was found


def out() -> Console:
    return _Console()


def errors() -> Console:
    return _Console(stderr=True)


def line(*parts: str | tuple[str, str], console: Console | None = None) -> None:
    """One line, of texts and of texts with a style, however long."""
    (console or out()).print(text(*parts), soft_wrap=True)


def text(*parts: str | tuple[str, str]) -> Text:
    styled = (part if isinstance(part, tuple) else (part, "") for part in parts)
    return Text.assemble(*((visible(words), style) for words, style in styled))


def visible(words: str) -> str:
    """Line breaks as spaces, other control characters as marks: a terminal would obey them.

    >>> visible("a\\tb\\u2028c\\x1b[2J")
    'a b c�[2J'
    """
    return words if words.isprintable() else "".join(map(_visible, words))


def new_table(*headers: str, style: str = "dim") -> Table:
    """An empty table in which a long word goes on in the next line, and none is cut off."""
    table = Table(box=None, header_style=style)
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def add_row(table: Table, *cells: str) -> None:
    table.add_row(*map(text, cells))


def print_json(value: object) -> None:
    print_json_lines([value])


def print_json_lines(values: Iterable[object]) -> None:
    """One line for each value, written together."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    lines = (json.dumps(value, ensure_ascii=not unicode) for value in values)
    typer.echo("\n".join(line.translate(_ESCAPED) for line in lines))


def _visible(char: str) -> str:
    if char in _BREAKS:
        return " "
    return "\ufffd" if unicodedata.category(char) in ("Cc", "Cs") else char
