"""Exports of mapping projects, read back by the libraries of their formats."""

import csv
import json
import warnings

import openpyxl
import pyarrow.parquet as pq
import pytest
from fhir.resources.R4B.conceptmap import ConceptMap, ConceptMapGroupElementTarget

from medcoder.errors import InputError, UnknownName, UsageError
from medcoder.mapping.formats import FORMATS, Cells, export
from medcoder.mapping.formats.sssom import COLUMNS, TAKEN_FOR_EMPTY
from medcoder.mapping.formats.systems import (
    EQUIVALENCE_WORDS,
    curie,
    from_sssom,
    from_usagi,
    system_of,
    written_codes,
)
from medcoder.mapping.formats.usagi import read as read_usagi
from medcoder.mapping.project.records import EQUIVALENCES, Target
from medcoder.tables.write import plain
from medcoder.types import Code
from support.mapped import (
    CONCEPT,
    ROWS,
    WHEN,
    OmopMachine,
    decide,
    make,
    read_sssom,
    write_concepts,
)

with warnings.catch_warnings():  # of pandas, about what sssom calls
    warnings.simplefilter("ignore")
    import sssom.parsers
    import sssom.validators
    from pandas._libs.parsers import STR_NA_VALUES
    from sssom_schema import MappingSet


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    with decide(make(tmp_path_factory.mktemp("ward"))) as made:
        yield made


@pytest.fixture(scope="module")
def omop(tmp_path_factory):
    with decide(make(tmp_path_factory.mktemp("omop"), machine=OmopMachine())) as made:
        yield made


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


# The table of equivalences


def test_the_table_says_what_the_target_is_to_the_source():
    # FHIR R4: "wider: the target mapping is wider in meaning than the source concept". SKOS: the
    # object of broadMatch is the broader concept.
    assert {ours: tuple(words) for ours, words in EQUIVALENCE_WORDS.items()} == {
        "equivalent": ("skos:exactMatch", "equivalent", "EQUIVALENT"),
        "broader": ("skos:broadMatch", "wider", "WIDER"),
        "narrower": ("skos:narrowMatch", "narrower", "NARROWER"),
        "related": ("skos:relatedMatch", "relatedto", "INEXACT"),
        "no match": ("skos:exactMatch", "unmatched", "UNMATCHED"),
    }
    assert tuple(EQUIVALENCE_WORDS) == EQUIVALENCES


def test_the_table_read_backwards():
    for ours, words in EQUIVALENCE_WORDS.items():
        found = "sssom:NoTermFound" if ours == "no match" else "HP:0001658"
        assert from_sssom(words.sssom, found) == ours
        assert from_usagi(words.usagi) == ours
    assert from_sssom("skos:closeMatch", "x:1") == "equivalent"
    assert from_sssom("x:unknown", "x:1") is None


def test_fhir_knows_every_word_of_the_table():
    field = ConceptMapGroupElementTarget.model_fields["equivalence"]
    assert {words.fhir for words in EQUIVALENCE_WORDS.values()} <= set(
        field.json_schema_extra["enum_values"]
    )


# The contract of every export


@pytest.mark.parametrize("name", FORMATS)
def test_every_export_writes_one_file_and_says_what_it_leaves_out(name, omop, tmp_path):
    path = tmp_path / f"made{FORMATS.load(name).ending}"
    reports = []
    notes = export(omop, name, path, progress=lambda *report: reports.append(report))
    assert list(tmp_path.iterdir()) == [path]
    assert "the history of decisions is in the project only" in notes
    rows = len(ROWS) if name in ("csv", "xlsx", "parquet") else 9
    assert reports[-1] == ("writing", rows, rows)


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_that_fails_leaves_what_was_there(name, omop, tmp_path):
    path = tmp_path / f"made{FORMATS.load(name).ending}"
    path.write_text("old")

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(omop, name, path, progress=stop)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", FORMATS)
def test_a_project_without_rows_is_written(name, tmp_path):
    with make(tmp_path / "empty", rows=[], machine=OmopMachine()) as empty:
        export(empty, name, tmp_path / f"made{FORMATS.load(name).ending}")
    assert (tmp_path / f"made{FORMATS.load(name).ending}").stat().st_size > 0


