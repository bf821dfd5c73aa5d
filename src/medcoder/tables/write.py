"""One writer of text with delimiters, and cells that no spreadsheet takes for a formula."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import IO

# Spreadsheets of East Asia take the wide forms as well.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_BREAKS = "\r\n\v\f\x1c-\x1e\x85\u2028\u2029"  # that some reader takes for the end of a line
# Where a spreadsheet may begin a field, whatever the file has between its fields. LibreOffice
# splits at all of these unless told otherwise, but not within quotes. Excel splits at the list
# separator of the region, a semicolon in much of Europe, and then knows quotes at the start of a
# field alone: in `1,"a;=x;b"` it finds `=x`.
_DELIMITERS = ",;\t"
# What may stand before a sign without hiding it: other spaces and control characters, the mark of
# byte order, and characters that take no room, such as those that turn the direction.
_LEAD = (
    "\x00-\x08\x0e-\x1b\x1f \x7f-\x84\x86-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890"
    "\u0891\u08e2\u1680\u180b-\u180f\u2000-\u200f\u202a-\u202f\u205f-\u206f\u3000\ufe00-\ufe0f"
    "\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_NUMBER = r"[+-]?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?"
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


class _Rules:
    """Which cells of a file are taken for formulas, by what is between its fields."""

    def __init__(self, delimiter: str) -> None:
        others = _DELIMITERS.replace(delimiter, "")
        lead = _LEAD if "\t" in others else rf"{_LEAD}\t"

        def live(ends: str) -> str:
            return rf"(?!{_NUMBER}(?=[{ends}]|\Z))[{_SIGNS}]"

        # How a cell begins that would be run, and a later line or field of it. There a quote hides
        # nothing: it is written twice, which is an empty text to who takes that for a field.
        first = rf"(?=[\t\r\n]|[{lead}]*{live(_BREAKS)})"
        line = rf"(?=[\"{lead}]*{live(_BREAKS)})"
        field = rf"(?=[\"{lead}]*{live(_BREAKS + others)})"
        starts = ((r"\A", first), (rf"(?<=[{_BREAKS}])", line), (rf"(?<=[{others}])", field))

        def pattern(form: str) -> re.Pattern[str]:
            return re.compile("|".join(after + form.format(begin) for after, begin in starts))

        self.formula = pattern("{}")
        self.marked = pattern("'*{}")  # with apostrophes before it
        self.unmarked = pattern("'(?='*{})")  # the first of them
        printable = others.replace("\t", "")
        self._one, self._two = printable[0], printable[-1]

    def is_plain(self, cell: str) -> bool:
        """Whether nothing needs to be looked for: so with nearly every cell, and fast."""
        # No end of a line is printable, and neither is a tab.
        if not cell.isprintable() or self._one in cell or self._two in cell:
            return False
        return cell[:1].isalnum() or not cell


_rules = cache(_Rules)


def safe(cell: str, delimiter: str = ",") -> str:
    """The cell with an apostrophe before every part of it that a spreadsheet would run.

    A part is a line, since a reader that knows no quotes takes it for the start of a row, and what
    comes after another delimiter than that of the file. Plain numbers such as -1.5 stay.

    >>> safe("=1+1"), safe("-1.5"), safe("asthma"), safe("a\\r=1+1"), safe("a;=1+1")
    ("'=1+1", '-1.5', 'asthma', "a\\r'=1+1", "a;'=1+1")
    """
    rules = _rules(delimiter)
    return cell if rules.is_plain(cell) else rules.formula.sub("'", cell)


class Guard:
    """`safe` with an inverse, `plain`; counts the cells that it changed."""

    def __init__(self, delimiter: str = ",") -> None:
        self.changed = 0
        self._rules = _rules(delimiter)

    def __call__(self, text: str) -> str:
        if self._rules.is_plain(text):
            return text
        # A part that looks as if it had been changed is changed too: then `plain` is the inverse.
        cell = self._rules.marked.sub(r"\g<0>'", text)
        self.changed += cell != text
        return cell


def plain(cell: str, delimiter: str = ",") -> str:
    """The text of a cell that `Guard` wrote.

    >>> plain("'=1+1"), plain("'tis"), plain(Guard()("'=1+1"))
    ('=1+1', "'tis", "'=1+1")
    """
    rules = _rules(delimiter)
    return cell if rules.is_plain(cell) else rules.unmarked.sub("", cell)
