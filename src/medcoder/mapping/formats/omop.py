"""OMOP: source_to_concept_map, and the integer concept ids that it and Usagi need.

Ids come from a graph of OMOP vocabularies, or from a CONCEPT table that is joined on vocabulary and
code. https://ohdsi.github.io/CommonDataModel/cdm54.html
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from medcoder.errors import InputError, UsageError
from medcoder.files import replacing
from medcoder.kg.keys import SEPARATOR, code_key, vocabulary_key
from medcoder.mapping.formats import Cells, Format, Seen, many, terms
from medcoder.mapping.formats.systems import source_name, system_of
from medcoder.mapping.project import Project
from medcoder.mapping.project.records import Target
from medcoder.tables.write import TextWriter
from medcoder.types import Code, Progress

OMOP = "OMOP"
_COLUMNS = [
    "concept_id",
    "concept_name",
    "domain_id",
    "vocabulary_id",
    "standard_concept",
    "concept_code",
    "invalid_reason",
]
_ROW = "row of the file"
_SHOWN = 5  # missing codes that an error names


class Concept(NamedTuple):
    """A concept of OMOP."""

    id: int
    name: str
    vocabulary: str
    domain: str = ""
    standard: bool | None = None  # None: not known


NONE = Concept(0, "", "None")


class Concepts:
    """Looks up the OMOP concepts of targets; keeps account of those that have none."""

    def __init__(self, table: dict[str, Concept] | None) -> None:
        self._table = table
        self.missing: dict[Code, None] = {}

    def find(self, target: Target) -> Concept | None:
        """The concept of a target or candidate."""
        if self._table is not None:
            matches = (self._table.get(_key(code)) for code in target.codes)
            return next((concept for concept in matches if concept is not None), None)
        # Where only some vocabularies were asked for, the id is not among the codes.
        own = [code.code for code in target.codes if vocabulary_key(code.vocabulary) == OMOP]
        numbers = [int(number) for number in (*own, target.concept) if number.isdecimal()]
        return Concept(numbers[0], target.name, _vocabulary(target)) if numbers else None

    def of(self, target: Target | None) -> Concept:
        """The concept of a target, or none (0), which is noted in `missing`."""
        if target is None:
            return NONE
        concept = self.find(target)
        if concept is None:
            self.missing[target.codes[0] if target.codes else Code("", target.concept)] = None
        return concept or NONE

    def check(self, where: str | Path, *, missing_ok: bool) -> list[str]:
        """An error if a target had no concept, or a note."""
        if not self.missing:
            return []
        shown = ", ".join(f"{code.vocabulary} {code.code}" for code in [*self.missing][:_SHOWN])
        more = ", ..." if len(self.missing) > _SHOWN else ""
        what, values = f"{len(self.missing):,} targets have no concept", f"{shown}{more}"
        table = "the CONCEPT table" if isinstance(where, Path) else "the terminology"
        if missing_ok:
            return [f"{what} in {where}: {values}. Their rows got concept 0"]
        raise InputError(
            f"{what} in {table}",
            where=where if isinstance(where, Path) else None,
            values=values,
            remedy="Give the CONCEPT table that has them, or allow missing ones to become 0",
        )


def concepts_for(project: Project, concepts: Path | None) -> Concepts:
    """Concepts of all targets and candidates of a project."""
    if concepts is not None:
        wanted = {_key(code) for code in _codes(project)}
        return Concepts(read_concepts(Path(concepts), wanted))
    vocabularies = (project.meta.get("terminology") or {}).get("vocabularies") or {}
    if OMOP in map(vocabulary_key, vocabularies):
        return Concepts(None)
    raise UsageError(
        "this format needs integer concept ids of OMOP, which the terminology of the project lacks",
        remedy="Give a CONCEPT.csv from Athena (--concepts), which is joined on vocabulary and "
        "code, or map with an index of OMOP vocabularies",
    )


def check_concepts(path: Path) -> None:
    """An error unless the first line is that of a CONCEPT table."""
    _open(path)


def read_concepts(path: Path, wanted: set[str]) -> dict[str, Concept]:
    """Concepts whose key is wanted; valid ones before others. Memory goes by what is wanted."""
    import polars as pl

    # Codes are compared by their keys; letters and digits are enough to leave most rows out.
    bare = pl.Series([key.partition(SEPARATOR)[2] for key in wanted], dtype=pl.String)
    concepts: dict[str, tuple[bool, Concept]] = {}
    table = _open(path)
    for frame in table.read(_COLUMNS):
        frame = frame.with_row_index(_ROW, table.before + 1)
        code = pl.col("concept_code").str.to_uppercase().str.strip_chars()
        local = code.str.replace(r"^[^:]*:", "")
        undotted = local.str.replace_all(".", "", literal=True)
        near = frame.filter(code.is_in(bare) | local.is_in(bare) | undotted.is_in(bare))
        for row, number, name, domain, vocabulary, standard, code_, invalid in near.select(
            _ROW, *_COLUMNS
        ).iter_rows():
            key = _key(Code(vocabulary, code_))
            if key not in wanted or (key in concepts and not concepts[key][0]):
                continue
            id = _id(number, table.path, row)
            concept = Concept(id, name, vocabulary, domain, standard == "S")
            concepts[key] = (bool(invalid), concept)
    return {key: concept for key, (_, concept) in concepts.items()}


def find_ids(path: Path, wanted: set[int]) -> dict[int, tuple[Concept, Code]]:
    """Concepts by their id, with their code."""
    import polars as pl

    concepts = {}
    for frame in _open(path).read(_COLUMNS):
        near = frame.filter(pl.col("concept_id").is_in([str(number) for number in wanted]))
        for number, name, domain, vocabulary, standard, code, _ in near.select(
            _COLUMNS
        ).iter_rows():
            concept = Concept(int(number), name, vocabulary, domain, standard == "S")
            concepts[int(number)] = (concept, Code(vocabulary, code))
    return concepts


def _open(path: Path) -> Any:
    """The CONCEPT table, to be read in parts."""
    from medcoder.tables.unquoted import open_unquoted  # needs polars

    return open_unquoted(_file(path), _COLUMNS, separator="\t")


def _file(path: Path) -> Path:
    """The CONCEPT table itself, or that of a folder."""
    if not path.is_dir():
        return path
    names = ("concept.csv", "concept.csv.gz")
    files = [file for file in path.iterdir() if file.name.lower() in names]
    if not files:
        raise InputError("no CONCEPT.csv here", file=path, remedy="Check the path")
    return min(files)


def _id(number: str, file: Path, row: int) -> int:
    try:
        return int(number)
    except ValueError as error:
        raise InputError(
            "a concept_id is not a whole number", values=repr(number),
            file=file, row=row, remedy="Compare the file with the download from Athena",
        ) from error  # fmt: skip


def _codes(project: Project) -> Iterable[Code]:
    for mapping in project.terms():
        if mapping.target is not None:
            yield from mapping.target.codes
        for candidate in mapping.candidates:
            yield from candidate.codes


def _key(code: Code) -> str:
    """What a code of ours and a code of OMOP share, whatever each calls the vocabulary."""
    return code_key(system_of(code.vocabulary).omop or code.vocabulary, code.code)


def _vocabulary(target: Target) -> str:
    """The vocabulary of a concept in a graph of OMOP, which names vocabularies as OMOP does."""
    for code in target.codes:
        if vocabulary_key(code.vocabulary) != OMOP:
            return code.vocabulary
    return NONE.vocabulary


COLUMNS = (
    "source_code",
    "source_concept_id",
    "source_vocabulary_id",
    "source_code_description",
    "target_concept_id",
    "target_vocabulary_id",
    "valid_start_date",
    "valid_end_date",
    "invalid_reason",
)
_INEXACT = ("broader", "narrower", "related")
START, END = "1970-01-01", "2099-12-31"  # as Usagi and the OHDSI vocabularies have it
LIMITS = {"source_code": 50, "source_vocabulary_id": 20, "source_code_description": 255}


def export(
    project: Project,
    path: Path,
    *,
    concepts: Path | None = None,
    source_vocabulary: str = "",
    missing_ok: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """Write a row for each source term; a term without a target gets concept 0.

    concepts: a CONCEPT.csv; needed unless the terminology is one of OMOP
    source_vocabulary: value of source_vocabulary_id; the project's own where it is not given
    missing_ok: let targets that the CONCEPT table does not have become 0
    """
    lookup, cell, seen = concepts_for(project, concepts), Cells(), Seen()
    vocabulary = source_vocabulary or source_name(project)
    long = dict.fromkeys(LIMITS, 0)
    undecided = inexact = not_standard = unnamed = 0
    with replacing(path) as partial:
        with partial.open("w", encoding="utf-8", newline="") as stream:
            table = TextWriter(stream)
            table.row(COLUMNS)
            for mapping in terms(project, progress):
                seen(mapping)
                decision = mapping.decision
                undecided += decision is None and mapping.status != "auto"
                inexact += decision is not None and decision.equivalence in _INEXACT
                unnamed += not mapping.row.code
                for target in mapping.targets or (None,):
                    concept = lookup.of(target)
                    not_standard += concept.standard is False
                    row = {
                        "source_code": mapping.row.code or mapping.row.text,
                        "source_concept_id": 0,
                        "source_vocabulary_id": vocabulary,
                        "source_code_description": mapping.row.text,
                        "target_concept_id": concept.id,
                        "target_vocabulary_id": concept.vocabulary,
                        "valid_start_date": START,
                        "valid_end_date": END,
                        "invalid_reason": "",
                    }
                    for name, limit in LIMITS.items():
                        long[name] += len(str(row[name])) > limit
                    table.row([cell(str(row[name])) for name in COLUMNS])
        notes = lookup.check(concepts or "the terminology", missing_ok=missing_ok)
    notes += seen.single()
    notes.append("who decided, when, notes and confidence are not in the file")
    notes += seen.split("a row for each target, which does not say for which part it is")
    if seen.counts["context"]:
        those = many(seen.counts["context"], "term")
        notes.append(f"language and context of {those} are not in the file")
    notes += seen.flagged("with the decided concept")
    for what, count in (
        ("terms on which nothing is decided, with concept 0", undecided),
        ("targets that are not equivalent to the source, which is not said", inexact),
        ("targets that are no standard concepts: in a CDM, follow their 'Maps to'", not_standard),
        ("terms without a code, with their text as source_code", unnamed),
        *((f"{name} longer than the {LIMITS[name]} characters of a CDM, not cut", long[name])
          for name in LIMITS),
    ):  # fmt: skip
        notes += [f"{what}: {count:,}"] if count else []
    return notes + cell.notes()


FORMAT = Format(ending=".source_to_concept_map.csv", export=export)
