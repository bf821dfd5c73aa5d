"""Cells that no spreadsheet takes for a formula."""

from __future__ import annotations

import re

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?")


def safe(cell: str) -> str:
    """The cell with an apostrophe before it if a spreadsheet would run it.

    Plain numbers such as -1.5 stay as they are.

    >>> safe("=1+1"), safe("-1.5"), safe("asthma")
    ("'=1+1", '-1.5', 'asthma')
    """
    if not cell.startswith(_STARTS) or _NUMBER.fullmatch(cell):
        return cell
    return "'" + cell
