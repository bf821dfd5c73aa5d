"""What a target is to its source, in the words of each format. The one table of it.

Directions are easily turned round: "broader" says that the target means more than the source. In
SSSOM, `skos:broadMatch` says that of the object; in FHIR R4 and in Usagi, "wider" says it of the
target. FHIR R5 turned its words round and is not written.
"""

from __future__ import annotations

from typing import NamedTuple

from medcoder.mapping.base import Equivalence


class Words(NamedTuple):
    """One equivalence in every format."""

    sssom: str  # predicate_id
    fhir: str  # ConceptMap.group.element.target.equivalence of R4
    usagi: str  # column equivalence


TABLE: dict[Equivalence, Words] = {
    "equivalent": Words("skos:exactMatch", "equivalent", "EQUIVALENT"),
    "broader": Words("skos:broadMatch", "wider", "WIDER"),
    "narrower": Words("skos:narrowMatch", "narrower", "NARROWER"),
    "related": Words("skos:relatedMatch", "relatedto", "INEXACT"),
    # SSSOM has no predicate for it: what is not found is the object.
    "no match": Words("skos:exactMatch", "unmatched", "UNMATCHED"),
}
NO_TERM_FOUND = "sssom:NoTermFound"

# Words of others that ours do not tell apart; used where files are read.
_SSSOM = {words.sssom: ours for ours, words in TABLE.items() if ours != "no match"} | {
    "skos:closeMatch": "equivalent",
    "owl:sameAs": "equivalent",
    "owl:equivalentClass": "equivalent",
    "rdfs:subClassOf": "broader",
    "rdfs:seeAlso": "related",
    "oboInOwl:hasDbXref": "related",
}
_USAGI = {words.usagi: ours for ours, words in TABLE.items()} | {
    "EQUAL": "equivalent",
    "UNREVIEWED": "equivalent",  # older versions approve without saying how well it fits
    "": "equivalent",
}


def from_sssom(predicate: str, object_id: str) -> Equivalence | None:
    """Ours for a predicate and an object; None where the predicate is not known.

    >>> from_sssom("skos:broadMatch", "HP:0001658"), from_sssom("skos:exactMatch", NO_TERM_FOUND)
    ('broader', 'no match')
    """
    if object_id == NO_TERM_FOUND:
        return "no match"
    return _SSSOM.get(predicate)


def from_usagi(word: str) -> Equivalence | None:
    """Ours for a value of Usagi's column; None where it is not known.

    >>> from_usagi("WIDER"), from_usagi("EQUAL"), from_usagi("sort of")
    ('broader', 'equivalent', None)
    """
    return _USAGI.get(word.strip().upper())
