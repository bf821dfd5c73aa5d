"""Strings of a project to candidates, a batch at a time: each string once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from medcoder.mapping.mapper import Mapper
from medcoder.mapping.schema import guarded
from medcoder.mapping.store import Project
from medcoder.progress import Progress
from medcoder.types import Answer, Match

_BATCH = 512  # strings at a time, and what a kill costs at most
_WIDER = 4  # times as many candidates are asked for where a hint re-ranks them


class _String(NamedTuple):
    id: int
    text: str
    hint: str
    scope: int
    value: str  # of the scope


def look_up(
    project: Project, mapper: Mapper, *, top: int, run: int, progress: Progress | None = None
) -> int:
    """Map every string that this run of the machine has not mapped yet; says how many."""
    base, settled = project.base, project.meta["settled"]
    with guarded(project.path):
        total = _number(base, "SELECT count(*) FROM strings")
        waiting = _number(base, "SELECT count(*) FROM strings WHERE mapped < ?", run)
    done = total - waiting
    while strings := _waiting(project, run):
        found = [
            (string, answer)
            for _, some in groupby(strings, key=itemgetter(3))
            for string, answer in _answers(list(some), mapper, top)
        ]
        with project.transaction():
            _write(base, found, run, settled)
        done += len(strings)
        if progress is not None:
            progress("mapping", done, total)
    return waiting


def _number(base: sqlite3.Connection, query: str, *values: int) -> int:
    return int(base.execute(query, values).fetchone()[0])


def _waiting(project: Project, run: int) -> list[_String]:
    query = """SELECT s.id, s.text, s.hint, s.scope, c.value FROM strings s
        JOIN scopes c ON c.id = s.scope WHERE s.mapped < ?
        ORDER BY s.mapped, s.scope, s.id LIMIT ?"""
    with guarded(project.path):
        return [_String(*row) for row in project.base.execute(query, [run, _BATCH])]


def _answers(strings: Sequence[_String], mapper: Mapper, top: int) -> list[tuple[_String, Answer]]:
    """The answers for strings of one scope."""
    only: dict[str, list[str]] = json.loads(strings[0].value)

    def ask(texts: Sequence[str], top: int) -> list[Answer]:
        return list(
            mapper.normalize_many(
                texts, top=top, types=only.get("type"), vocabularies=only.get("vocabulary"),
                languages=only.get("language"),
            )
        )  # fmt: skip

    plain = [string for string in strings if not string.hint]
    hinted = [string for string in strings if string.hint]
    answers = ask([string.text for string in plain], top)
    found = [
        (string, _shared(answer, answer.confidence))
        for string, answer in zip(plain, answers, strict=True)
    ]
    if hinted:
        alone = ask([string.text for string in hinted], min(top * _WIDER, 1000))
        helped = ask([f"{string.text} {string.hint}" for string in hinted], min(top * _WIDER, 1000))
        for string, answer, other in zip(hinted, alone, helped, strict=True):
            found.append((string, _shared(_reranked(answer, other, top), answer.confidence)))
    return found


def _shared(answer: Answer, best: float) -> Answer:
    """The same, where the concepts that bear the best name share its confidence.

    None of them is meant more often than the others, so none is mapped automatically.
    """
    if answer.namesakes == 1:
        return answer

    def share(matches: Sequence[Match]) -> tuple[Match, ...]:
        return tuple(
            replace(one, confidence=best / answer.namesakes) if one.confidence == best else one
            for one in matches
        )

    return replace(answer, matches=share(answer.matches), rejected=share(answer.rejected))


def _reranked(answer: Answer, hinted: Answer, top: int) -> Answer:
    """The candidates of a string in the order that its hint suggests.

    Each keeps the confidence that it has by the string alone: that is what was calibrated. So a
    candidate that only the hint brought to the front is not mapped automatically.
    """
    helped = {one.concept: one.confidence for one in hinted.candidates}

    def order(matches: Sequence[Match]) -> tuple[Match, ...]:
        weighed = sorted(matches, key=lambda one: -one.confidence - helped.get(one.concept, 0.0))
        return tuple(weighed[:top])

    return replace(answer, matches=order(answer.matches), rejected=order(answer.rejected))


def _write(
    base: sqlite3.Connection,
    found: Sequence[tuple[_String, Answer]],
    run: int,
    settled: int,  # the last run that came to its end: decisions are compared with that
) -> None:
    numbers = [(string.id,) for string, _ in found]
    base.executemany(
        "UPDATE strings SET earlier = (SELECT concept FROM candidates WHERE string = strings.id "
        "AND rank = 1) WHERE id = ? AND mapped = ?",
        [(string.id, settled) for string, _ in found],
    )
    base.executemany("DELETE FROM candidates WHERE string = ?", numbers)
    base.executemany(
        "INSERT INTO candidates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                string.id, rank, one.concept, one.name,
                json.dumps(one.codes, ensure_ascii=False), one.term, one.cosine, one.score,
                one.confidence, one.stage,
            )
            for string, answer in found
            for rank, one in enumerate(answer.candidates, 1)
        ],
    )  # fmt: skip
    base.executemany(
        "UPDATE strings SET mapped = ?, answered = ?, confidence = ? WHERE id = ?",
        [(run, bool(answer.matches), answer.confidence, string.id) for string, answer in found],
    )
