"""SSSOM, written for and read back by its library."""

import warnings

import pytest
from fhir.resources.R4B.conceptmap import ConceptMap

from medcoder.errors import InputError
from medcoder.mapping.formats import export, load
from medcoder.mapping.formats.sssom import COLUMNS, TAKEN_FOR_EMPTY
from support.mapped import (
    MANUAL,
    SSSOM,
    WHEN,
    Graph,
    decide,
    decisions,
    make,
    read_sssom,
    write_lines,
)

with warnings.catch_warnings():  # of pandas, about what sssom calls
    warnings.simplefilter("ignore")
    import sssom.parsers
    import sssom.validators
    from pandas._libs.parsers import STR_NA_VALUES
    from sssom.writers import write_table
    from sssom_schema import MappingSet


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


def test_through_the_library_of_sssom_and_back(tmp_path, fresh):
    path, again = tmp_path / "x.sssom.tsv", tmp_path / "y.sssom.tsv"
    with decide(make(tmp_path / "ward")) as project:
        export(project, "sssom", path)
        expected = decisions(project)
    with warnings.catch_warnings(), again.open("w", encoding="utf-8") as stream:
        warnings.simplefilter("ignore")
        write_table(read_sssom(path), stream)
    taken = load(fresh, "sssom", again, kg=Graph())
    assert (taken.decided, taken.flagged, taken.undecided) == (7, 0, 1)  # "fever" was automatic
    assert (taken.absent, taken.kept) == ([], [])
    assert decisions(fresh) == expected


def test_sssom_without_the_library(tmp_path, fresh):
    with decide(make(tmp_path / "ward")) as project:
        export(project, "sssom", tmp_path / "x.sssom.tsv")
        load(fresh, "sssom", tmp_path / "x.sssom.tsv", kg=Graph())
        assert decisions(fresh) == decisions(project)


def test_a_file_of_others(tmp_path, fresh):
    path = write_lines(
        tmp_path, "x.sssom.tsv",
        "#mapping_set_id: https://example.org/set",
        "#mapping_date: 2024-05-06",
        "#curie_map:",
        "#  i: http://purl.bioontology.org/ontology/ICD10CM/",
        "#  ICD10CM: http://hl7.org/fhir/sid/icd-10-cm/",
        SSSOM + "\tpredicate_modifier\tauthor_label",
        f"x:A1\theart attack\tskos:closeMatch\tICD10CM:X1\t{MANUAL}\t\tEve",
        "x:A2\tfever\tskos:exactMatch\tICD10CM:R50.9\tsemapv:LexicalMatching\t\t",
        f"x:A4\tache\tskos:exactMatch\tICD10CM:R52\t{MANUAL}\tNot\tEve",
        f"x:A5\tpuzzle\tx:likes\tICD10CM:R52\t{MANUAL}\t\tEve",
        f"x:A3\tcold\tskos:narrowMatch\thttp://hl7.org/fhir/sid/icd-10-cm/J00\t{MANUAL}\t\t",
    )  # fmt: skip
    taken = load(fresh, "sssom", path, kg=Graph(), who="them")
    assert (taken.decided, taken.undecided, taken.flagged) == (3, 1, 0)
    first = fresh.mapping(1).decision
    assert (first.concept, first.name, first.who, first.equivalence, first.when) == (
        "X1", "Another thing", "Eve", "equivalent", "2024-05-06T00:00:00.000Z",
    )  # fmt: skip
    cold = fresh.mapping(3).decision
    assert (cold.concept, cold.equivalence, cold.who) == ("J00", "narrower", "them")
    assert fresh.mapping(4).decision.concept == "J00"  # the file does not tell them apart
    assert taken.notes == [
        "1 record left out: it says what is no mapping",
        "1 record left out: its predicate is not one of ours",
    ]
    assert load(fresh, "sssom", path, kg=Graph(), who="them", automatic=True).decided == 1
    assert fresh.mapping(2).decision.who == "them"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "there is no table"),
        (["#a: [", SSSOM], "row 1: the metadata is not YAML"),
        (["#mapping_date: 2026-99-01", SSSOM], "not YAML: month must be in 1..12"),
        ([f"#a: {'1' * 5000}", SSSOM], "row 1: the metadata is not YAML: Exceeds the limit"),
        ([f"#a: {'[' * 3000}", SSSOM], "row 1: the metadata is not YAML: maximum recursion"),
        (["#a: !!timestamp x", SSSOM], "row 1: the metadata is not YAML"),
        (["#- a", SSSOM], "row 1: the metadata is not a list of names and values"),
        (
            ["#a: b", "subject_id\tobject_id"],
            "row 2: no such column: predicate_id, mapping_justificati",
        ),
        (
            ["#a: b", SSSOM, "x:1\ty"],
            "row 3: a wrong number of fields: 2 fields, where the header has 5",
        ),
        (["#a: b", SSSOM, 'x:1\t"y'], "not a table: unexpected end of data"),
        (
            ["#mapping_date: soon", SSSOM, f"x:A1\tache\tskos:exactMatch\tx:1\t{MANUAL}"],
            "row 3: not a date: 'soon'. Write it as 2026-01-31",
        ),
    ],
)
def test_a_file_that_is_no_sssom(lines, message, tmp_path, fresh):
    with pytest.raises(InputError, match=message):
        load(fresh, "sssom", write_lines(tmp_path, "x.tsv", *lines))
