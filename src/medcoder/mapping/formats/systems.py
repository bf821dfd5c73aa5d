"""The words of other formats: what they call vocabularies, and what a target is to its source.

FHIR names a vocabulary by a URI, SSSOM by a prefix, OMOP by an id. Directions of equivalences are
easily turned round: "broader" says that the target means more than the source. In SSSOM,
`skos:broadMatch` says that of the object; in FHIR R4 and in Usagi, "wider" says it of the target.
FHIR R5 turned its words round and is not written.
"""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from medcoder.kg.keys import vocabulary_key
from medcoder.mapping.project import Project
from medcoder.mapping.project.records import Equivalence, Target
from medcoder.text import clean
from medcoder.types import Code

URN = "urn:medcoder:vocabulary:"  # for vocabularies without a URI of their own
_CUI = re.compile(r"C[0-9]{7}")
_FHIR = "http://hl7.org/fhir/sid/"
_OBO = "http://purl.obolibrary.org/obo/"
_BIOPORTAL = "http://purl.bioontology.org/ontology/"


class System(NamedTuple):
    """A vocabulary in each format."""

    uri: str  # in FHIR
    prefix: str  # of CURIEs
    namespace: str  # what the prefix stands for
    omop: str = ""  # vocabulary_id; "" where OMOP does not have it
    known: bool = True  # whether the URI is the vocabulary's own


# By `vocabulary_key`. FHIR: https://hl7.org/fhir/R4B/terminologies-systems.html
_SYSTEMS = {
    "ATC": System("http://www.whocc.no/atc", "ATC", f"{_BIOPORTAL}ATC/", "ATC"),
    "CPT": System("http://www.ama-assn.org/go/cpt", "CPT", f"{_BIOPORTAL}CPT/", "CPT4"),
    "CVX": System(f"{_FHIR}cvx", "CVX", f"{_BIOPORTAL}CVX/", "CVX"),
    "DOID": System(f"{_OBO}doid.owl", "DOID", f"{_OBO}DOID_"),
    "HP": System("http://human-phenotype-ontology.org", "HP", f"{_OBO}HP_", "HPO"),
    "ICD10": System(f"{_FHIR}icd-10", "ICD10", f"{_BIOPORTAL}ICD10/", "ICD10"),
    "ICD10CM": System(f"{_FHIR}icd-10-cm", "ICD10CM", f"{_BIOPORTAL}ICD10CM/", "ICD10CM"),
    "ICD10GM": System(
        "http://fhir.de/CodeSystem/bfarm/icd-10-gm", "ICD10GM",
        "http://fhir.de/CodeSystem/bfarm/icd-10-gm/", "ICD10GM",
    ),
    "ICD10PCS": System(
        "http://www.cms.gov/Medicare/Coding/ICD10", "ICD10PCS", f"{_BIOPORTAL}ICD10PCS/",
        "ICD10PCS",
    ),
    "ICD9CM": System(f"{_FHIR}icd-9-cm", "ICD9CM", f"{_BIOPORTAL}ICD9CM/", "ICD9CM"),
    "LOINC": System("http://loinc.org", "LOINC", "http://loinc.org/rdf/", "LOINC"),
    "MDR": System("http://terminology.hl7.org/CodeSystem/mdr", "MEDDRA",
                  f"{_BIOPORTAL}MEDDRA/", "MedDRA"),
    "MESH": System("http://terminology.hl7.org/CodeSystem/MSH", "MESH",
                   "http://id.nlm.nih.gov/mesh/", "MeSH"),
    "MONDO": System(f"{_OBO}mondo.owl", "MONDO", f"{_OBO}MONDO_"),
    "NCIT": System("http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl", "NCIT", f"{_OBO}NCIT_"),
    "NDC": System(f"{_FHIR}ndc", "NDC", f"{_BIOPORTAL}NDC/", "NDC"),
    "OMIM": System("http://www.omim.org", "OMIM", "https://omim.org/entry/"),
    "OMOP": System("http://fhir-terminology.ohdsi.org", "OMOP",
                   "https://athena.ohdsi.org/search-terms/terms/"),
    "ORPHA": System("http://www.orpha.net", "ORPHA", "http://www.orpha.net/ORDO/Orphanet_"),
    "RXNORM": System("http://www.nlm.nih.gov/research/umls/rxnorm", "RXNORM",
                     f"{_BIOPORTAL}RXNORM/", "RxNorm"),
    "SNOMEDCT": System("http://snomed.info/sct", "SNOMEDCT", "http://snomed.info/id/", "SNOMED"),
    "UCUM": System("http://unitsofmeasure.org", "UCUM",
                   "urn:oid:2.16.840.1.113883.6.8:", "UCUM"),
    "UMLS": System("http://terminology.hl7.org/CodeSystem/umls", "UMLS",
                   "https://uts.nlm.nih.gov/uts/umls/concept/"),
}  # fmt: skip


def system_of(vocabulary: str) -> System:
    """How a vocabulary is named; any that is not in the table gets a urn.

    >>> system_of("SNOMEDCT_US").uri, system_of("Ward 7").uri
    ('http://snomed.info/sct', 'urn:medcoder:vocabulary:Ward%207')
    """
    known = _SYSTEMS.get(vocabulary_key(vocabulary))
    if known is not None:
        return known
    uri = URN + quote(vocabulary, safe="")
    return System(uri, prefix_of(vocabulary), f"{uri}:", vocabulary, known=False)


