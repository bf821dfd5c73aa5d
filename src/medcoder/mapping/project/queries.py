"""Rows of a project's tables as records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, cast

from medcoder.mapping.project import stored
from medcoder.mapping.project.records import (
    EQUIVALENCES,
    STATUSES,
    Decision,
    Equivalence,
    Event,
    Said,
    SourceRow,
    TermMapping,
)
from medcoder.types import Match

_ACTIONS = ("decide", "undo", "flag")
_BATCH = 1000  # rows that are held at a time
VARIABLES = 500  # of a statement

# What may be mapped automatically, if it is likely enough: where a person must look, nothing.
TRUSTED = "s.answered AND s.review = ''"
# Statuses follow from what is stored: nothing has to be rewritten when the threshold moves.
STATUS = """CASE
    WHEN t.decision IS NOT NULL THEN CASE t.flag WHEN '' THEN 'approved' ELSE 'flagged' END
    WHEN s.review != '' THEN CASE
        WHEN EXISTS (SELECT 1 FROM candidates o WHERE o.string = s.id) THEN 'review'
        ELSE 'none' END
    WHEN NOT s.answered THEN 'none'
    WHEN s.confidence >= (SELECT json_extract(value, '$') FROM meta WHERE key = 'threshold')
        THEN 'auto'
    ELSE 'review' END"""
_TERM = f"""t.id, t.text, t.code, t.language, t.context, t.string, t.version, t.flag, {STATUS},
    s.review, s.said, s.together"""
_DECISION = "e.id, e.concept, e.name, e.codes, e.equivalence, e.who, e.at, e.note"
_ROWS = f"""SELECT r.number, r.count, r.fields, {_TERM}, {_DECISION}
    FROM rows r JOIN terms t ON t.id = r.term JOIN strings s ON s.id = t.string
    LEFT JOIN events e ON e.id = t.decision"""
_TERMS = f"""SELECT t.first, t.count, r.fields, {_TERM}, {_DECISION}
    FROM terms t JOIN rows r ON r.number = t.first JOIN strings s ON s.id = t.string
    LEFT JOIN events e ON e.id = t.decision"""
_CANDIDATES = """SELECT string, concept, name, codes, term, cosine, score, confidence, stage,
    attributes, twins, span FROM candidates"""
_EVENTS = """SELECT v.id, v.action, t.first, t.text, t.code, v.flag, v.who, v.at, v.note, v.version,
    e.id, e.concept, e.name, e.codes, e.equivalence, e.who, e.at, e.note
    FROM events v JOIN terms t ON t.id = v.term LEFT JOIN events e ON e.id = v.stands"""


def mappings(
    base: sqlite3.Connection, *, terms: bool, where: str = "", values: Sequence[Any] = ()
) -> Iterator[TermMapping]:
    """Mappings in the order of the input: of each row, or of each term at its first row.

    Terms were numbered as they came.
    """
    query = f"{_TERMS if terms else _ROWS} {where} ORDER BY {'t.id' if terms else 'r.number'}"
    rows = base.execute(query, values)
    while batch := rows.fetchmany(_BATCH):
        candidates = _candidates(base, {row[8] for row in batch})
        for row in batch:
            yield _mapping(row, candidates)


def events(base: sqlite3.Connection, where: str, values: Sequence[Any]) -> Iterator[Event]:
    """History, oldest first."""
    for row in base.execute(f"{_EVENTS} {where} ORDER BY v.id", values):
        number, action, first, text, code, flag, who, at, note, version = row[:10]
        stored.wholes((number, first, version), "id first version", number)
        stored.texts((text, code, flag, who, note), "text code flag who note", number)
        stored.one_of(action, _ACTIONS, "action", number)
        if not stored.is_time(at):
            raise stored.Strange("at", number, at)
        yield Event(
            id=number, action=action, row=first, text=text, code=code,
            decision=decision(row[10:], version), flag=flag, who=who, when=at, note=note,
            version=version,
        )  # fmt: skip


def decision(row: Sequence[Any], version: int) -> Decision | None:
    """From the columns of `_DECISION`, which are empty where nothing is decided."""
    number, concept, name, codes, equivalence, who, at, note = row
    if number is None:
        return None
    stored.texts((name, who, note), "name who note", number)
    stored.one_of(equivalence, EQUIVALENCES, "equivalence", number)
    if (concept is None) != (equivalence == "no match") or not isinstance(concept, str | None):
        raise stored.Strange("concept", number, concept)
    if not stored.is_time(at):
        raise stored.Strange("at", number, at)
    return Decision(
        concept=concept, name=name, codes=stored.codes(codes, number),
        equivalence=cast(Equivalence, equivalence), who=who, when=at, note=note, version=version,
    )  # fmt: skip


def _mapping(row: Sequence[Any], candidates: dict[int, tuple[Match, ...]]) -> TermMapping:
    number, count, fields, _, text, code, language, context, string, version, flag = row[:11]
    status, review, said, together = row[11:15]
    stored.wholes((number, count, version, together), "number count version together", number)
    stored.texts((text, code, language, flag, review), "text code language flag review", number)
    stored.one_of(status, STATUSES, "status", number)
    named = stored.parsed(context, dict, "context", number)
    if not all(isinstance(value, str) for value in named.values()):
        raise stored.Strange("context", number, context)
    offered = candidates.get(string, ())
    if status in ("auto", "review") and not 1 <= together <= len(offered):
        raise stored.Strange("candidates", number, None)
    source = SourceRow(
        number=number, text=text, code=code, count=count, language=language,
        context=named, fields=stored.fields(fields, number),
    )  # fmt: skip
    return TermMapping(
        row=source, status=status, candidates=offered, decision=decision(row[15:], version),
        flag=flag, version=version, review=review,
        said=_with_confidences(stored.said(said, number), offered), together=together,
    )  # fmt: skip


def _with_confidences(said: Said, offered: Sequence[Match]) -> Said:
    """What is said, with the confidence of each part as it stands: that of its best candidate."""
    if not said.parts:
        return said
    best = {match.span: match.confidence for match in reversed(offered)}
    return said._replace(
        parts=tuple(
            part._replace(confidence=best.get(part.span, part.confidence)) for part in said.parts
        )
    )


def _candidates(base: sqlite3.Connection, strings: set[int]) -> dict[int, tuple[Match, ...]]:
    matches: dict[int, list[Match]] = {}
    wanted = sorted(strings)
    for start in range(0, len(wanted), VARIABLES):
        some = wanted[start : start + VARIABLES]
        marks = ",".join("?" * len(some))
        query = f"{_CANDIDATES} WHERE string IN ({marks}) ORDER BY string, rank"
        for string, *row in base.execute(query, some):
            matches.setdefault(string, []).append(_candidate(string, row))
    return {string: tuple(some) for string, some in matches.items()}


def _candidate(string: int, row: Sequence[Any]) -> Match:
    concept, name, codes, term, cosine, score, confidence, stage, attributes, twins, span = row
    stored.texts((concept, name, term), "concept name term", string)
    stored.word(stage, "stage", string)
    if not stored.is_share(confidence):
        raise stored.Strange("confidence", string, confidence)
    if not (stored.is_number(score) and (cosine is None or stored.is_number(cosine))):
        raise stored.Strange("score", string, (score, cosine))
    return Match(
        concept=concept, name=name, codes=stored.codes(codes, string), term=term,
        cosine=cosine, score=score, confidence=confidence, stage=stage,
        attributes=stored.attributes(attributes, string), span=stored.span(span, string),
        twins=stored.words(twins, "twins", string),
    )  # fmt: skip