def test_names_and_options_are_checked(project, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'sssom'"):
        export(project, "ssom", tmp_path / "x")
    with pytest.raises(
        UsageError, match=r"'sssom': the format has no such option: 'concepts'\. It has: licence"
    ):
        export(project, "sssom", tmp_path / "x", concepts=tmp_path)
    with pytest.raises(UsageError, match="is a folder"):
        export(project, "csv", tmp_path)


# Tables


def test_csv_has_every_row_in_order(project, tmp_path):
    export(project, "csv", tmp_path / "x.csv")
    rows = read_csv(tmp_path / "x.csv")
    fields = [
        tuple(plain(row[name]) for name in ("id", "term", "n", "lang", "unit")) for row in rows
    ]
    assert fields == ROWS
    assert [row["status"] for row in rows] == [
        "approved", "auto", "approved", "review", "approved", "approved", "approved", "auto",
        "approved", "approved",
    ]  # fmt: skip
    assert rows[0]["concept"] == "HP:0001658"
    assert rows[0]["code"] == "HP:0001658"
    assert rows[2]["equivalence"] == "related"
    assert rows[2]["note"] == "'=2+2"
    assert rows[1]["confidence"] == "0.995"
    assert rows[3]["other_1"] == "R50.9 Fever, unspecified (0.30)"
    assert rows[6]["note"] == 'no such "thing",\nreally'


def test_no_cell_of_csv_or_xlsx_is_a_formula(project, tmp_path):
    notes = export(project, "csv", tmp_path / "x.csv")
    text = (tmp_path / "x.csv").read_text(encoding="utf-8")
    assert ",'=1+1," in text
    assert ",=" not in text
    assert notes[-1].endswith("apostrophe before them: 2")
    export(project, "xlsx", tmp_path / "x.xlsx")
    cells = [cell for row in openpyxl.load_workbook(tmp_path / "x.xlsx")["mapping"] for cell in row]
    assert "f" not in {cell.data_type for cell in cells}
    assert "'=1+1" in {cell.value for cell in cells}


def test_xlsx_has_the_rows_of_csv(project, tmp_path):
    export(project, "csv", tmp_path / "x.csv")
    export(project, "xlsx", tmp_path / "x.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "x.xlsx")["mapping"]
    header, *rows = sheet.iter_rows(values_only=True)
    made = [{k: "" if v is None else str(v) for k, v in zip(header, row, strict=True)}
            for row in rows]  # fmt: skip
    assert made == read_csv(tmp_path / "x.csv")


def test_what_a_workbook_cannot_hold_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.tables.xlsx.ROWS", 3)
    monkeypatch.setattr("medcoder.tables.xlsx.LONGEST", 20)
    rows = [("1", "x" * 30, "1", "", ""), ("2", "fever", "1", "", "a\x01b"), ROWS[0]]
    with make(tmp_path, rows=rows) as made:
        notes = export(made, "xlsx", tmp_path / "x.xlsx")
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    assert [sheet.max_row for sheet in book] == [3, 2]
    assert book["mapping"]["B2"].value == "x" * 20
    assert book["mapping"]["E3"].value == "ab"
    assert any("spread over 2 sheets" in note for note in notes)
    assert any("longer than 20 characters: cut" in note for note in notes)
    assert any("control characters" in note for note in notes)


def test_parquet_has_candidates_and_codes(project, tmp_path):
    export(project, "parquet", tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [
        tuple(row[name] for name in ("id", "term", "n", "lang", "unit")) for row in table
    ] == ROWS
    assert table[3]["concept"] == "J00"
    assert [one["concept"] for one in table[3]["candidates"]] == ["J00", "R50.9"]
    assert table[3]["candidates"][1] == {
        "concept": "R50.9", "name": "Fever, unspecified", "term": "cold", "cosine": 0.3,
        "codes": [{"vocabulary": "ICD10CM", "code": "R50.9"}], "score": 0.3, "confidence": 0.3,
        "stage": "ngram",
    }  # fmt: skip
    assert table[0]["codes"] == [{"vocabulary": "HP", "code": "HP:0001658"}]


def test_columns_of_the_input_that_are_called_as_ours_stay(tmp_path):
    header = ("id", "term", "status", "note")
    options = {"count": "", "language": "", "context": {}}
    with make(tmp_path, header=header, rows=[("1", "fever", "s", "n")], **options) as made:
        export(made, "csv", tmp_path / "x.csv")
        export(made, "parquet", tmp_path / "x.parquet")
    [row] = read_csv(tmp_path / "x.csv")
    assert (row["status"], row["note"], row["mapped_status"]) == ("s", "n", "auto")
    assert pq.read_table(tmp_path / "x.parquet").to_pylist()[0]["mapped_status"] == "auto"


@pytest.mark.parametrize("text", ["=1", "'=1", "''=1", "'tis", "-1.5", "-a", "@x", "\tx", "", "'"])
def test_escaped_cells_come_back(text):
    assert plain(Cells()(text)) == text


# SSSOM


def test_sssom_is_valid_for_its_library(project, tmp_path):
    path = tmp_path / "x.sssom.tsv"
    export(project, "sssom", path, licence="https://creativecommons.org/publicdomain/zero/1.0/")
    read = read_sssom(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reports = sssom.validators.validate(read)
        document = sssom.parsers.to_mapping_set_document(read).mapping_set
    assert [report.results for report in reports.values()] == [[]] * len(reports)
    assert isinstance(document, MappingSet)
    assert len(document.mappings) == 8
    assert document.license == "https://creativecommons.org/publicdomain/zero/1.0/"


def test_what_sssom_says(project, tmp_path):
    path = tmp_path / "x.sssom.tsv"
    notes = export(project, "sssom", path)
    read = read_sssom(path)
    by_label = {row["subject_label"]: row for row in read.df.to_dict("records")}
    mi = by_label["heart attack"]
    assert (mi["subject_id"], mi["predicate_id"], mi["object_id"], mi["object_label"]) == (
        "ward:A1", "skos:exactMatch", "HP:0001658", "Myocardial infarction",
    )  # fmt: skip
    assert mi["mapping_justification"] == "semapv:ManualMappingCuration"
    assert (mi["author_label"], mi["mapping_date"], mi["comment"]) == ("Ann", WHEN[:10], "sure")
    assert mi["object_source"] == "http://human-phenotype-ontology.org"
    fever = by_label["fever"]
    assert fever["mapping_justification"] == "semapv:SemanticSimilarityThresholdMatching"
    assert (fever["confidence"], fever["author_label"]) == (0.995, "")
    assert by_label["cold"]["predicate_id"] == "skos:relatedMatch"
    assert by_label["ache"]["predicate_id"] == "skos:broadMatch"
    assert by_label["puzzle"]["predicate_id"] == "skos:narrowMatch"
    assert by_label["'=1+1"]["object_id"] == "sssom:NoTermFound"
    assert (by_label["'=1+1"]["subject_id"], by_label["'=1+1"]["subject_type"]) == (
        "", "rdfs literal",
    )  # fmt: skip
    assert read.converter.expand("HP:0001658") == "http://purl.obolibrary.org/obo/HP_0001658"
    assert read.converter.expand("ward:A1") == "urn:medcoder:vocabulary:ward:A1"
    assert {"mapping_tool": "medcoder", "subject_source": "medcoder:ward"}.items() <= mi.items()
    assert "not in the file, since nothing is decided: 1 to be reviewed" in notes


def test_the_source_vocabulary_names_subjects(tmp_path):
    own = {"name": "SNOMED", "uri": "https://example.org/codes", "version": "7"}
    with make(tmp_path, source_vocabulary=own) as made:
        export(made, "sssom", tmp_path / "x.sssom.tsv", set_id="https://example.org/set")
        export(made, "fhir", tmp_path / "x.json", url="https://example.org/map")
    read = read_sssom(tmp_path / "x.sssom.tsv")
    assert read.metadata["mapping_set_id"] == "https://example.org/set"
    assert set(read.df["subject_id"]) == {"SNOMED_local:A1", "SNOMED_local:A2"}
    assert set(read.df["subject_source_version"]) == {"7"}
    assert read.converter.expand("SNOMED_local:A1") == "https://example.org/codes/A1"
    made = ConceptMap.model_validate_json((tmp_path / "x.json").read_bytes())
    assert made.url == "https://example.org/map"
    assert {group.source for group in made.group} == {"https://example.org/codes"}
    assert {group.sourceVersion for group in made.group} == {"7"}


def test_words_that_pandas_takes_for_empty_are_known():
    assert {*TAKEN_FOR_EMPTY, ""} == STR_NA_VALUES


def test_columns_of_sssom_are_slots_of_its_schema():
    from sssom.constants import _get_sssom_schema_object

    assert set(COLUMNS) <= set(_get_sssom_schema_object().mapping_slots)


# FHIR


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


def test_vocabularies_without_a_uri_get_a_urn(tmp_path):
    with make(tmp_path) as made:
        codes = (Code("Ward 7", "x y"),)
        made.decide(1, "W1", name="Own", codes=codes, who="Ann")
        notes = export(made, "fhir", tmp_path / "x.json")
        more = export(made, "sssom", tmp_path / "x.sssom.tsv")
    read = ConceptMap.model_validate_json((tmp_path / "x.json").read_bytes())
    assert read.group[0].target == "urn:medcoder:vocabulary:Ward%207"
    assert "FHIR has no URI for Ward 7: a urn stands for it" in notes
    assert "no web address is known for Ward 7: a urn stands for it" in more
    row = next(row for row in read_sssom(tmp_path / "x.sssom.tsv").df.to_dict("records")
               if row["subject_label"] == "heart attack")  # fmt: skip
    assert (row["object_id"], row["object_source"]) == ("Ward_7:x%20y", "medcoder:Ward%207")


def test_codes_of_the_vocabularies_asked_for_are_written():
    codes = (Code("MSH", "D1"), Code("ICD10CM", "I21"), Code("SNOMEDCT_US", "22298006"))
    target = Target("C0027051", "Myocardial infarction", codes)
    assert written_codes(target) == [codes[0]]
    assert written_codes(target, ("SNOMED", "ICD10CM")) == [codes[2], codes[1]]
    assert written_codes(Target("C0027051", "x", ())) == [Code("UMLS", "C0027051")]
    assert written_codes(Target("HP:1", "x", ())) == [Code("HP", "HP:1")]
    assert curie(codes[2]) == "SNOMEDCT:22298006"
    assert system_of("HPO") == system_of("HP")


# OMOP and Usagi


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


def test_usagi_has_its_columns(omop, tmp_path):
    export(omop, "usagi", tmp_path / "x.csv")
    lines = (tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == (
        "sourceCode,sourceName,sourceFrequency,sourceAutoAssignedConceptIds,ADD_INFO:language,"
        "ADD_INFO:unit,matchScore,mappingStatus,equivalence,statusSetBy,statusSetOn,conceptId,"
        "conceptName,domainId,mappingType,comment,createdBy,createdOn,assignedReviewer"
    )
    assert len(lines) == 10  # its reader goes by lines, so a note may not have two
    assert lines[1] == (
        "A1,heart attack,3,1000;1003,en,,0.9990,APPROVED,EQUIVALENT,Ann,1767323045006,1000,"
        "Myocardial infarction,,MAPS_TO,sure,Ann,1767323045006,"
    )
    assert lines[9].startswith(r'A 6|,"a \"b\", c\\d",1,,,,0.0000,APPROVED,EQUIVALENT,Ann,')


def test_what_usagi_says(project, tmp_path):
    export(project, "usagi", tmp_path / "x.csv", concepts=write_concepts(tmp_path))
    rows = [row for _, row in read_usagi(tmp_path / "x.csv")]
    assert [
        (row["mappingStatus"], row["equivalence"], row["conceptId"], row["conceptName"])
        for row in rows
    ] == [
        ("APPROVED", "EQUIVALENT", "12", "Myocardial infarction"),
        ("AUTO_MAPPED_TO_1", "UNREVIEWED", "13", "Fever"),
        ("APPROVED", "INEXACT", "13", "Fever"),
        ("UNCHECKED", "UNREVIEWED", "17", "Cold"),  # its first candidate, as Usagi does
        ("APPROVED", "WIDER", "15", "Pain"),
        ("APPROVED", "NARROWER", "16", "Headache"),
        ("APPROVED", "UNMATCHED", "0", "Unmapped"),
        ("APPROVED", "UNMATCHED", "0", "Unmapped"),
        ("APPROVED", "EQUIVALENT", "15", "Pain"),
    ]
    assert rows[0]["domainId"] == "Condition"
    assert rows[1]["sourceFrequency"] == "9"
    assert rows[6]["sourceName"] == "=1+1"


def test_a_broken_concept_table_is_an_error(project, tmp_path):
    path = write_concepts(tmp_path, [["concept_id", "name"], ["1", "x"]])
    with pytest.raises(InputError, match="no such column: concept_name"):
        export(project, "omop", tmp_path / "x.csv", concepts=path)


def test_json_of_fhir_is_ordered_by_the_input(omop, tmp_path):
    export(omop, "fhir", tmp_path / "x.json")
    made = json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))
    assert [element["code"] for element in made["group"][0]["element"]] == [
        "A1", "A2", "A3", "A4", "A5", "A 6|",
    ]  # fmt: skip
