"""The concepts of an OBO file: what is read of each [Term]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import fastobo

from medcoder.errors import InputError
from medcoder.kg.sources.obofile import Header, OboFile
from medcoder.types import Count

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
                f"a second [Term] with the id {concept.id}",
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
