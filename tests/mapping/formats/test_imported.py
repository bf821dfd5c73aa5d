"""Decisions of others into a project: which are taken, which stay, which are flagged."""

import pytest

from medcoder.errors import InputError
from medcoder.mapping.formats import export, format_names, load
from medcoder.mapping.formats.imported import NOT_CHECKED, NOT_FOUND
from medcoder.types import Code
from support.mapped import (
    MANUAL,
    ROWS,
    SSSOM,
    USAGI,
    WHEN,
    Graph,
    OmopMachine,
    decide,
    decisions,
    make,
    write_concepts,
    write_lines,
)


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


def test_unknown_targets_are_kept_and_flagged(tmp_path, fresh):
    path = write_lines(
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
    path = write_lines(
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
    load(
        fresh, "usagi", write_lines(tmp_path, "x.csv", header, line.format("F")), concepts=concepts
    )
    assert fresh.mapping(3).decision is None
    assert fresh.mapping(4).decision.concept == "J00"
    without = write_lines(tmp_path, "y.csv", USAGI, line.replace(",{}", ""))
    assert load(fresh, "usagi", without, concepts=concepts).decided == 1  # and one the same
    assert fresh.mapping(3).decision.concept == "J00"


def test_bytes_that_are_not_utf_8(tmp_path, fresh):
    (tmp_path / "x.csv").write_bytes(b"a\xff")
    for name in format_names("load"):
        with pytest.raises(InputError, match=r"x\.csv, row 1: byte 0xff is not UTF-8"):
            load(fresh, name, tmp_path / "x.csv")
        with pytest.raises(InputError, match="does not exist"):
            load(fresh, name, tmp_path / "none.csv")


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


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_line_ends_inside_quotes_are_line_feeds(tmp_path, fresh, end):
    header = SSSOM + "\tcomment"
    row = f'x:A4\tache\tskos:exactMatch\tICD10CM:R52\t{MANUAL}\t"a\nb"'
    usagi = 'A5,puzzle,1,,0.5,APPROVED,EQUAL,Eve,0,16,Head,Condition,MAPS_TO,"c\nd",,1,'
    for name, lines, number, note in (
        ("sssom", (header, row), 5, "a\nb"),
        ("usagi", (USAGI, usagi), 6, "c\nd"),
    ):
        path = tmp_path / name
        path.write_bytes("".join(f"{line}\n" for line in lines).replace("\n", end).encode())
        assert load(fresh, name, path).decided == 1
        assert fresh.mapping(number).decision.note == note
