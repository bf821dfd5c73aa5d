"""Decisions of others into a project: who and when are kept, unknown targets are flagged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from medcoder.errors import InputError
from medcoder.kg.keys import code_key
from medcoder.mapping.formats import many
from medcoder.mapping.formats.systems import asked
from medcoder.mapping.project.records import Decision, Equivalence, Target, TermMapping
from medcoder.tables import text
from medcoder.types import Code

if TYPE_CHECKING:
    from medcoder.mapping.project import Project

NOT_FOUND = "the imported target is not in the terminology"
NOT_CHECKED = "the imported target is no candidate and was not looked up in the terminology"


class Terminology(Protocol):
    """What is asked of a graph: `medcoder.KG` has it."""

    def __contains__(self, concept: object) -> bool: ...
    def preferred(self, concept: str) -> str: ...
    def codes_of(self, concept: str, vocabularies: Sequence[str] | None = None) -> list[Code]: ...
    def find_code(self, vocabulary: str, code: str) -> list[str]: ...


@dataclass(frozen=True, kw_only=True)
class Record:
    """A decision as a file has it."""

    row: int  # of the file
    text: str
    sources: tuple[str, ...]  # the local code, in the spellings it may have; () if it has none
    context: dict[str, str] = field(default_factory=dict)  # what else it must agree in
    concept: str = ""  # our id, if the file has it
    name: str = ""
    codes: tuple[Code, ...] = ()  # of the target; none: no match
    equivalence: Equivalence
    who: str
    when: str | None  # None: the file does not say
    note: str = ""
    flag: str = ""


@dataclass
class Taken:
    """What an import took over, and what not."""

    decided: int = 0  # source terms with a new decision
    same: int = 0  # that had this very decision
    flagged: int = 0  # decided, and to be looked at
    undecided: int = 0  # records of the file that are no decisions
    kept: list[str] = field(default_factory=list)  # terms with another decision, which stays
    absent: list[str] = field(default_factory=list)  # records whose term is not in the project
    notes: list[str] = field(default_factory=list)


def take(
    project: Project,
    records: Iterable[Record],
    taken: Taken,
    *,
    kg: Terminology | None,
    overwrite: bool,
) -> Taken:
    """Write decisions, all or none of them."""
    with project.transaction():
        for record, numbers in _matched(project, records, taken):
            for number in numbers:
                _put(project, project.mapping(number), record, taken, kg, overwrite)
    return taken


def _put(
    project: Project,
    mapping: TermMapping,
    record: Record,
    taken: Taken,
    kg: Terminology | None,
    overwrite: bool,
) -> None:
    target, flag = _target(project, mapping, record, kg)
    flag = record.flag or flag
    concept = target.concept if target else None
    if mapping.decision is not None:
        if _same(mapping.decision, concept, record):
            taken.same += 1
            return
        if not overwrite:
            taken.kept.append(
                f"{mapping.row.text!r}: {_shown(mapping.decision.concept)} by "
                f"{mapping.decision.who} stays, the file has {_shown(concept)} by {record.who}"
            )
            return
    project.decide(
        mapping.row.number,
        concept,
        who=record.who,
        name=target.name if target else "",
        codes=target.codes if target else (),
        equivalence=record.equivalence,
        note=record.note,
        when=record.when,
        expected_version=mapping.version,
        bulk=True,
    )
    taken.decided += 1
    if flag:
        project.flag(mapping.row.number, flag, who=record.who)
        taken.flagged += 1


def _same(decision: Decision, concept: str | None, record: Record) -> bool:
    mine = (concept, record.equivalence, record.who, record.note)
    theirs = (decision.concept, decision.equivalence, decision.who, decision.note)
    return mine == theirs and record.when in (None, decision.when)


def _shown(concept: str | None) -> str:
    return "no match" if concept is None else concept


def _target(
    project: Project, mapping: TermMapping, record: Record, kg: Terminology | None
) -> tuple[Target | None, str]:
    """The concept that a record means, and why it is to be looked at."""
    if record.equivalence == "no match":
        return None, ""
    keys = {code_key(*code) for code in record.codes}
    for candidate in mapping.candidates:
        known = candidate.concept == record.concept
        if known or any(code_key(*code) in keys for code in candidate.codes):
            return Target(candidate.concept, candidate.name, candidate.codes), ""
    concept = _look_up(record, kg) if kg is not None else None
    if kg is not None and concept is not None:
        codes = kg.codes_of(concept, asked(project) or None)
        return Target(concept, kg.preferred(concept), tuple(codes)), ""
    own = record.concept or "{0.vocabulary}:{0.code}".format(record.codes[0])
    return Target(own, record.name, record.codes), NOT_CHECKED if kg is None else NOT_FOUND


def _look_up(record: Record, kg: Terminology) -> str | None:
    if record.concept and record.concept in kg:
        return record.concept
    for code in record.codes:
        if concepts := kg.find_code(*code):
            return concepts[0]
    return None


def _matched(
    project: Project, records: Iterable[Record], taken: Taken
) -> list[tuple[Record, list[int]]]:
    """Records with the first rows of the source terms they are about.

    Text and code must agree; where no term agrees in both, the code alone decides, since names may
    have been translated.
    """
    matched: list[tuple[Record, list[int]]] = []
    left: list[Record] = []
    for record in records:
        codes = record.sources or ("",)
        numbers = [number for code in codes for number in project.find(record.text, code)]
        if numbers:
            matched.append((record, _agreeing(project, numbers, record)))
        else:
            left.append(record)
    by_code = _by_code(project, {code for record in left for code in record.sources})
    by_code_alone = 0
    for record in left:
        numbers = [number for code in record.sources for number in by_code.get(code, ())]
        if numbers:
            matched.append((record, numbers))
            by_code_alone += 1
        else:
            taken.absent.append(_named(record))
    if by_code_alone:
        taken.notes.append(f"{many(by_code_alone, 'record')} matched by code, not by text")
    return matched


def _by_code(project: Project, codes: set[str]) -> dict[str, list[int]]:
    """First rows of the source terms that have any of these codes."""
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for mapping in project.terms() if codes else ():
        if mapping.row.code in codes:
            numbers[mapping.row.code].append(mapping.row.number)
    return numbers


def _agreeing(project: Project, numbers: list[int], record: Record) -> list[int]:
    """Of several terms with the text, those with the context of the record; all if none has."""
    if len(numbers) == 1 or not record.context:
        return numbers
    agree = []
    for number in numbers:
        row = project.mapping(number).row
        own = {"language": row.language, **row.context}
        if all(own.get(name, value) == value for name, value in record.context.items()):
            agree.append(number)
    return agree or numbers


def _named(record: Record) -> str:
    code = f" ({record.sources[0]})" if record.sources else ""
    return f"row {record.row:,}: {record.text!r}{code}"


def merged(records: list[Record]) -> list[Record]:
    """Records of the same target made one, with all their codes; another target stays a record."""
    made: dict[tuple[Any, ...], Record] = {}
    for record in records:
        key = (
            record.text, record.sources, tuple(record.context.items()),
            record.concept or record.row, record.equivalence, record.who,
        )  # fmt: skip
        first = made.get(key)
        if first is not None:
            record = Record(**{**vars(first), "codes": (*first.codes, *record.codes)})
        made[key] = record
    return list(made.values())


def one_line_end(text: str) -> str:
    """The text with line feeds for all ends of lines."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def by_column(
    path: Path, rows: Iterator[tuple[int, list[str]]], needed: Iterable[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Numbered rows as values by column; the first row is the header.

    needed: columns that there must be; of names between |, any is enough
    """
    number, header = next(rows, (1, []))
    missing = [names.split("|")[0] for names in needed if not {*names.split("|")} & {*header}]
    remedy = "Check that this is the right file"
    text.check_columns(missing, header, file=path, row=number, remedy=remedy)
    for number, fields in rows:
        if len(fields) != len(header):
            raise InputError(
                "a wrong number of fields",
                file=path,
                row=number,
                values=f"{len(fields)} fields, where the header has {len(header)}",
                remedy="Look for a quote or a line break that is not closed",
            )
        yield number, dict(zip(header, fields, strict=True))
