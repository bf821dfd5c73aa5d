"""A project and a changing index: refresh and learned terms."""

import pyarrow as pa
import pytest

from medcoder import Normalizer
from medcoder.errors import UsageError
from medcoder.mapping import Project, lookup, map_table, refresh
from medcoder.mapping.project.decisions import UNCHECKED
from medcoder.mapping.refresh import learn
from support.maps import ANSWERS, NAMES, FakeMapper, Stops, mapped


@pytest.fixture
def reviewed(ward, tmp_path):
    mapped(ward, tmp_path / "out")
    with Project.open(tmp_path / "out") as project:
        project.decide("heart attack", "C1", who="ann")
        project.decide("MI", "C1", who="ann", equivalence="broader")
        project.decide("fever", "C2", who="bob")
        project.decide("cold", "C4", who="bob")  # never was the first
        project.decide("cefalea", None, who="bob")
        project.decide("puzzle", None, who="bob")
        yield project


CHANGED = {
    "heart attack": [("C1", 0.99)],
    "mi": [("C3", 0.8), ("C1", 0.2)],
    "cold": [("C3", 0.9)],
    "cefalea": [("C6", 0.999)],
    "puzzle": [("C5", 0.07)],
}


def test_refresh_keeps_decisions_and_flags_them(reviewed):
    before = {one.row.text: one.decision for one in reviewed.terms() if one.decision}
    names = {key: name for key, name in NAMES.items() if key != "C2"} | {"C6": "Cephalalgia"}
    names["C4"] = "Chill"
    found = refresh(reviewed, FakeMapper(answers=CHANGED, names=names, version="2"))
    assert found["decisions"] == 6
    assert found["flagged"] == {"gone": 1, "renamed": 1, "no longer first": 1, "new": 1}
    flags = {one.row.text: one.flag for one in reviewed.terms("flagged")}
    assert flags == {
        "fever": "gone: C2 (Fever) is not in the terminology any more",
        "cold": "renamed: C4 was 'Cold sensation' and is 'Chill' now",
        "MI": "no longer first: C3 (Common cold) is before C1 (Heart attack)",
        "cefalea": "new: C6 (Cephalalgia) is found now with a confidence of 1.00",
    }
    after = {one.row.text: one.decision for one in reviewed.terms() if one.decision}
    for text, made in before.items():
        same = {name: value for name, value in vars(made).items() if name != "version"}
        assert {name: vars(after[text])[name] for name in same} == same
    assert reviewed.meta["terminology"]["vocabularies"]["MSH"] == "2"
    assert [one.action for one in reviewed.history("MI")] == ["decide", "flag"]
    # Once more changes nothing.
    again = refresh(reviewed, FakeMapper(answers=CHANGED, names=names, version="2"))
    assert len(list(reviewed.history("MI"))) == 2
    assert again["flagged"]["gone"] == 1


def test_what_undo_brings_back_from_before_a_refresh_is_flagged(reviewed):
    reviewed.decide("MI", "C5", who="cat")
    refresh(reviewed, FakeMapper(version="2"))
    assert reviewed.mapping("MI").status == "approved"
    reviewed.undo("MI", who="cat")
    assert (reviewed.mapping("MI").status, reviewed.mapping("MI").flag) == ("flagged", UNCHECKED)


def test_a_refresh_that_was_broken_off_goes_on(reviewed, ward, tmp_path, monkeypatch):
    monkeypatch.setattr(lookup, "_BATCH", 2)
    stops = Stops(4)
    stops.version = "2"
    with pytest.raises(KeyboardInterrupt):
        refresh(reviewed, stops)
    assert not reviewed.meta["complete"]
    with pytest.raises(UsageError, match="Go on with it first: medcoder map refresh"):
        mapped(ward, tmp_path / "out")
    again = FakeMapper(version="2")
    refresh(reviewed, again)
    assert len(again.asked) == 8 - 4
    assert reviewed.meta["complete"]
    # One broken off with a third index: compared with the last that came to its end.
    stops = Stops(4)
    stops.version, stops.answers = "3", ANSWERS | {"mi": [("C3", 0.8)], "heart attack": []}
    with pytest.raises(KeyboardInterrupt):
        refresh(reviewed, stops)
    answers = ANSWERS | {"mi": [("C5", 0.8)], "heart attack": [("C3", 0.8)]}
    found = refresh(reviewed, FakeMapper(answers=answers, version="4"))
    assert found["flagged"]["no longer first"] == 2


