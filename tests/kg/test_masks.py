"""Which concepts a restriction keeps: targets, headings, vocabularies without terms."""

import numpy as np
import pytest

from medcoder.errors import UnknownName, UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.masks import (
    concepts_of_targets,
    concepts_of_vocabularies,
    headings,
    named_terms,
)
from medcoder.types import Code
from support.memory import MemorySource

NAMES = {
    "A00-A09": "Block",
    "A00": "Cholera",
    "A00.0": "Cholera by the first",
    "A01": "Fracture",
    "A01.XXXA": "Fracture, initial encounter",
    "A01.XXXQ": "Fracture, not to be billed",
}
TERMS = [(code, name, "en", "ICD10CM", code, "PT", 0) for code, name in NAMES.items()]
ABOVE = {"A00": "A00-A09", "A00.0": "A00", "A01": "A00-A09", "A01.XXXA": "A01", "A01.XXXQ": "A01"}
FLAGS = [
    ("A00.0", "billable"),
    ("A01.XXXA", "billable"),
    ("A01.XXXA", "extension"),
    ("A01.XXXQ", "extension"),
]


def graph(path, relation="is_a", **parts):
    edges = [(child, relation, parent) for child, parent in ABOVE.items()]
    if relation in ("Subsumes", "PAR|inverse_isa"):
        edges = [(parent, label, child) for child, label, parent in edges]
    rows = {"terms": TERMS, "flags": FLAGS, "edges": edges} | parts
    build_kg([MemorySource(**rows)], path)
    return KG.open(path)


def kept(kg, mask):
    return kg.ids(np.flatnonzero(mask))


@pytest.mark.parametrize(
    "relation", ["is_a", "Is a", "CHD|isa", "RN|isa", "Subsumes", "PAR|inverse_isa"]
)
def test_leaves_have_nothing_below_them_but_extensions(tmp_path, relation):
    kg = graph(tmp_path / "kg", relation)
    # An extension is one only if it may be billed.
    assert kept(kg, concepts_of_targets(kg, "leaf")) == ["A00.0", "A01", "A01.XXXA"]


def test_other_relations_make_no_parent(tmp_path):
    kg = graph(tmp_path / "kg", "part_of")
    assert "A00" in kept(kg, concepts_of_targets(kg, "leaf"))


def test_billable_codes_are_not_those_whose_extensions_are(tmp_path):
    kg = graph(tmp_path / "kg")
    assert kept(kg, concepts_of_targets(kg, "billable")) == ["A00.0", "A01.XXXA"]


def test_standard_concepts_and_all(toy_kg):
    assert kept(toy_kg, concepts_of_targets(toy_kg, "standard")) == ["C0012634", "HP:0000057"]
    assert concepts_of_targets(toy_kg, "any").all()


def test_a_graph_without_the_flag(tmp_path):
    kg = graph(tmp_path / "kg")
    with pytest.raises(UsageError, match="does not say which concepts are standard"):
        concepts_of_targets(kg, "standard")


def test_an_unknown_target(toy_kg):
    with pytest.raises(UnknownName, match=r"'leaves'.*There are: any, leaf, billable, standard"):
        concepts_of_targets(toy_kg, "leaves")


def test_headings(tmp_path):
    kg = graph(tmp_path / "kg")
    assert kept(kg, headings(kg)) == ["A00-A09"]


def test_a_vocabulary_of_cross_references_alone(tmp_path):
    xrefs = [
        ("A00", "SNOMEDCT_US", "63650001", "xref"),
        ("A00", "HP", "HP:1", "xref"),
        ("A01", "SNOMED_CT", "125605004", "xref"),
    ]
    terms = [*TERMS, ("HP:2", "Fever", "en", "HP", "HP:2", "name", 0)]
    kg = graph(tmp_path / "kg", terms=terms, xrefs=xrefs)
    assert kept(kg, concepts_of_vocabularies(kg, ["SNOMEDCT_US"])) == ["A00", "A01"]
    assert kg.codes_of("A00", ["snomed"]) == [Code("SNOMEDCT_US", "63650001")]
    # HP has terms of its own: what refers to it is not in it.
    assert kept(kg, concepts_of_vocabularies(kg, ["HP"])) == ["HP:2"]
    assert kg.codes_of("A00", ["HP"]) == []
    assert kept(kg, concepts_of_vocabularies(kg, ["HP", "SNOMED"])) == ["A00", "A01", "HP:2"]
    assert kg.codes_of("A00") == [Code("ICD10CM", "A00")]
    with pytest.raises(UnknownName, match="no vocabulary 'LOINC'"):
        concepts_of_vocabularies(kg, ["LOINC"])


def test_named_terms_are_those_of_sources(tmp_path):
    terms = [("J18.9", "Pneumonia, unspecified", "en", "ICD10CM", "J18.9", "PT", 0)]
    terms += [("J18.9", "lung fever", "en", "ICD10CM", "J18.9", "includes", 1)]
    kg = graph(tmp_path / "kg", terms=terms, flags=[], edges=[])
    assert [term.text for term in kg.terms_of("J18.9")] == [
        "Pneumonia, unspecified",
        "lung fever",
        "Pneumonia",
    ]
    assert named_terms(kg).tolist() == [True, False, False]
