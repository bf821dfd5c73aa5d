"""Cells of several things in the formats of others: a record for each, with its part."""

import json

import openpyxl
import pyarrow.parquet as pq
import pytest

from medcoder.mapping.formats import export, load
from medcoder.mapping.formats.sssom import read
from support.mapped import make, read_csv, write_concepts
from support.saying import ROWS, Sayer


@pytest.fixture
def project(tmp_path):
    with make(tmp_path, rows=ROWS, machine=Sayer()) as made:
        yield made


def test_tables_have_a_row_for_each(project, tmp_path):
    notes = export(project, "csv", tmp_path / "x.csv")
    rows = [row for row in read_csv(tmp_path / "x.csv") if row["term"] == "fever; ache"]
    assert [(row["part"], row["concept"], row["confidence"], row["other_1"]) for row in rows] == [
        ("fever", "R50.9", "0.999", ""),
        ("ache", "R52", "0.997", "R51.9 Headache, unspecified (0.10)"),
    ]
    assert "cells of several things, a row for each, its text in the column part: 2" in notes
    export(project, "xlsx", tmp_path / "x.xlsx")
    header, *cells = openpyxl.load_workbook(tmp_path / "x.xlsx").active.values
    at = header.index("part")
    assert [row[at] for row in cells if row[1] == "fever; ache"] == ["fever", "ache"]
    export(project, "parquet", tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").to_pylist()
    some = [row for row in table if row["term"] == "fever; ache"]
    assert [[match["concept"] for match in row["candidates"]] for row in some] == [
        ["R50.9"], ["R52", "R51.9"],
    ]  # fmt: skip
    assert some[0]["candidates"][0]["span"] == [0, 5]
    assert some[0]["candidates"][0]["twins"] == ["X1"]
    [past] = [row for row in table if row["term"] == "h/o heart attack R"]
    assert past["candidates"][0]["attributes"][1] == {
        "kind": "side", "value": "left", "text": "R",
    }  # fmt: skip
    assert past["said"] == "history (h/o); left (R)"


def test_sssom_has_a_record_for_each(project, tmp_path):
    project.decide("?fever", "R50.9", who="ann")
    notes = export(project, "sssom", tmp_path / "x.tsv")
    _, rows = read(tmp_path / "x.tsv")
    rows = [fields for _, fields in rows]
    some = [row for row in rows if row["subject_label"] == "fever; ache"]
    assert [(row["object_id"], row["confidence"], row["other"]) for row in some] == [
        ("ICD10CM:R50.9", "0.999", "concept=R50.9|part=fever|span=0-5"),
        ("ICD10CM:R52", "0.997", "concept=R52|part=ache|span=7-11"),
    ]
    [past] = [row for row in rows if row["subject_label"] == "h/o heart attack R"]
    assert past["comment"] == "history (h/o); left (R)"
    [decided] = [row for row in rows if row["subject_label"] == "?fever"]
    assert "review=in doubt (?)" in decided["other"]
    assert not decided["comment"]  # the note of the decision
    labels = {row["subject_label"] for row in rows}
    assert "heart attack; cold" not in labels
    assert "no fever" not in labels
    assert any("a record for each" in note for note in notes)


def test_a_part_is_no_decision_on_the_cell(project, tmp_path):
    export(project, "sssom", tmp_path / "x.tsv")
    with make(tmp_path / "other", rows=ROWS, machine=Sayer()) as other:
        taken = load(other, "sssom", tmp_path / "x.tsv", automatic=True)
        decided = {mapping.row.text for mapping in other.terms("approved")}
    assert decided == {"fever", "h/o heart attack R", "ache", "heart attack"}
    assert taken.notes == [
        "3 records left out: it is of a part of a cell, and a decision is of all of it"
    ]


def test_omop_has_a_row_for_each_and_says_what_is_lost(project, tmp_path):
    concepts = write_concepts(tmp_path)
    notes = export(project, "omop", tmp_path / "x.csv", concepts=concepts)
    rows = read_csv(tmp_path / "x.csv")
    of = {text: [row["target_concept_id"] for row in rows if row["source_code_description"] == text]
          for _, text, *_ in ROWS}  # fmt: skip
    assert of["fever; ache"] == ["13", "15"]
    assert of["fever; no fever"] == ["13"]
    assert of["no fever"] == of["heart attack; ?fever"] == ["0"]
    assert any("does not say for which part it is: 1" in note for note in notes)


def test_usagi_has_a_line_for_each(project, tmp_path):
    export(project, "usagi", tmp_path / "x.csv", concepts=write_concepts(tmp_path))
    rows = read_csv(tmp_path / "x.csv")
    some = [row for row in rows if row["sourceName"] == "fever; ache"]
    names = ("conceptId", "mappingStatus", "comment", "sourceAutoAssignedConceptIds")
    assert [[row[name] for name in names] for row in some] == [
        ["13", "AUTO_MAPPED", "part: fever", "13;15;16"],
        ["15", "AUTO_MAPPED", "part: ache", "13;15;16"],
    ]
    by_name = {row["sourceName"]: row for row in rows}
    assert by_name["?fever"]["comment"] == "in doubt (?)"
    assert by_name["?fever"]["mappingStatus"] == "UNCHECKED"
    assert by_name["no fever"]["comment"] == "negated (no)"
    assert by_name["no fever"]["conceptId"] == "0"


def test_fhir_has_a_target_for_each(project, tmp_path):
    export(project, "fhir", tmp_path / "x.json")
    groups = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["group"]
    elements = {element["display"]: element for group in groups for element in group["element"]}
    targets = elements["fever; ache"]["target"]
    assert [(target["code"], target["comment"].split(";")[0]) for target in targets] == [
        ("R50.9", "for the part 'fever'"), ("R52", "for the part 'ache'"),
    ]  # fmt: skip
    assert elements["h/o heart attack R"]["target"][0]["comment"].endswith(
        "not reviewed; history (h/o); left (R)"
    )
