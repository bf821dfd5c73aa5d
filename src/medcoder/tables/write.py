"""One writer of text with delimiters, and cells that no spreadsheet takes for a formula."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import IO

# Spreadsheets of East Asia take the wide forms as well.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_BREAKS = "\r\n\v\f\x1c-\x1e\x85\u2028\u2029"  # that some reader takes for the end of a line
# What may stand before a sign without hiding it: other spaces and control characters, the mark of
# byte order, and characters that take no room, such as those that turn the direction.
_LEAD = (
    "\x00-\x08\t\x0e-\x1b\x1f \x7f-\x84\x86-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890"
    "\u0891\u08e2\u1680\u180b-\u180f\u2000-\u200f\u202a-\u202f\u205f-\u206f\u3000\ufe00-\ufe0f"
    "\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_NUMBER = rf"[+-]?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?(?=[{_BREAKS}]|\Z)"
_LIVE = rf"(?!{_NUMBER})[{_SIGNS}]"
# How a cell begins that would be run, and a later line of it. There a quote hides nothing: it is
# written twice, which is an empty text to a reader that takes the line for the start of a row.
_FIRST = rf"(?=[\t\r\n]|[{_LEAD}]*{_LIVE})"
_LATER = rf"(?=[\"{_LEAD}]*{_LIVE})"
_FORMULA = re.compile(rf"\A{_FIRST}|(?<=[{_BREAKS}]){_LATER}")
_MARKED = re.compile(rf"\A'*{_FIRST}|(?<=[{_BREAKS}])'*{_LATER}")  # with apostrophes before it
_UNMARKED = re.compile(rf"\A'('*){_FIRST}|(?<=[{_BREAKS}])'('*){_LATER}")  # with at least one
_MARK = "\ufeff"  # at the start of a file, readers take it away
_EDGES = ("", " ", _MARK)  # how a line begins that must be looked at: empty, too


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
        self._before, self._after = f" {delimiter}", f"{delimiter} "
        self._needs_quotes = re.compile(rf'["\r\n{re.escape(delimiter)}]|^[ {_MARK}]| \Z').search

    def row(self, fields: Sequence[str]) -> None:
        self.rows((fields,))

    def rows(self, rows: Iterable[Sequence[str]]) -> None:
        write, end, delimiter = self._write, self._end, self._delimiter
        before, after, join = self._before, self._after, delimiter.join
        needs = self._needs_quotes
        for fields in rows:
            line = join(fields)
            # Few rows have a field that needs quotes, so each is first looked at as a whole.
            if (
                '"' in line
                or before in line
                or after in line
                or "\n" in line
                or "\r" in line
                or line.count(delimiter) != len(fields) - 1
                or line[:1] in _EDGES
                or line[-1] == " "
            ):
                line = join([self._quoted(field) if needs(field) else field for field in fields])
            write((line or '""') + end)  # an empty line is no row

    @staticmethod
    def _quoted(field: str) -> str:
        return '"' + field.replace('"', '""') + '"'


def safe(cell: str) -> str:
    """The cell with an apostrophe before every line of it that a spreadsheet would run.

    Every line, since a reader that knows no quotes takes it for the start of a row. Plain numbers
    such as -1.5 stay as they are.

    >>> safe("=1+1"), safe("-1.5"), safe("asthma"), safe("a\\r=1+1")
    ("'=1+1", '-1.5', 'asthma', "a\\r'=1+1")
    """
    return cell if _is_plain(cell) else _FORMULA.sub("'", cell)


class Guard:
    """`safe` with an inverse, `plain`; counts the cells that it changed."""

    def __init__(self) -> None:
        self.changed = 0

    def __call__(self, text: str) -> str:
        if _is_plain(text):
            return text
        # A line that looks as if it had been changed is changed too: then `plain` is the inverse.
        cell = _MARKED.sub(r"\g<0>'", text)
        self.changed += cell != text
        return cell


def plain(cell: str) -> str:
    """The text of a cell that `Guard` wrote.

    >>> plain("'=1+1"), plain("'tis"), plain(Guard()("'=1+1"))
    ('=1+1', "'tis", "'=1+1")
    """
    return cell if _is_plain(cell) else _UNMARKED.sub(r"\1\2", cell)


def _is_plain(cell: str) -> bool:
    """Whether nothing needs to be looked for: so with nearly every cell, and fast."""
    return cell[:1].isalnum() and cell.isprintable()  # no end of line is printable
