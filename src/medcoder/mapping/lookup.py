"""Looking up the strings of a project, each once, a batch at a time.

A `Mapper` is what answers: a normaliser, seen through the few things that mapping a table needs.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from medcoder.artefact import read_meta
from medcoder.errors import UnknownName
from medcoder.kg.masks import concepts_of_types, concepts_of_vocabularies, terms_in_languages
from medcoder.mapping.kept import Kept, kept
from medcoder.mapping.project import Project, stored
from medcoder.mapping.project.queries import TRUSTED
from medcoder.mapping.project.records import UNSAID, Role
from medcoder.mapping.project.schema import guarded
from medcoder.mapping.recalibration import Recalibration
from medcoder.types import Answer, Code, Match, Progress

if TYPE_CHECKING:
    from medcoder.normalize import Normalizer

_CHECKS = {
    "type": concepts_of_types,
    "vocabulary": concepts_of_vocabularies,
    "language": terms_in_languages,
}


class Mapper(Protocol):
    """Strings to answers, and what the concepts are called."""

    def describe(self) -> dict[str, Any]:
        """`terminology` and `model`, as in the meta data of a project."""
        ...

    def normalize_many(
        self,
        texts: Sequence[str],
        *,
        top: int,
        types: Collection[str] | None,
        vocabularies: Collection[str] | None,
        languages: Collection[str] | None,
        targets: str,
        split: bool,
    ) -> Iterator[Answer]: ...

    def knows(self, role: Role, value: str) -> bool:
        """Whether there is such a semantic type, vocabulary or language."""
        ...

    def name_of(self, concept: str) -> str | None:
        """The preferred name, or None if there is no such concept."""
        ...

    def codes_of(self, concept: str) -> tuple[Code, ...]: ...


class IndexMapper:
    """The normaliser of an index."""

    def __init__(self, normalizer: Normalizer) -> None:
        self._normalizer = normalizer
        self._known: dict[tuple[str, str], bool] = {}

    def describe(self) -> dict[str, Any]:
        kg, terms = self._normalizer.kg, self._normalizer.custom_terms
        custom = "\n".join(
            f"{text}\t{kg.terms.id(concept)}\t{language}"
            for text, concept, language in zip(
                terms.texts, terms.concepts, terms.languages, strict=True
            )
        )
        encoder = read_meta(self._normalizer.path / "encoder", kind="encoder")
        return {
            "terminology": {
                "fingerprint": kg.fingerprint,
                "vocabularies": {entry.name: entry.version for entry in kg.vocabularies},
                "custom_terms": hashlib.sha256(custom.encode()).hexdigest() if custom else "",
            },
            "model": {
                "name": str(encoder.get("name", "")),
                "fingerprint": str(encoder["fingerprint"]),
            },
        }

    def normalize_many(
        self,
        texts: Sequence[str],
        *,
        top: int,
        types: Collection[str] | None,
        vocabularies: Collection[str] | None,
        languages: Collection[str] | None,
        targets: str,
        split: bool,
    ) -> Iterator[Answer]:
        return self._normalizer.normalize_many(
            texts, top=top, types=types, vocabularies=vocabularies, languages=languages,
            targets=targets, split=split,
        )  # fmt: skip

    def knows(self, role: Role, value: str) -> bool:
        key = role, value
        if key not in self._known:
            try:
                _CHECKS[role](self._normalizer.kg, [value])
                self._known[key] = True
            except UnknownName:
                self._known[key] = False
        return self._known[key]

    def name_of(self, concept: str) -> str | None:
        kg = self._normalizer.kg
        return kg.preferred(concept) if concept in kg else None

    def codes_of(self, concept: str) -> tuple[Code, ...]:
        return tuple(self._normalizer.kg.codes_of(concept))


# A confidence is compared with NULL where nothing was automatic, which is not true.
_KEEP_EARLIER = f"""UPDATE strings AS s SET
    earlier = (SELECT concept FROM candidates WHERE string = s.id AND rank = 1),
    was = CASE WHEN {TRUSTED} AND s.confidence >= ? THEN (
        SELECT json_group_array(json_array(concept, name)) FROM (
            SELECT concept, name FROM candidates
            WHERE string = s.id AND rank <= s.together ORDER BY rank))
        ELSE '[]' END
    WHERE id = ? AND mapped = ?"""
_BATCH = 512  # strings at a time, and what a kill costs at most
_WIDER = 4  # times as many candidates are asked for where a hint re-ranks them


class _How(NamedTuple):
    """How strings are looked up."""

    top: int
    targets: str
    split: bool


class _Before(NamedTuple):
    """The last run that came to its end: its number, and from what confidence it was trusted."""

    settled: int
    threshold: float | None


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
    base, meta = project.base, UNSAID | project.meta
    how = _How(top, str(meta["targets"]), bool(meta["split"]))
    # Of the last run that came to its end: decisions are compared with that.
    before = _Before(meta["settled"], meta.get("threshold_before"))
    recalibration = Recalibration.standing(meta)  # while it is not complete, nobody changes it
    with guarded(project.path):
        total = _number(base, "SELECT count(*) FROM strings")
        waiting = _number(base, "SELECT count(*) FROM strings WHERE mapped < ?", run)
    done = total - waiting
    while strings := _waiting(project, run):
        answered = [
            (string, answer)
            for _, some in groupby(strings, key=itemgetter(3))
            for string, answer in _answers(list(some), mapper, how)
        ]
        with project.transaction():
            _write(base, answered, run, before, recalibration)
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
        strings = [_String(*row) for row in project.base.execute(query, [run, _BATCH])]
        for string in strings:
            stored.wholes((string.id, string.scope), "id scope", string.id)
            stored.texts((string.text, string.hint), "text hint", string.id)
        for value in {string.value for string in strings}:
            stored.scope(value)
    return strings


def _answers(strings: Sequence[_String], mapper: Mapper, how: _How) -> list[tuple[_String, Kept]]:
    """What is kept for strings of the same scope."""
    only: dict[str, list[str]] = stored.scope(strings[0].value)

    def ask(texts: Sequence[str], top: int, split: bool) -> list[Answer]:
        return list(
            mapper.normalize_many(
                texts, top=top, types=only.get("type"), vocabularies=only.get("vocabulary"),
                languages=only.get("language"), targets=how.targets, split=split,
            )
        )  # fmt: skip

    plain = [string for string in strings if not string.hint]
    hinted = [string for string in strings if string.hint]
    answers = ask([string.text for string in plain], how.top, how.split)
    answered = [
        (string, kept(_shared(answer, answer.confidence)))
        for string, answer in zip(plain, answers, strict=True)
    ]
    if hinted:
        wider = min(how.top * _WIDER, 1000)
        alone = ask([string.text for string in hinted], wider, how.split)
        helped = ask([f"{string.text} {string.hint}" for string in hinted], wider, False)
        for string, answer, other in zip(hinted, alone, helped, strict=True):
            # A hint is for the string as a whole, and says nothing of the parts of a cell.
            ranked = (
                _shortened(answer, how.top) if answer.parts else _reranked(answer, other, how.top)
            )
            answered.append((string, kept(_shared(ranked, answer.confidence))))
    return answered


def _shared(answer: Answer, best: float) -> Answer:
    """The same, where the concepts that bear the best name share its confidence.

    None of them is meant more often than the others, so none is mapped automatically. Twins are
    one thing, and no namesakes.
    """
    if answer.parts:
        parts = tuple(_shared(part, part.confidence) for part in answer.parts)
        return replace(answer, parts=parts)
    if answer.namesakes == 1:
        return answer

    def share(matches: Sequence[Match]) -> tuple[Match, ...]:
        return tuple(
            replace(match, confidence=best / answer.namesakes)
            if match.confidence == best
            else match
            for match in matches
        )

    return replace(answer, matches=share(answer.matches), rejected=share(answer.rejected))


def _reranked(answer: Answer, hinted: Answer, top: int) -> Answer:
    """The candidates of a string in the order that its hint suggests.

    Each keeps the confidence that it has by the string alone: that is what was calibrated. So a
    candidate that only the hint brought to the front is not mapped automatically.
    """
    helped = {match.concept: match.confidence for match in hinted.candidates}

    def order(matches: Sequence[Match]) -> tuple[Match, ...]:
        weighed = sorted(
            matches, key=lambda match: -match.confidence - helped.get(match.concept, 0.0)
        )
        return tuple(weighed[:top])

    return replace(answer, matches=order(answer.matches), rejected=order(answer.rejected))


def _shortened(answer: Answer, top: int) -> Answer:
    """A split answer with the first few candidates of each part."""
    parts = tuple(
        replace(part, matches=part.matches[:top], rejected=part.rejected[:top])
        for part in answer.parts
    )
    return replace(answer, parts=parts)


def _write(
    base: sqlite3.Connection,
    answered: Sequence[tuple[_String, Kept]],
    run: int,
    before: _Before,
    recalibration: Recalibration | None,
) -> None:
    made = recalibration.applied if recalibration else float
    numbers = [(string.id,) for string, _ in answered]
    base.executemany(
        _KEEP_EARLIER, [(before.threshold, string.id, before.settled) for string, _ in answered]
    )
    base.executemany("DELETE FROM candidates WHERE string = ?", numbers)
    base.executemany(
        "INSERT INTO candidates (string, rank, concept, name, codes, term, cosine, score, "
        "confidence, stage, attributes, twins, span, original) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                string.id, rank, match.concept, match.name, _json(match.codes), match.term,
                match.cosine, match.score, made(match.confidence), match.stage,
                _json(match.attributes), _json(match.twins),
                None if match.span is None else _json(match.span), match.confidence,
            )
            for string, answer in answered
            for rank, match in enumerate(answer.candidates, 1)
        ],
    )  # fmt: skip
    base.executemany(
        "UPDATE strings SET mapped = ?, answered = ?, confidence = ?, original = ?, review = ?, "
        "said = ?, together = ? WHERE id = ?",
        [
            (
                run, answer.answered, made(answer.confidence), answer.confidence, answer.review,
                _json(answer.said_entry()), answer.together, string.id,
            )
            for string, answer in answered
        ],
    )  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