def prefix_of(name: str) -> str:
    """A name that may stand before the colon of a CURIE.

    >>> prefix_of("Ward 7"), prefix_of("7b"), prefix_of("")
    ('Ward_7', '_7b', '_')
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
    return plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"


def local(code: Code) -> str:
    """The code without its vocabulary before it.

    >>> local(Code("HP", "HP:0001658")), local(Code("ICD10CM", "I21.9"))
    ('0001658', 'I21.9')
    """
    prefix, colon, rest = code.code.partition(":")
    same = colon and rest and vocabulary_key(prefix) == vocabulary_key(code.vocabulary)
    return rest if same else code.code


def curie(code: Code) -> str:
    """A code with the prefix of its vocabulary, made of safe characters.

    >>> curie(Code("HP", "HP:0001658")), curie(Code("local", "a b"))
    ('HP:0001658', 'local:a%20b')
    """
    return Code(system_of(code.vocabulary).prefix, quote(local(code), safe="")).curie


def from_curie(entity: str, curies: dict[str, str]) -> Code:
    """Vocabulary and code of a CURIE, or of a web address that a prefix of the file stands for."""
    for prefix, namespace in curies.items():
        if entity.startswith(("http:", "https:", "urn:")) and entity.startswith(namespace):
            entity = f"{prefix}:{entity.removeprefix(namespace)}"
    prefix, colon, local = entity.partition(":")
    if not colon:
        return Code("", entity)
    namespace = str(curies.get(prefix, ""))
    vocabulary = unquote(namespace.removeprefix(URN).removesuffix(":"))
    return Code(vocabulary if namespace.startswith(URN) else prefix, unquote(local))


def written_codes(target: Target, vocabularies: tuple[str, ...] = ()) -> list[Code]:
    """Codes that stand for a target in files: its first, or its first in each vocabulary asked for.

    A concept without a code goes by its id.
    """
    if not target.codes:
        return [_named_by_id(target.concept)]
    first: dict[str, Code] = {}
    for code in target.codes:
        first.setdefault(vocabulary_key(code.vocabulary), code)
    asked = [first[key] for key in map(vocabulary_key, vocabularies) if key in first]
    return list(dict.fromkeys(asked)) or [target.codes[0]]


def _named_by_id(concept: str) -> Code:
    if parsed := Code.parse(concept):
        return Code(parsed.vocabulary, concept)
    return Code("UMLS" if _CUI.fullmatch(concept) else "concept", concept)


class Words(NamedTuple):
    """One equivalence in every format."""

    sssom: str  # predicate_id
    fhir: str  # ConceptMap.group.element.target.equivalence of R4
    usagi: str  # column equivalence


EQUIVALENCE_WORDS: dict[Equivalence, Words] = {
    "equivalent": Words("skos:exactMatch", "equivalent", "EQUIVALENT"),
    "broader": Words("skos:broadMatch", "wider", "WIDER"),
    "narrower": Words("skos:narrowMatch", "narrower", "NARROWER"),
    "related": Words("skos:relatedMatch", "relatedto", "INEXACT"),
    # SSSOM has no predicate for it: what is missing is the object.
    "no match": Words("skos:exactMatch", "unmatched", "UNMATCHED"),
}
NO_TERM_FOUND = "sssom:NoTermFound"

# Words of others that ours do not tell apart; used where files are read.
_SSSOM = {words.sssom: ours for ours, words in EQUIVALENCE_WORDS.items() if ours != "no match"} | {
    "skos:closeMatch": "equivalent",
    "owl:sameAs": "equivalent",
    "owl:equivalentClass": "equivalent",
    "rdfs:subClassOf": "broader",
    "rdfs:seeAlso": "related",
    "oboInOwl:hasDbXref": "related",
}
_USAGI = {words.usagi: ours for ours, words in EQUIVALENCE_WORDS.items()} | {
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


BY_ANOTHER_STAGE = "semapv:CompositeMatching"  # of a stage that this medcoder does not have


@cache
def justified(stage: str) -> tuple[str, str | None]:
    """How SSSOM calls what a stage does, and what it measures.

    >>> justified("exact"), justified("horoscope")
    (('semapv:LexicalMatching', None), ('semapv:CompositeMatching', None))
    """
    from medcoder.normalize.stages import STAGES, load_stage  # it brings the encoder

    if stage not in STAGES:
        return BY_ANOTHER_STAGE, None
    loaded = load_stage(stage)
    return loaded.justification, loaded.measure


# What a project says of its own vocabularies, and times


def source_name(project: Project) -> str:
    """What the vocabulary of the local codes is called."""
    meta = project.meta
    named = (meta.get("source_vocabulary") or {}).get("name") or ""
    stem = str(meta.get("file") or "").rsplit("/", 1)[-1].split(".")[0]
    return clean(named or stem) or "local"


def asked(project: Project) -> tuple[str, ...]:
    """Vocabularies that the project was made for; empty: any."""
    return tuple(project.meta.get("vocabularies") or ())


def versions(project: Project) -> dict[str, str]:
    """Versions of the target vocabularies."""
    vocabularies = (project.meta.get("terminology") or {}).get("vocabularies") or {}
    return {name: str(version) for name, version in vocabularies.items() if version}


def project_urn(project: Project) -> str:
    """A name for what was mapped: the same for the same input and terminology."""
    meta = project.meta
    made_of = [meta.get("sha256"), meta.get("column"), meta.get("terminology") or {}]
    return uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made_of, sort_keys=True)).urn


def to_time(when: str) -> datetime:
    """An ISO time, in UTC."""
    time = datetime.fromisoformat(when)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def from_time(time: datetime) -> str:
    """As the project writes times.

    >>> from_time(to_time("2026-01-02T03:04:05.006+01:00"))
    '2026-01-02T02:04:05.006Z'
    """
    plain = time.astimezone(UTC).isoformat(timespec="milliseconds")
    return plain.replace("+00:00", "Z")
