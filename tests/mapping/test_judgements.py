"""Which decisions say whether the machine was right, and what they say."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from medcoder.mapping import Project, export, refresh
from medcoder.mapping.formats import load
from medcoder.mapping.judgements import LEFT_OUT, judgements, looked_at
from medcoder.mapping.project.queue import accept
from support.mapped import make
from support.maps import FakeMapper, mapped
from support.saying import ROWS, Sayer

FIXTURE = Path(__file__).parents[1] / "fixtures" / "v2" / "project.sqlite"


@pytest.fixture
def project(ward, tmp_path):
    with mapped(ward, tmp_path / "out").project() as opened:
        yield opened


@pytest.fixture
def sayings(tmp_path):
    with make(tmp_path, rows=ROWS, machine=Sayer()) as made:
        yield made


def found(project):
    return judgements(project.base)


def test_the_first_candidate_is_right_and_all_else_is_wrong(project):
    project.decide("heart attack", "C1", who="ann")
    project.decide("MI", "C1", who="ann", equivalence="broader")
    project.decide("cold", "C4", who="ann")
    project.decide("cefalea", None, who="ann")
    said = found(project)
    assert said.right.tolist() == [1, 1, 0, 0]
    assert said.confidence.tolist() == said.original.tolist() == [0.999, 0.93, 0.55, 0.97]
    assert len(np.unique(said.string)) == 4
    assert said.left_out == {}
    # Above the threshold are heart attack, cefalea, and fever, which nobody looked at.
    assert looked_at(project.base) == (2, 1)


def test_what_nobody_decided_does_not_count(project):
    said = found(project)
    assert [len(entry) for entry in said[:4]] == [0, 0, 0, 0]
    assert looked_at(project.base) == (0, 0)
    project.decide("cold", "C3", who="ann")
    project.undo("cold", who="ann")
    assert len(found(project).right) == 0


def test_decisions_in_bulk_do_not_count(project):
    assert accept(project, who="ann", threshold=0.9)["terms"] == 4
    assert (len(found(project).right), found(project).left_out) == (0, {"bulk": 4})
    assert looked_at(project.base) == (0, 0)
    # Who decides the same again has looked at it; undoing brings the bulk back.
    project.decide("fever", "C2", who="bob")
    assert (found(project).right.tolist(), found(project).left_out) == ([1], {"bulk": 3})
    project.undo("fever", who="bob")
    assert found(project).left_out == {"bulk": 4}
    project.decide("cold", "C3", who="a program", bulk=True)
    assert found(project).left_out == {"bulk": 5}


def test_decisions_that_are_taken_over_do_not_count(project, ward, tmp_path):
    for text, concept in (("fever", "C2"), ("cold", "C4")):
        project.decide(text, concept, who="ann")
    export(project, "sssom", tmp_path / "x.tsv")
    with mapped(ward, tmp_path / "other").project() as other:
        assert load(other, "sssom", tmp_path / "x.tsv").decided == 2
        assert (len(found(other).right), found(other).left_out) == (0, {"bulk": 2})


def test_decisions_that_are_to_be_looked_at_again(project):
    for text, concept in (("fever", "C2"), ("MI", "C1"), ("cold", "C3"), ("cefalea", None)):
        project.decide(text, concept, who="ann")
    project.decide("heart attack", "C1", who="ann")
    project.flag("heart attack", "see the chart", who="bob")
    answers = {
        "heart attack": [("C1", 0.999)], "fever": [("C2", 0.99)], "mi": [("C3", 0.8), ("C1", 0.1)],
        "cold": [("C3", 0.7)], "cefalea": [("C6", 0.999)],
    }  # fmt: skip
    names = {"C1": "Heart attack", "C2": "Fever", "C3": "Cold, common", "C6": "Cephalalgia"}
    refresh(project, FakeMapper(answers=answers, names=names, version="2"))
    flags = {one.row.text: one.flag.partition(":")[0] for one in project.terms("flagged")}
    assert flags == {
        "heart attack": "see the chart", "MI": "no longer first", "cold": "renamed",
        "cefalea": "new",
    }  # fmt: skip
    # MI is wrong now, cold as right as it was; the other two are in doubt themselves.
    said = found(project)
    assert said.right.tolist() == [0, 1, 1]
    assert said.confidence.tolist() == [0.8, 0.99, 0.7]
    assert said.left_out == {"flagged": 2}


def test_twins_are_right_and_what_the_confidence_is_not_of_does_not_count(sayings):
    sayings.decide("fever", "X1", name="The same fever", who="ann")
    sayings.decide("ache", "R51.9", who="ann")
    sayings.decide("?fever", None, who="ann")
    sayings.decide("fever; ache", "R52", who="ann")
    sayings.decide("rubbish", None, who="ann")
    sayings.decide("no fever", None, who="ann")
    said = found(sayings)
    # "no fever" is no match to the machine too, whose candidate is wrong.
    assert said.right.tolist() == [1, 0, 0]
    assert said.left_out == {"review": 2, "parts": 1}
    assert looked_at(sayings.base) == (2, 1)


def test_strings_without_any_candidate_do_not_count(project):
    project.decide("=cmd()", None, who="ann")
    assert found(project).left_out == {"nothing": 1}
    assert set(LEFT_OUT) >= set(found(project).left_out)


def test_terms_that_share_a_string_are_of_one_group(tmp_path):
    rows = [("A1", "fever", "1", "", ""), ("A2", "fever", "1", "", ""), ("A3", "cold", "1", "", "")]
    with make(tmp_path, rows=rows) as made:
        for row, concept in ((1, "R50.9"), (2, None), (3, "J00")):
            made.decide(row, concept, who="ann")
        said = judgements(made.base)
    assert said.right.tolist() == [1, 0, 1]
    assert said.string[0] == said.string[1] != said.string[2]


def test_a_project_of_format_2_says_as_much(tmp_path):
    with Project.open(shutil.copy(FIXTURE, tmp_path)) as opened:
        said = judgements(opened.base)
    # Ann: cold (flagged), ache, ?fever, a cell; Bob: four at once.
    assert said.right.tolist() == [1]
    assert said.left_out == {"bulk": 4, "flagged": 1, "review": 1, "parts": 1}
