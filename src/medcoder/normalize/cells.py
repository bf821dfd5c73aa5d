"""Several things in a cell: whether to answer the whole or its parts.

A cell is split only where the whole is no name, is not answered with a term that speaks of every
part, and every part alone is answered well. Else the whole is answered, and a person must look at
it where several of its parts are things of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from medcoder.normalize.parse.qualifiers import find_cues, without
from medcoder.text import fold
from medcoder.types import Answer, Match, Span

_WELL = 0.5  # confidence of a part that is answered well, at least
_SURE = 0.9
_STEM = 4  # letters that words of one thing share
_LEAST = 3  # letters of a word that says something
_TOKEN = re.compile(r"[^\s\x00-\x1f\x7f-\x9f\u200b\u2028\u2029\ufeff]+")

SEVERAL = "several things may be in it"


def divided(whole: Answer, ways: Sequence[Sequence[Answer]]) -> Answer:
    """The answer for a cell, from that of the whole and those of its parts in ways to split it."""
    if whole.matches and any(_covers(whole.matches[0], parts) for parts in ways):
        return whole
    for parts in ways:
        if all(map(_answered, parts)) and not _same(parts):
            return _split(whole, parts)
    several = any(sum(map(_answered, parts)) > 1 and not _same(parts) for parts in ways)
    if several and not whole.review and whole.confidence < _SURE:
        return replace(whole, review=SEVERAL)
    return whole


def with_qualifiers(text: str, spans: Sequence[Span]) -> list[Span]:
    """Parts of a clean string, each with the qualifiers that stand apart behind it.

    >>> with_qualifiers("asthma, severe, HTN", [(0, 6), (8, 14), (16, 19)])
    [(0, 14), (16, 19)]
    """
    joined: list[Span] = []
    for start, end in spans:
        part = text[start:end]
        only = not any(map(str.isalpha, without(part, find_cues(part))))
        if only and joined:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def placed(query: str, text: str, span: Span) -> Span:
    """Where a span of the clean text of a query is in the query itself.

    >>> placed("  VUR,\\t OME ", "VUR, OME", (5, 8))
    (8, 11)
    """
    if query == text:
        return span
    words = [word.span() for word in _TOKEN.finditer(query)]
    clean = [word.span() for word in _TOKEN.finditer(text)]
    if len(words) != len(clean):
        return span

    def at(position: int) -> int:
        number = max(n for n, (start, _) in enumerate(clean) if start <= position)
        start, end = words[number]
        return min(start + position - clean[number][0], end)

    return at(span[0]), at(span[1] - 1) + 1


def _answered(part: Answer) -> bool:
    """Whether it is known what a part says; that a thing is not there, is known too."""
    if part.reason.startswith("negated"):
        return True
    least = max(part.threshold, _WELL)
    return (
        bool(part.candidates)
        and part.confidence >= least
        and (bool(part.matches) or bool(part.review))
    )


def _same(parts: Iterable[Answer]) -> bool:
    """Whether all are one thing, said twice."""
    best = [part.candidates[0].concept if part.candidates else "" for part in parts]
    return len(set(best)) < len(best)


def _split(whole: Answer, parts: Sequence[Answer]) -> Answer:
    best = [part.matches[0] for part in parts if part.matches]
    reasons = [f"{part.query!r}: {part.review}" for part in parts if part.review]
    return replace(
        whole,
        matches=tuple(best),
        rejected=() if best else tuple(match for part in parts for match in part.rejected[:1]),
        reason="" if best else "; ".join(part.reason for part in parts if part.reason),
        review="; ".join(reasons),
        namesakes=max(part.namesakes for part in parts),
        steps=(f"split into {len(parts)}: {' | '.join(part.query for part in parts)}",),
        parts=tuple(parts),
    )


def _covers(match: Match, parts: Sequence[Answer]) -> bool:
    """Whether a term speaks of every part."""
    said = _stems(f"{match.term} {match.name}")
    return all(_stems(part.query) & said for part in parts)


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in fold(text).split() if len(word) >= _LEAST}
