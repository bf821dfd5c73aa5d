"""FHIR ConceptMap, read back by its library."""

import json

from fhir.resources.R4B.conceptmap import ConceptMap

from medcoder.mapping.formats import export
from support.mapped import (
    WHEN,
    make,
)


def test_fhir_is_valid_for_its_library(project, tmp_path):
    notes = export(project, "fhir", tmp_path / "x.json")
    made = ConceptMap.model_validate_json((tmp_path / "x.json").read_bytes())
    source = "urn:medcoder:vocabulary:ward"
    assert [(group.source, group.target, group.targetVersion) for group in made.group] == [
        (source, "http://human-phenotype-ontology.org", "2025-01-16"),
        (source, "http://hl7.org/fhir/sid/icd-10-cm", "2026"),
        (source, None, None),
    ]
    found = {
        element.code: (element.display, *_only(element.target))
        for group in made.group
        for element in group.element
    }
    assert found == {
        "A1": ("heart attack", "HP:0001658", "Myocardial infarction", "equivalent"),
        "A2": ("fever", "R50.9", "Fever, unspecified", "equivalent"),
        "A3": ("cold", "R50.9", "Fever, unspecified", "relatedto"),
        "A4": ("ache", "R52", "Pain, unspecified", "wider"),
        "A5": ("puzzle", "R51.9", "Headache, unspecified", "narrower"),
        "=1+1": ("=1+1", None, None, "unmatched"),
        "NA": ("NA", None, None, "unmatched"),
        "A 6|": ('a "b", c\\d', "R52", "Pain, unspecified", "equivalent"),
    }
    assert made.status == "draft"
    assert any("other candidates of 4 terms" in note for note in notes)


def _only(targets):
    [target] = targets
    # The invariant cmd-1 of the standard: narrower ones have a comment.
    assert target.equivalence != "narrower" or target.comment
    return target.code, target.display, target.equivalence


def test_fhir_says_who_decided_and_what_was_automatic(project, tmp_path):
    export(project, "fhir", tmp_path / "x.json")
    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert f"sure; equivalent, decided by Ann, {WHEN}" in text
    assert "mapped automatically with confidence 0.995, not reviewed" in text


def test_fhir_makes_spaces_of_codes_single(tmp_path):
    rows = [("A  1 ", "fever", "1", "", ""), ("", "", "1", "", "")]
    with make(tmp_path, rows=rows) as made:
        made.decide(2, None, who="Ann")
        notes = export(made, "fhir", tmp_path / "x.json")
        more = export(made, "sssom", tmp_path / "x.sssom.tsv")
    read = ConceptMap.model_validate_json((tmp_path / "x.json").read_bytes())
    assert [element.code for element in read.group[0].element] == ["A 1"]
    left_out = "terms with neither text nor code, left out: 1"
    assert left_out in notes
    assert left_out in more


def test_json_of_fhir_is_ordered_by_the_input(omop, tmp_path):
    export(omop, "fhir", tmp_path / "x.json")
    made = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert [element["code"] for element in made["group"][0]["element"]] == [
        "A1", "A2", "A3", "A4", "A5", "A 6|",
    ]  # fmt: skip
