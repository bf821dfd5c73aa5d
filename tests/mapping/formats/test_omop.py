"""source_to_concept_map, and the concept ids of OMOP."""

import pytest

from medcoder.errors import InputError, UsageError
from medcoder.mapping.formats import export
from support.mapped import (
    CONCEPT,
    OmopMachine,
    make,
    read_csv,
    write_concepts,
)


def test_omop_of_a_graph_with_its_ids(omop, tmp_path):
    notes = export(omop, "omop", tmp_path / "x.csv", source_vocabulary="WARD")
    rows = read_csv(tmp_path / "x.csv")
    assert [tuple(rows[0])] == [
        (
            "source_code", "source_concept_id", "source_vocabulary_id", "source_code_description",
            "target_concept_id", "target_vocabulary_id", "valid_start_date", "valid_end_date",
            "invalid_reason",
        )
    ]  # fmt: skip
    assert [
        (row["source_code"], row["target_concept_id"], row["target_vocabulary_id"]) for row in rows
    ] == [
        ("A1", "1000", "SNOMED"), ("A2", "1001", "SNOMED"), ("A3", "1001", "SNOMED"),
        ("A3", "0", "None"), ("A4", "1003", "SNOMED"), ("A5", "1004", "SNOMED"),
        ("'=1+1", "0", "None"), ("NA", "0", "None"), ("A 6|", "1003", "SNOMED"),
    ]  # fmt: skip
    assert {(row["source_concept_id"], row["source_vocabulary_id"]) for row in rows} == {
        ("0", "WARD")
    }
    assert "terms on which nothing is decided, with concept 0: 1" in notes
    assert "targets that are not equivalent to the source, which is not said: 3" in notes


def test_omop_by_a_concept_table(project, tmp_path):
    path = write_concepts(tmp_path)
    notes = export(project, "omop", tmp_path / "x.csv", concepts=path)
    rows = read_csv(tmp_path / "x.csv")
    assert [(row["target_concept_id"], row["target_vocabulary_id"]) for row in rows] == [
        ("12", "HPO"), ("13", "ICD10CM"), ("13", "ICD10CM"), ("0", "None"), ("15", "ICD10CM"),
        ("16", "ICD10CM"), ("0", "None"), ("0", "None"), ("15", "ICD10CM"),
    ]  # fmt: skip
    assert rows[0]["source_vocabulary_id"] == "ward"
    assert "targets that are no standard concepts: in a CDM, follow their 'Maps to': 5" in notes
    export(project, "omop", tmp_path / "y.csv", concepts=tmp_path)  # the folder that holds it
    assert (tmp_path / "y.csv").read_bytes() == (tmp_path / "x.csv").read_bytes()


@pytest.mark.parametrize("name", ["omop", "usagi"])
def test_formats_of_omop_need_its_ids(name, project, tmp_path):
    with pytest.raises(UsageError, match=r"needs integer concept ids of OMOP.*CONCEPT\.csv"):
        export(project, name, tmp_path / "x.csv")
    some = write_concepts(tmp_path, CONCEPT[:3])
    with pytest.raises(
        InputError, match=r"3 targets have no concept in the CONCEPT table: ICD10CM R50\.9, ICD"
    ):
        export(project, name, tmp_path / "x.csv", concepts=some)
    assert not (tmp_path / "x.csv").exists()
    notes = export(project, name, tmp_path / "x.csv", concepts=some, missing_ok=True)
    assert any(note.endswith("Their rows got concept 0") for note in notes)


def test_values_that_are_too_long_for_a_cdm_are_said(tmp_path):
    rows = [("c" * 51, "fever", "1", "", "")]
    with make(tmp_path, rows=rows, machine=OmopMachine()) as made:
        notes = export(made, "omop", tmp_path / "x.csv")
    assert "source_code longer than the 50 characters of a CDM, not cut: 1" in notes
    assert read_csv(tmp_path / "x.csv")[0]["source_code"] == "c" * 51


def test_a_broken_concept_table_is_an_error(project, tmp_path):
    path = write_concepts(tmp_path, [["concept_id", "name"], ["1", "x"]])
    with pytest.raises(InputError, match="no such column: concept_name"):
        export(project, "omop", tmp_path / "x.csv", concepts=path)
