"""The file of Usagi, written and read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.errors import InputError
from medcoder.mapping.formats import export, load
from medcoder.mapping.formats.imported import NOT_CHECKED, NOT_FOUND
from medcoder.mapping.formats.usagi import quoted
from medcoder.mapping.formats.usagi import read as read_usagi
from medcoder.mapping.project.records import Decision
from medcoder.tables.write import plain
from medcoder.types import Code
from support.mapped import (
    USAGI,
    Graph,
    OmopMachine,
    decide,
    decisions,
    make,
    write_concepts,
    write_lines,
)


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


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(texts, min_size=3, max_size=3), min_size=1, max_size=4))
def test_fields_in_the_manner_of_usagi_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("u") / "x.csv"
    header = "sourceCode,sourceName,mappingStatus,conceptId"
    lines = [",".join(map(quoted, ["c", *row])) for row in rows]
    path.write_text("".join(f"{line}\n" for line in [header, *lines]), "utf-8", newline="\n")
    found = [list(fields.values())[1:] for _, fields in read_usagi(path)]
    assert found == [[plain(text) for text in row] for row in rows]


def test_a_file_that_usagi_saved(tmp_path, fresh):
    path = write_lines(
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
    path = write_lines(
        tmp_path, "old.csv",
        "sourceCode,sourceName,sourceFrequency,sourceAutoAssignedConceptIds,matchScore,"
        "mappingStatus,conceptId,comment",
        "A4,ache,2,,0.5,APPROVED,15,",
    )  # fmt: skip
    load(fresh, "usagi", path, concepts=write_concepts(tmp_path))
    found = fresh.mapping(5).decision
    assert (found.concept, found.equivalence, found.who) == ("R52", "equivalent", "Usagi")


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
        load(fresh, "usagi", write_lines(tmp_path, "x.csv", *lines))
    assert decisions(fresh) == {}