def test_refresh_before_the_end_of_reading(ward, tmp_path):
    def stop(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mapped(ward, tmp_path / "out", progress=stop)
    with (
        Project.open(tmp_path / "out") as project,
        pytest.raises(UsageError, match="not read to its end"),
    ):
        project.put(read=False)
        refresh(project, FakeMapper())


def test_a_flag_is_lifted_by_a_decision_and_comes_back_by_undoing_it(reviewed):
    refresh(reviewed, FakeMapper(answers=CHANGED | {"fever": [("C2", 1.0)]}, names=NAMES | {
        "C6": "x"}, version="2"))  # fmt: skip
    assert reviewed.mapping("MI").status == "flagged"
    reviewed.decide("MI", "C3", who="cat", expected_version=2)
    assert (reviewed.mapping("MI").status, reviewed.mapping("MI").flag) == ("approved", "")
    reviewed.undo("MI", who="cat")
    assert reviewed.mapping("MI").status == "flagged"
    assert reviewed.mapping("MI").decision.concept == "C1"
    reviewed.undo("MI", who="cat")
    assert reviewed.mapping("MI").status == "review"


def test_an_index_and_learned_synonyms(many_index, tmp_path):
    normalizer = Normalizer.load(many_index, terms=tmp_path / "own.tsv")
    texts = ["heart attack", "Cold", "ticker trouble", "zzz qqq", "cold"]
    source = pa.table({"text": texts, "v": ["", "ICD-10-CM", "", "", "NOPE"]})
    made = map_table(
        source, column="text", context={"v": "vocabulary"}, out=tmp_path / "out",
        normalizer=normalizer,
    )  # fmt: skip
    with made.project() as project:
        found = list(project.mappings())
        for mapping, only in zip(found, [None, ["ICD10CM"], None, None, None], strict=True):
            answer = normalizer.normalize(mapping.row.text, vocabularies=only)
            assert [one.concept for one in mapping.candidates] == [
                one.concept for one in answer.candidates
            ]
            share = answer.confidence / answer.namesakes
            assert mapping.confidence == pytest.approx(share)
            assert (mapping.status == "none") == (not answer.matches)
        assert project.meta["unknown_context"] == {"v": {"NOPE": 1}}
        assert project.meta["terminology"]["fingerprint"] == normalizer.kg.fingerprint
        project.decide("ticker trouble", "C003", who="ann")
        project.decide("zzz qqq", "C004", who="ann", equivalence="broader")
        project.decide(1, found[0].candidates[0].concept, who="ann")
        project.decide(2, "C900", who="ann")
        project.decide(5, "C901", who="ann")
        counts = learn(project, normalizer.kg, tmp_path / "own.tsv")
        assert counts == {"added": 1, "known": 1, "ambiguous": 1, "lost": 0}
        assert learn(project, normalizer.kg, tmp_path / "own.tsv")["added"] == 0
        learned = Normalizer.load(many_index, terms=tmp_path / "own.tsv")
        best = learned.normalize("Ticker trouble!").candidates[0]
        assert (best.concept, best.vocabulary) == ("C003", "local")
        with pytest.raises(UsageError, match="terminology or your own terms have changed"):
            map_table(
                source, column="text", context={"v": "vocabulary"}, out=tmp_path / "out",
                normalizer=learned,
            )  # fmt: skip
        refresh(project, learned)
        assert project.mapping("ticker trouble").candidates[0].concept == "C003"
