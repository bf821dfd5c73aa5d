"""One writer of text with delimiters, and cells that no spreadsheet takes for a formula."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import IO

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?")
_MARK = "\ufeff"  # at the start of a file, readers take it away


class TextWriter:
    """Rows of text as RFC 4180 has them.

    A field is quoted if it has a quote, a delimiter or an end of line in it, a carriage return
    alone included, or a space at either end, which some readers take away.

    >>> import io
    >>> stream = io.StringIO()
    >>> TextWriter(stream).row(["a", "b,c", 'd"e', " f"])
    >>> stream.getvalue()
    'a,"b,c","d""e"," f"\\n'
    """

    def __init__(self, stream: IO[str], *, delimiter: str = ",", line_end: str = "\n") -> None:
        """`stream`: a file opened with newline=""."""
        self._write, self._delimiter, self._end = stream.write, delimiter, line_end
        self._spaces = (f" {delimiter}", f"{delimiter} ")

    def row(self, fields: Sequence[str]) -> None:
        line = self._delimiter.join(fields)
        if self._is_plain(line, len(fields)):
            self._write(line + self._end)
        else:
            quoted = [self._quoted(field, alone=len(fields) == 1) for field in fields]
            self._write(self._delimiter.join(quoted) + self._end)

    def rows(self, rows: Iterable[Sequence[str]]) -> None:
        for row in rows:
            self.row(row)

    def _is_plain(self, line: str, fields: int) -> bool:
        """Whether no field needs quotes: most rows do not, so they are looked at as a whole."""
        if not line or line[0] in f" {_MARK}" or line[-1] == " ":
            return False
        if '"' in line or "\n" in line or "\r" in line:
            return False
        before, after = self._spaces
        if before in line or after in line:
            return False
        return line.count(self._delimiter) == fields - 1

    def _quoted(self, field: str, *, alone: bool) -> str:
        needs = (
            (not field and alone)  # an empty line is no row
            or field != field.strip(" ")
            or field.startswith(_MARK)
            or any(char in field for char in ('"', "\n", "\r", self._delimiter))
        )
        return '"' + field.replace('"', '""') + '"' if needs else field


def safe(cell: str) -> str:
    """The cell with an apostrophe before it if a spreadsheet would run it.

    Plain numbers such as -1.5 stay as they are.

    >>> safe("=1+1"), safe("-1.5"), safe("asthma")
    ("'=1+1", '-1.5', 'asthma')
    """
    if not cell.startswith(_STARTS) or _NUMBER.fullmatch(cell):
        return cell
    return "'" + cell


class Guard:
    """`safe` with an inverse, `plain`; counts the cells that it changed."""

    def __init__(self) -> None:
        self.changed = 0

    def __call__(self, text: str) -> str:
        # A cell that looks as if it had been changed is changed too: then `plain` is the inverse.
        cell = safe(text) if plain(text) == text else f"'{text}"
        self.changed += cell != text
        return cell


def plain(cell: str) -> str:
    """The text of a cell that `Guard` wrote.

    >>> plain("'=1+1"), plain("'tis"), plain(Guard()("'=1+1"))
    ('=1+1', "'tis", "'=1+1")
    """
    bare = cell.removeprefix("'")
    looks_changed = bare != cell and (safe(bare) == cell or plain(bare) != bare)
    return bare if looks_changed else cell
