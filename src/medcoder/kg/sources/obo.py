"""OBO ontologies: one .obo file, or a folder of them with Babelon translations beside.

Each [Term] is a concept with its name, synonyms, cross-references and relations. Two things are
left unread on purpose. `intersection_of` defines a term by others, and what follows from it is
also in `is_a` and `relationship` of a release. SKOS matches other than `exactMatch` do not say
that two concepts are one. Relations are few next to the text, so `concepts` keeps them in
memory for `edges`.

OBO ids are global: an id in two ontologies of a folder is one concept, with the terms of both.
Twice in one file, it is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import fastobo
import pyarrow as pa

from medcoder.errors import InputError
from medcoder.kg.sources.babelon import open_translations, translations
from medcoder.kg.sources.obofile import Header, OboFile
from medcoder.types import SCHEMAS, Count, Part, ReadOptions, Tally, Vocabulary

BATCH = 50_000  # terms a table
_SAMPLE = 1000  # frames looked at to learn the prefix of an ontology


RANKS = {"EXACT": 1, "NARROW": 3, "BROAD": 3, "RELATED": 4}
ABBREVIATION = 2  # rank of an abbreviation at best: true, but seldom a good name
_INEXACT = {"closeMatch", "broadMatch", "narrowMatch", "relatedMatch"}


@dataclass(slots=True)
class OboConcept:
    """What is read of one [Term]."""

    id: str
    source: str
    namespace: str
    obsolete: bool = False
    terms: list[tuple[str, str, int]] = field(default_factory=list)  # text, kind, rank
    xrefs: list[tuple[str, str, str]] = field(default_factory=list)  # source, code, kind
    refused: Counter[str] = field(default_factory=Counter)  # other cross-references, by reason
    edges: list[tuple[str, str]] = field(default_factory=list)  # relation, tail


class OboSource:
    """An OBO file, or a folder with OBO files and *.babelon.tsv tables."""

    name = "obo"
    namespace = ""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._options = options
        if not path.exists():
            raise InputError("does not exist", file=path, remedy="Check the path")
        paths = _inside(path, ".obo") if path.is_dir() else [path]
        if not paths:
            raise InputError(
                "no .obo or .obo.gz file here",
                file=path,
                remedy="Point at an OBO file or at the folder that holds it",
            )
        self._files = [OboFile(file) for file in paths]
        tables = _inside(path, ".babelon.tsv") if path.is_dir() else []
        self._tables = [open_translations(table) for table in tables]
        self._sources: dict[str, str] = {}
        self._edges: list[tuple[str, Count, list[pa.Table]]] | None = None
        self.names: dict[str, str] = {}  # of the concepts that the last reading kept

    def size(self) -> int:
        return sum(file.size for file in self._files) + sum(table.size for table in self._tables)

    def done(self) -> int:
        return sum(file.done for file in self._files) + sum(table.done for table in self._tables)

    def vocabularies(self) -> Iterable[Vocabulary]:
        wanted = self._options.vocabularies
        for file in self._files:
            header = file.header()
            name = _main_prefix(file, header)
            if wanted is None or name in wanted:
                yield Vocabulary(name, header.version, header.title)

    def concepts(self, tally: Tally) -> Iterator[tuple[Part, pa.Table]]:
        self._sources, self.names = {}, {}
        edges: list[tuple[str, Count, list[pa.Table]]] = []
        ontologies: dict[str, Path] = {}
        for file in self._files:
            header = file.header()
            other = ontologies.setdefault(header.ontology or str(file.path), file.path)
            if other != file.path:
                raise InputError(
                    "its ontology is in another file too",
                    values=f"{header.ontology!r} in {other.name}",
                    file=file.path,
                    remedy="Leave one release of each ontology in the folder",
                )
            counts = _Counts.of(tally, file.path.name)
            tables: list[pa.Table] = []
            edges.append((file.path.name, counts.edges, tables))
            for rows in self._batches(file, header, counts):
                tables.append(to_table("edges", rows.pop("edges")))
                yield from ((part, to_table(part, rows[part])) for part in rows)
        for table in self._tables:
            count = tally[table.path.name]
            for terms in translations(table, self._sources, self._options, count):
                yield "terms", terms
        self._edges = edges

    def edges(self, tally: Tally) -> Iterator[pa.Table]:
        """The relations that `concepts` met; without it, the files are read for them alone."""
        if self._edges is None:
            for _ in self.concepts(Tally()):
                pass
        for name, count, tables in self._edges or ():
            total = tally[f"{name} edges"]
            total.read += count.read
            total.kept += count.kept
            total.left_out.update(count.left_out)
            yield from tables

    def _batches(self, file: OboFile, header: Header, counts: _Counts) -> Iterator[_Rows]:
        """Rows of every part, BATCH terms at a time."""
        rows: _Rows = {part: [] for part in SCHEMAS}
        for concept in read_concepts(file, header, counts.frames):
            reason = self._reason(concept)
            if reason:
                counts.drop(concept, reason)
                continue
            self._keep(concept, rows, counts)
            if len(rows["terms"]) >= BATCH:
                yield rows
                rows = {part: [] for part in SCHEMAS}
        yield rows

    def _reason(self, concept: OboConcept) -> str:
        """Why to leave a concept out, if at all."""
        if concept.obsolete and not self._options.obsolete:
            return "obsolete"
        wanted = self._options.vocabularies
        return "vocabulary" if wanted is not None and concept.source not in wanted else ""

    def _keep(self, concept: OboConcept, rows: _Rows, counts: _Counts) -> None:
        counts.add(concept)
        name, source, wanted = concept.id, concept.source, self._options.languages
        self._sources[name] = source
        self.names[name] = concept.terms[0][0] if concept.terms else name
        for term, kind, rank in concept.terms:
            if wanted is not None and "en" not in wanted:
                counts.terms.drop("language", 1)
            elif not term.strip():
                counts.terms.drop("empty term", 1)
            else:
                counts.terms.kept += 1
                rows["terms"].append((name, term, "en", source, name, kind, rank))
        rows["xrefs"].extend((name, *xref) for xref in concept.xrefs)
        rows["edges"].extend((name, *edge) for edge in concept.edges)
        if concept.namespace:
            rows["types"].append((name, concept.namespace, concept.namespace))
        if concept.obsolete:
            rows["flags"].append((name, "invalid"))


_Rows = dict[Part, list[tuple[object, ...]]]


def to_table(part: Part, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    schema = SCHEMAS[part]
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(columns, schema=schema)


@dataclass
class _Counts:
    """Counts of one file, by unit."""

    frames: Count
    terms: Count
    xrefs: Count
    edges: Count  # reported later, by `edges`

    @classmethod
    def of(cls, tally: Tally, name: str) -> _Counts:
        return cls(tally[f"{name} frames"], tally[f"{name} terms"], tally[f"{name} xrefs"], Count())

    def sizes(self, concept: OboConcept) -> tuple[tuple[Count, int], ...]:
        xrefs = len(concept.xrefs) + concept.refused.total()
        return (
            (self.frames, 1),
            (self.terms, len(concept.terms)),
            (self.xrefs, xrefs),
            (self.edges, len(concept.edges)),
        )

    def drop(self, concept: OboConcept, reason: str) -> None:
        for count, size in self.sizes(concept):
            count.read += size
            count.drop(reason, size)

    def add(self, concept: OboConcept) -> None:
        """Count all but the terms that are kept, which depends on each of them."""
        for count, size in self.sizes(concept):
            count.read += size
        self.frames.kept += 1
        self.xrefs.kept += len(concept.xrefs)
        self.xrefs.left_out.update(concept.refused)
        self.edges.kept += len(concept.edges)


def read_concepts(file: OboFile, header: Header, count: Count) -> Iterator[OboConcept]:
    """Concepts of the [Term] frames; other frames are counted as left out."""
    seen: set[str] = set()
    empty = True
    for frame in file.frames():
        empty = False
        if not isinstance(frame, fastobo.term.TermFrame):
            count.read += 1
            typedef = isinstance(frame, fastobo.typedef.TypedefFrame)
            count.drop("typedef" if typedef else "instance", 1)
            continue
        concept = _concept(frame, header)
        if concept.id in seen:
            raise InputError(
                "a second [Term] with the same id",
                values=concept.id,
                file=file.path,
                row=file.line_of_id(str(frame.id), 2),
                remedy="Rename or remove one of the two",
            )
        seen.add(concept.id)
        yield concept
    if empty:
        raise InputError("no [Term] in it", file=file.path, remedy="Check that it is complete")


def _concept(frame: Any, header: Header) -> OboConcept:
    concept = OboConcept(text_of(frame.id), prefix_of(frame.id, header), header.namespace)
    for clause in frame:
        match clause:
            case fastobo.term.NameClause():
                concept.terms.insert(0, (clause.name.strip(" \t"), "name", 0))
            case fastobo.term.SynonymClause():
                concept.terms.append(_synonym(clause.synonym, header))
            case fastobo.term.IsAClause():
                concept.edges.append(("is_a", text_of(clause.term)))
            case fastobo.term.RelationshipClause():
                concept.edges.append((text_of(clause.typedef), text_of(clause.term)))
            case fastobo.term.AltIdClause():
                other = clause.alt_id
                concept.xrefs.append((prefix_of(other, header), text_of(other), "alt"))
            case fastobo.term.XrefClause():
                _add_xref(concept, clause.xref.id)
            case fastobo.term.PropertyValueClause():
                _add_match(concept, clause.property_value)
            case fastobo.term.NamespaceClause():
                concept.namespace = text_of(clause.namespace)
            case fastobo.term.IsObsoleteClause():
                concept.obsolete = clause.obsolete
    return concept


def _synonym(synonym: Any, header: Header) -> tuple[str, str, int]:
    """Text, kind ("EXACT", "RELATED:layperson") and rank."""
    rank = RANKS[synonym.scope]
    text = synonym.desc.strip(" \t")
    if synonym.type is None:
        return text, synonym.scope, rank
    kind = str(synonym.type)
    label = header.synonym_types.get(kind, "")
    if "abbreviation" in f"{kind} {label}".lower():
        rank = max(rank, ABBREVIATION)
    # A code such as OMO:0003000 says less than the label that the header gives it.
    return text, f"{synonym.scope}:{label if label and ':' in kind else kind}", rank


def _add_xref(concept: OboConcept, other: Any) -> None:
    """A cross-reference, if it is a code of some vocabulary: web addresses are none."""
    prefix, local = "", ""
    if isinstance(other, fastobo.id.PrefixedIdent):
        prefix, local = other.prefix, other.local
    elif isinstance(other, str):
        prefix, _, local = other.strip().partition(":")
    if prefix and local and "//" not in local:
        concept.xrefs.append((prefix, local, "xref"))
    else:
        concept.refused["not a code"] += 1


def _add_match(concept: OboConcept, value: Any) -> None:
    relation = str(value.relation).replace("#", "/").replace(":", "/").rpartition("/")[2]
    if relation == "exactMatch":
        _add_xref(concept, value.value)
    elif relation in _INEXACT:
        concept.refused["not an exact match"] += 1


def text_of(ident: Any) -> str:
    """An id as it is, without the escapes of the format."""
    if isinstance(ident, fastobo.id.PrefixedIdent):
        return f"{ident.prefix}:{ident.local}"
    return ident.unescaped if isinstance(ident, fastobo.id.UnprefixedIdent) else str(ident)


def prefix_of(ident: Any, header: Header) -> str:
    """Vocabulary of an id; one without a prefix belongs to the ontology itself."""
    return ident.prefix if isinstance(ident, fastobo.id.PrefixedIdent) else header.ontology.upper()


def _main_prefix(file: OboFile, header: Header) -> str:
    """The prefix that an ontology gives its own terms, spelt as there."""
    with closing(OboFile(file.path).frames()) as frames:
        terms = (frame for frame in frames if isinstance(frame, fastobo.term.TermFrame))
        sample = Counter(prefix_of(frame.id, header) for frame in islice(terms, _SAMPLE))
    own = [name for name in sample if name.lower() == header.ontology]
    return (own or [name for name, _ in sample.most_common(1)] or [header.ontology.upper()])[0]


def _inside(folder: Path, suffix: str) -> list[Path]:
    """Files of a folder that end so, plain or gzipped, by name."""
    ends = (suffix, f"{suffix}.gz")
    return sorted(path for path in folder.iterdir() if path.name.endswith(ends))
