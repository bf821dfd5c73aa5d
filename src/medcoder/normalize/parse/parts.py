"""Several things in a cell: where a string may be split."""

from __future__ import annotations

import re

from medcoder.types import Span

# Between things, in lists. A comma in a number and a slash beside a single letter (s/p, L4/5) are
# none; nor is a slash in "and/or".
_STRONG = re.compile(
    r"\s*(?:;|\||\n|[\u2022\u00b7\u3001\uff0c\uff1b]|\s\+|\+\s|\s[-\u2013]\s|(?<!\d),|,(?!\d)"
    r"|(?<![^\W_])(?:\d{1,2}[.)])(?=\s)|(?<=[^\W\d_]{2})/(?=[^\W\d_]{2})|\s/|/\s)\s*"
)
_WEAK = re.compile(
    r"\s+(?:and|und|u\.|sowie|y|e|et|en|ed?|oraz|i|\u0438|plus|as well as|&)\s+|\s*(?:&|\+)\s*",
    re.IGNORECASE,
)
# Around a string, and none of it.
_BEFORE = " -\u2010\u2013\u2014*\u2022\u00b7.,;:|_~\"'\u201c\u201e\u201d\u00ab\u00bb\u2018\u2019"
_BEHIND = " .,;:|_~\"'\u201c\u201d\u00ab\u00bb\u2018\u2019"
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_MOST = 12  # parts of a cell
_LONGEST = 500  # characters of a cell that is split


def bare(text: str) -> Span:
    """Where a clean string is without the signs around it; all of it, if no word is left.

    >>> [text[slice(*bare(text))] for text in ("- (asthma).", '"hip pain (R)"', "??")]
    ['asthma', 'hip pain (R)', '??']
    """
    start, end = 0, len(text)
    before = -1
    while start < end and (end - start) != before:
        before = end - start
        while start < end and text[start] in _BEFORE:
            start += 1
        while start < end and text[end - 1] in _BEHIND:
            end -= 1
        inside = text[start + 1 : end - 1]
        closing = _BRACKETS.get(text[start : start + 1])
        if closing and text[end - 1] == closing and not any(sign in inside for sign in "()[]{}"):
            start, end = start + 1, end - 1
    return (start, end) if any(map(str.isalnum, text[start:end])) else (0, len(text))


def divisions(text: str) -> list[list[Span]]:
    """Ways to split a clean string, each as the spans of its parts: at signs, then at words too.

    >>> [[text[a:b] for a, b in spans] for text in ("VUR, OME, s/p BMT 2014",)
    ...     for spans in divisions(text)]
    [['VUR', 'OME', 's/p BMT 2014']]
    >>> [[text[a:b] for a, b in spans] for text in ("nausea and vomiting",)
    ...     for spans in divisions(text)]
    [['nausea', 'vomiting']]
    """
    if len(text) > _LONGEST:
        return []
    strong = _split(text, [(0, len(text))], _STRONG)
    both = _split(text, strong, _WEAK)
    ways = [spans for spans in (strong, both) if 1 < len(spans) <= _MOST]
    return ways[:1] if len(ways) > 1 and ways[0] == ways[1] else ways


def _split(text: str, spans: list[Span], signs: re.Pattern[str]) -> list[Span]:
    parts: list[Span] = []
    for start, end in spans:
        last = start
        for sign in signs.finditer(text, start, end):
            parts.append((last, sign.start()))
            last = sign.end()
        parts.append((last, end))
    return [span for span in (_trimmed(text, *span) for span in parts) if span[0] < span[1]]


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return (start, end) if any(map(str.isalnum, text[start:end])) else (end, end)
