"""Decisions from Usagi and SSSOM files into a project, and round trips through real libraries."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.errors import InputError, UnknownName, UsageError
from medcoder.mapping.formats import export, format_names, load
from medcoder.mapping.formats.imported import NOT_CHECKED, NOT_FOUND
from medcoder.mapping.formats.usagi import quoted
from medcoder.mapping.formats.usagi import read as read_usagi
from medcoder.mapping.project.records import Decision
from medcoder.tables.write import plain
from medcoder.types import Code
from support.mapped import (
    ROWS,
    WHEN,
    OmopMachine,
    decide,
    decisions,
    make,
    read_sssom,
    write_concepts,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from sssom.writers import write_table


class Graph:
    """A terminology of two concepts."""

    names = {"R52": "Pain, unspecified", "X1": "Another thing"}  # noqa: RUF012

    def __contains__(self, concept):
        return concept in self.names

    def preferred(self, concept):
        return self.names[concept]

    def codes_of(self, concept, vocabularies=None):
        return [Code("ICD10CM", concept)]

    def find_code(self, vocabulary, code):
        return [code] if vocabulary == "ICD10CM" and code in self.names else []


USAGI = (
    "sourceCode,sourceName,sourceFrequency,sourceAutoAssignedConceptIds,matchScore,mappingStatus,"
    "equivalence,statusSetBy,statusSetOn,conceptId,conceptName,domainId,mappingType,comment,"
    "createdBy,createdOn,assignedReviewer"
)
SSSOM = "subject_id\tsubject_label\tpredicate_id\tobject_id\tmapping_justification"
MANUAL = "semapv:ManualMappingCuration"


def write(folder, name, *lines):
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def fresh(tmp_path):
    with make(tmp_path / "fresh") as project:
        yield project


# Round trips


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


def test_usagi_and_back_by_a_concept_table(tmp_path, fresh):
    concepts = write_concepts(tmp_path)
    with decide(make(tmp_path / "ward")) as project:
        export(project, "usagi", tmp_path / "x.csv", concepts=concepts)
        expected = decisions(project)
    taken = load(fresh, "usagi", tmp_path / "x.csv", concepts=concepts, kg=Graph())
    assert (taken.decided, taken.flagged, taken.undecided) == (7, 0, 2)
    assert decisions(fresh) == expected


def test_usagi_and_back_in_a_graph_of_omop(tmp_path):
    with (
        decide(make(tmp_path / "one", machine=OmopMachine())) as project,
        make(tmp_path / "two", machine=OmopMachine()) as other,
    ):
        export(project, "usagi", tmp_path / "x.csv")
        load(other, "usagi", tmp_path / "x.csv")
        expected, found = decisions(project), decisions(other)
    assert found.pop(10)["flag"] == NOT_CHECKED  # decided for a concept that is no candidate
    assert expected.pop(10)["concept"] == "1003"
    assert found == expected


@pytest.mark.parametrize("name", format_names("load"))
def test_taking_the_same_file_twice_changes_nothing(name, tmp_path):
    with make(tmp_path / "two", machine=OmopMachine()) as other:
        with decide(make(tmp_path / "one", machine=OmopMachine())) as project:
            export(project, name, tmp_path / "x.tsv")
        first = load(other, name, tmp_path / "x.tsv")
        before = list(other.history())
        again = load(other, name, tmp_path / "x.tsv")
        assert (again.decided, again.same) == (0, first.decided)
        assert list(other.history()) == before


@pytest.mark.parametrize("name", format_names("load"))
def test_flags_come_along(name, tmp_path):
    with (
        make(tmp_path / "one", machine=OmopMachine()) as project,
        make(tmp_path / "two", machine=OmopMachine()) as other,
    ):
        project.decide(1, "77", name="Gone", codes=(Code("OMOP", "77"),), who="Ann", note="n")
        export(project, name, tmp_path / "x.tsv")
        load(other, name, tmp_path / "x.tsv")
        found = other.mapping(1)
        assert (found.status, found.flag) == ("flagged", NOT_CHECKED)
        export(other, name, tmp_path / "y.tsv")
        with make(tmp_path / "three", machine=OmopMachine()) as third:
            load(third, name, tmp_path / "y.tsv")
            assert (third.mapping(1).status, third.mapping(1).flag) == ("flagged", NOT_CHECKED)
            assert third.mapping(1).decision.note == "n"


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(texts, min_size=3, max_size=3), min_size=1, max_size=4))
def test_fields_in_the_manner_of_usagi_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("u") / "x.csv"
    header = "sourceCode,sourceName,mappingStatus,conceptId"
    lines = [",".join(map(quoted, ["c", *row])) for row in rows]
    path.write_text("".join(f"{line}\n" for line in [header, *lines]), "utf-8", newline="\n")
    found = [list(fields.values())[1:] for _, fields in read_usagi(path)]
    assert found == [[plain(text) for text in row] for row in rows]


# Usagi


def test_a_file_that_usagi_saved(tmp_path, fresh):
    path = write(
        tmp_path, "saved.csv", USAGI,
        r'A1,heart attack,3,,0.75,APPROVED,EQUAL,"Eve, MD",1700000000123,13,Fever,Condition,'
        r'MAPS_TO,"said \"so\"",<auto>,1700000000000,',
        "A2,fever,5,,0.5,UNCHECKED,UNREVIEWED,,0,13,Fever,Condition,MAPS_TO,,<auto>,1,",
        "A4,ache,2,,0.5,APPROVED,WIDER,,0,15,Pain,Condition,MAPS_TO,,<auto>,1,",
        "A4,ache,2,,0.5,APPROVED,WIDER,,0,16,Head,Condition,MAPS_TO_VALUE,,<auto>,1,",
        "A5,puzzle,1,,0.5,FLAGGED,INEXACT,Eve,1700000000123,16,Head,Condition,MAPS_TO,hm,<auto>,1,",
        "A9,not there,1,,0.5,APPROVED,EQUAL,Eve,0,16,Head,Condition,MAPS_TO,,<auto>,1,",
        "A 6|,translated name,1,,0.5,APPROVED,UNMATCHED,Eve,0,0,Unmapped,,MAPS_TO,,,0,",
    )  # fmt: skip
    taken = load(fresh, "usagi", path, concepts=write_concepts(tmp_path), kg=Graph(), who="team")
    assert (taken.decided, taken.undecided) == (4, 1)
    assert taken.absent == ["row 7: 'not there' (A9)"]
    first = fresh.mapping(1)
    assert first.flag == NOT_FOUND  # the graph of this test has no fever
    assert first.decision == Decision(
        concept="OMOP:13", name="Fever", codes=(Code("OMOP", "13"), Code("ICD10CM", "R50.9")),
        equivalence="equivalent", who="Eve, MD", when="2023-11-14T22:13:20.123Z", note='said "so"',
        version=first.version,
    )  # fmt: skip
    ache = fresh.mapping(5)
    assert (ache.decision.concept, ache.decision.equivalence, ache.decision.who) == (
        "R52", "broader", "team",
    )  # fmt: skip
    assert ache.decision.note == "also 16 Head (MAPS_TO_VALUE)"
    puzzle = fresh.mapping(6)
    assert (puzzle.decision.equivalence, puzzle.flag, puzzle.decision.note) == (
        "related", "flagged in Usagi", "hm",
    )  # fmt: skip
    assert fresh.mapping(10).decision.concept is None
    assert "1 record matched by code, not by text" in taken.notes
    assert any("several targets" in note for note in taken.notes)


def test_an_older_file_without_equivalence(tmp_path, fresh):
    path = write(
        tmp_path, "old.csv",
        "sourceCode,sourceName,sourceFrequency,sourceAutoAssignedConceptIds,matchScore,"
        "mappingStatus,conceptId,comment",
        "A4,ache,2,,0.5,APPROVED,15,",
    )  # fmt: skip
    load(fresh, "usagi", path, concepts=write_concepts(tmp_path))
    found = fresh.mapping(5).decision
    assert (found.concept, found.equivalence, found.who) == ("R52", "equivalent", "Usagi")


def test_unknown_targets_are_kept_and_flagged(tmp_path, fresh):
    path = write(
        tmp_path, "x.csv", USAGI,
        "A1,heart attack,3,,0.7,APPROVED,EQUAL,Eve,0,999,Rare,Condition,MAPS_TO,,,1,",
    )  # fmt: skip
    taken = load(fresh, "usagi", path, kg=Graph())
    found = fresh.mapping(1)
    assert (found.status, found.flag, taken.flagged) == ("flagged", NOT_FOUND, 1)
    assert (found.decision.concept, found.decision.name) == ("OMOP:999", "Rare")
    assert found.decision.codes == (Code("OMOP", "999"),)


def test_decisions_of_the_project_stay_unless_told_otherwise(tmp_path, fresh):
    fresh.decide(5, None, who="Ann")
    path = write(
        tmp_path, "x.csv", USAGI,
        "A4,ache,2,,0.5,APPROVED,WIDER,Eve,0,15,Pain,Condition,MAPS_TO,,,1,",
    )  # fmt: skip
    concepts = write_concepts(tmp_path)
    taken = load(fresh, "usagi", path, concepts=concepts)
    assert taken.kept == ["'ache': no match by Ann stays, the file has R52 by Eve"]
    assert fresh.mapping(5).decision.who == "Ann"
    assert load(fresh, "usagi", path, concepts=concepts, overwrite=True).decided == 1
    assert fresh.mapping(5).decision.who == "Eve"
    assert [event.who for event in fresh.history(5)] == ["Ann", "Eve"]


def test_context_chooses_between_terms_with_one_text(tmp_path, fresh):
    header = USAGI.replace("matchScore", "ADD_INFO:unit,matchScore")
    line = "A3,cold,1,,{},0.5,APPROVED,EQUAL,Eve,0,17,Cold,Condition,MAPS_TO,,,1,"
    concepts = write_concepts(tmp_path)
    load(fresh, "usagi", write(tmp_path, "x.csv", header, line.format("F")), concepts=concepts)
    assert fresh.mapping(3).decision is None
    assert fresh.mapping(4).decision.concept == "J00"
    without = write(tmp_path, "y.csv", USAGI, line.replace(",{}", ""))
    assert load(fresh, "usagi", without, concepts=concepts).decided == 1  # and one the same
    assert fresh.mapping(3).decision.concept == "J00"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "the file is empty"),
        (
            ["a,b"],
            "row 1: no such column: sourceCode, sourceName, mappingStatus, conceptId; there are: a",
        ),
        ([USAGI, "A1,heart"], "row 2: a wrong number of fields: 2 fields, where the header has 17"),
        ([USAGI, 'A1,"heart'], "row 2: a quote is not closed"),
        (
            [USAGI, "A1,x,1,,1,SURE,EQUAL,,0,1,,,,,,0,"],
            "row 2: there is no such mappingStatus: 'SURE'",
        ),
        (
            [USAGI, "A1,x,1,,1,APPROVED,SO,,0,1,,,,,,0,"],
            "row 2: there is no such equivalence: 'SO'",
        ),
        (
            [USAGI, "A1,x,1,,1,APPROVED,,,0,1.5,,,,,,0,"],
            "row 2: conceptId is not a whole number: '1.5'",
        ),
    ],
)
def test_a_file_that_usagi_would_not_read(lines, message, tmp_path, fresh):
    with pytest.raises(InputError, match=message):
        load(fresh, "usagi", write(tmp_path, "x.csv", *lines))
    assert decisions(fresh) == {}


# SSSOM


def test_a_file_of_others(tmp_path, fresh):
    path = write(
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
        load(fresh, "sssom", write(tmp_path, "x.tsv", *lines))


def test_bytes_that_are_not_utf_8(tmp_path, fresh):
    (tmp_path / "x.csv").write_bytes(b"a\xff")
    for name in format_names("load"):
        with pytest.raises(InputError, match=r"x\.csv, row 1: byte 0xff is not UTF-8"):
            load(fresh, name, tmp_path / "x.csv")
        with pytest.raises(InputError, match="does not exist"):
            load(fresh, name, tmp_path / "none.csv")


def test_names_and_options_are_checked(tmp_path, fresh):
    with pytest.raises(UnknownName, match="no import is called 'csv'"):
        load(fresh, "csv", tmp_path / "x")
    with pytest.raises(
        UsageError, match=r"'sssom': the format has no such option: 'concepts'\. It has: automatic"
    ):
        load(fresh, "sssom", tmp_path / "x", concepts=tmp_path)


def test_an_import_is_taken_whole_or_not_at_all(tmp_path, fresh, monkeypatch):
    concepts = write_concepts(tmp_path)
    with decide(make(tmp_path / "ward")) as project:
        export(project, "usagi", tmp_path / "x.csv", concepts=concepts)
    really = fresh.decide
    calls = []

    def failing(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return really(*arguments, **options)

    monkeypatch.setattr(fresh, "decide", failing)
    with pytest.raises(KeyboardInterrupt):
        load(fresh, "usagi", tmp_path / "x.csv", concepts=concepts)
    assert decisions(fresh) == {}
    assert len(ROWS) == len(fresh)
    assert WHEN not in {event.when for event in fresh.history()}
