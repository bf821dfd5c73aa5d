"""What a string says, in projects: reasons to look, attributes, twins, cells of several things."""

import json
import sqlite3

import pytest

from medcoder.errors import ArtefactError, UsageError
from medcoder.mapping import Project, map_table, refresh, write_results
from medcoder.mapping.columns import said
from medcoder.mapping.project.queue import accept
from medcoder.types import Attribute
from support.mapped import Machine, make, read_csv
from support.saying import CELLS, ROWS, STRINGS, Sayer


@pytest.fixture
def project(tmp_path):
    with make(tmp_path, rows=ROWS, machine=Sayer(), precision=0.98) as made:
        yield made


def by_text(project):
    return {mapping.row.text: mapping for mapping in project.terms()}


def test_what_a_person_must_look_at_is_never_automatic(project):
    statuses = {text: mapping.status for text, mapping in by_text(project).items()}
    assert statuses == {
        "fever": "auto", "h/o heart attack R": "auto", "?fever": "review", "no fever": "none",
        "rubbish": "none", "cold": "none", "flu, cold": "review", "ache": "auto",
        "heart attack": "auto", "fever; ache": "auto", "fever; no fever": "auto",
        "no fever; no fever": "none", "heart attack; ?fever": "review",
        "heart attack; cold": "review",
    }  # fmt: skip
    counts = {status: count["terms"] for status, count in project.counts().items()}
    assert counts == {"auto": 6, "review": 4, "none": 4, "approved": 0, "flagged": 0}
    assert [m.row.text for m in project.terms("review")] == [
        text for text, status in statuses.items() if status == "review"
    ]
    # It counts neither for the threshold nor for what is expected.
    expected = project.meta["expected"]["terms"]
    assert expected == pytest.approx((0.999 * 2 + 0.998 + 0.997 * 2 + 0.996) / 6)
    project.decide("?fever", "R52", who="ann", name="Pain")
    assert project.agreement() == {"decided": 0, "alike": 0}


def test_what_is_said(project):
    found = by_text(project)
    words = {text: said(mapping) for text, mapping in found.items() if said(mapping)}
    assert words == {
        "h/o heart attack R": "history (h/o); left (R)",
        "no fever": "negated (no)",
        "rubbish": "not a term: a number or a date",
        "fever; no fever": "no fever: negated (no)",
        "no fever; no fever": "no fever: negated (no)",
    }
    assert found["?fever"].review == "in doubt (?)"
    assert found["heart attack; cold"].review == "no match for 'cold'"
    assert found["h/o heart attack R"].said.steps == ("took off 'h/o': history",)
    best = found["fever"].candidates[0]
    assert (best.twins, best.attributes, best.span) == (("X1",), (), None)
    assert found["h/o heart attack R"].candidates[0].attributes == (
        Attribute("history", "", "h/o"), Attribute("side", "left", "R"),
    )  # fmt: skip


def test_the_parts_of_a_cell(project):
    mapping = by_text(project)["fever; ache"]
    assert [(part.text, part.span, part.candidates) for part in mapping.said.parts] == [
        ("fever", (0, 5), 1), ("ache", (7, 11), 2),
    ]  # fmt: skip
    # The best of each part, then the others.
    assert [(match.concept, match.span) for match in mapping.candidates] == [
        ("R50.9", (0, 5)), ("R52", (7, 11)), ("R51.9", (7, 11)),
    ]  # fmt: skip
    assert [target.concept for target in mapping.targets] == ["R50.9", "R52"]
    assert mapping.target == mapping.targets[0]
    assert mapping.confidence == 0.997  # of the least likely
    assert by_text(project)["fever; no fever"].confidence == 0.999
    assert [t.concept for t in by_text(project)["fever; no fever"].targets] == ["R50.9"]
    records = mapping.records()
    assert [(one.part.text, one.target.concept, one.confidence) for one in records] == [
        ("fever", "R50.9", 0.999), ("ache", "R52", 0.997),
    ]  # fmt: skip
    assert [len(one.candidates) for one in records] == [1, 2]
    # A person decides on the cell as a whole.
    project.decide("fever; ache", "R52", who="ann")
    mapping = by_text(project)["fever; ache"]
    assert [target.concept for target in mapping.targets] == ["R52"]
    assert mapping.records() == [mapping]


def test_a_part_that_may_be_several_things_is_looked_at(tmp_path):
    class Namesakes(Sayer):
        def plain(self, text, span=None, query=None):
            answer = super().plain(text, span)
            return answer if text != "ache" else type(answer)(**{**vars(answer), "namesakes": 2})

    with make(tmp_path, rows=ROWS, machine=Namesakes()) as made:
        found = by_text(made)
    assert found["fever; ache"].confidence == 0.997 / 2
    assert found["fever; ache"].status == "review"


def test_results_have_all_parts(project):
    rows = {row["term"]: row for row in read_csv(write_results(project))}
    row = rows["fever; ache"]
    names = ("concept", "name", "code", "confidence", "status", "other_1")
    assert [row[name] for name in names] == [
        "R50.9|R52", "Fever, unspecified|Pain, unspecified", "ICD10CM:R50.9|ICD10CM:R52", "0.997",
        "auto", "R51.9 Headache, unspecified (0.10)",
    ]  # fmt: skip
    assert rows["heart attack; ?fever"]["concept"] == "HP:0001658|R50.9"
    assert rows["heart attack; ?fever"]["review"] == "'?fever': in doubt (?)"
    assert rows["no fever"]["said"] == "negated (no)"
    assert (rows["no fever"]["concept"], rows["no fever"]["status"]) == ("", "none")


def test_bulk_acceptance_leaves_out_what_is_to_be_looked_at_and_split_cells(project):
    found = accept(project, who="ann", threshold=0.1)
    assert found["terms"] == 5
    assert {m.row.text for m in project.terms("approved")} == {
        "fever", "h/o heart attack R", "ache", "heart attack", "fever; no fever",
    }  # fmt: skip


def test_a_hint_says_nothing_of_parts(tmp_path):
    rows = [("A1", "fever; ache", "1", "", "C"), ("A2", "fever", "1", "", "C")]
    machine = Sayer()
    with make(tmp_path, rows=rows, machine=machine, top=1) as made:
        mapping = by_text(made)["fever; ache"]
    assert [match.concept for match in mapping.candidates] == ["R50.9", "R52"]
    assert set(machine.options) == {("any", True), ("any", False)}


def test_settings(project, tmp_path):
    assert (project.meta["split"], project.meta["targets"]) == (True, "any")
    machine = Sayer()
    with make(tmp_path / "whole", rows=ROWS, machine=machine, split=False, targets="leaf") as made:
        assert (made.meta["split"], made.meta["targets"]) == (False, "leaf")
        assert set(machine.options) == {("leaf", False)}
        assert not by_text(made)["fever; ache"].candidates
        machine.options.clear()
        refresh(made, machine)
        assert set(machine.options) == {("leaf", False)}
    with pytest.raises(UsageError, match="its targets are 'any', not 'leaf'"):
        make(tmp_path, rows=ROWS, machine=Sayer(), targets="leaf")
    with pytest.raises(UsageError, match=r"one by one is True, not False.*with --split"):
        make(tmp_path, rows=ROWS, machine=Sayer(), split=False)
    with pytest.raises(UsageError, match="They can be any, leaf, billable or standard"):
        map_table(tmp_path / "ward.csv", column="term", out=tmp_path / "x", targets="leaves",
                  normalizer=Machine())  # fmt: skip


STRANGE = {
    "a list": ("strings", "said", "[]"),
    "no reason": ("strings", "said", '{"reason": 1}'),
    "steps": ("strings", "said", '{"steps": [1]}'),
    "parts": ("strings", "said", '{"parts": [{"text": "x"}]}'),
    "review": ("strings", "review", b"\x00"),
    "together": ("strings", "together", 99),
    "less": ("strings", "together", 0),
    "attributes": ("candidates", "attributes", '[["side", "left"]]'),
    "a kind": ("candidates", "attributes", '[["<b>", "left", "L"]]'),
    "twins": ("candidates", "twins", "[1]"),
    "span": ("candidates", "span", "[5, 1]"),
    "no span": ("candidates", "span", '["a", "b"]'),
    "a blob": ("candidates", "span", b"\xff"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_no_medcoder_wrote_is_refused(project, name):
    table, column, value = STRANGE[name]
    project.base.execute(f"UPDATE {table} SET {column} = ?", [value])
    with pytest.raises(ArtefactError, match="a value that it cannot hold"):
        list(project.terms())


def test_parts_are_checked(project):
    [part] = json.loads(
        project.base.execute("SELECT said FROM strings WHERE text = 'fever; ache'").fetchone()[0]
    )["parts"][:1]
    for wrong in ({"span": [3]}, {"span": [-1, 2]}, {"status": "sure"}, {"confidence": 2},
                  {"candidates": -1}, {"text": None}, {"review": 3}):  # fmt: skip
        value = json.dumps({"parts": [part | wrong]})
        project.base.execute("UPDATE strings SET said = ?", [value])
        with pytest.raises(ArtefactError, match="cannot hold"):
            list(project.terms())


def test_what_a_refresh_changed(project, tmp_path):
    project.decide("ache", None, who="ann")
    strings = STRINGS | {
        "fever": STRINGS["cold"],  # gone: not likely enough; so is the cell with it
        "ache": STRINGS["heart attack"],  # another
        "heart attack": (STRINGS["heart attack"][0], {"review": "in doubt (?)"}),
        "?fever": STRINGS["fever"],  # new
    }
    cells = {text: parts for text, parts in CELLS.items() if text != "fever; no fever"}
    outcome = refresh(project, Sayer(strings, cells, version="2"))
    assert outcome["changed"] == {"automatic": 1, "new": 1, "gone": 4}
    text = (tmp_path / "out" / "changed.tsv").read_text(encoding="utf-8")
    assert outcome["changed_file"] == str(tmp_path / "out" / "changed.tsv")
    header, *rows = [line.split("\t") for line in text.splitlines()]
    assert header == ["row", "text", "change", "was_concept", "was_name", "is_concept", "is_name",
                      "why", "decided"]  # fmt: skip
    assert [row[1:4] + row[5:6] + row[7:] for row in rows] == [
        ["fever", "gone", "R50.9", "", "a confidence of 0.30 is not enough", ""],
        ["?fever", "new", "", "R50.9", "dense", ""],
        ["ache", "automatic", "R52", "HP:0001658", "dense", "no match"],
        ["heart attack", "gone", "HP:0001658", "", "review: in doubt (?)", ""],
        ["fever; ache", "gone", "R50.9|R52", "", "review: no match for 'fever'", ""],
        ["fever; no fever", "gone", "R50.9", "", "nothing is found", ""],
    ]
    again = refresh(project, Sayer(strings, cells, version="2"))
    assert again["changed"] == {"automatic": 0, "new": 0, "gone": 0}


def test_an_interrupted_refresh_compares_with_what_was_before(project, monkeypatch):
    from medcoder.mapping import lookup

    class Stops(Sayer):
        def plain(self, text, span=None, query=None):
            if text == "heart attack":
                raise KeyboardInterrupt
            return super().plain(text, span)

    monkeypatch.setattr(lookup, "_BATCH", 2)
    strings = STRINGS | {"fever": STRINGS["ache"]}
    with pytest.raises(KeyboardInterrupt):
        refresh(project, Stops(strings, {}, version="2"))
    outcome = refresh(project, Sayer(strings, version="3"))
    assert outcome["changed"] == {"automatic": 3, "new": 0, "gone": 0}


def test_a_read_only_project_of_version_1_is_read_in_a_copy(tmp_path, monkeypatch):
    import shutil
    from pathlib import Path

    from medcoder.mapping.project import schema

    fixture = Path(__file__).parents[1] / "fixtures" / "v1" / "ward" / "project.sqlite"
    file = Path(shutil.copy(fixture, tmp_path / "project.sqlite"))
    before = file.read_bytes()
    monkeypatch.setattr(schema, "_may_write", lambda file: file.parent != tmp_path)
    with Project.open(file) as project:
        assert len(list(project.mappings())) == len(project)
        with pytest.raises(ArtefactError, match="read-only"):
            project.decide(1, None, who="ann")
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["project.sqlite"]


def test_a_project_of_version_1_tells_what_a_refresh_changed(tmp_path):
    """Its answers of before are there, and its settings are what that version did."""
    with make(tmp_path, rows=ROWS, machine=Sayer(), split=False) as made:
        path = made.path
        made.base.execute("DELETE FROM meta WHERE key IN ('split', 'targets')")
    base = sqlite3.connect(path)
    for table, column in (("strings", "review"), ("strings", "said"), ("strings", "together"),
                          ("strings", "was"), ("candidates", "attributes"),
                          ("candidates", "twins"), ("candidates", "span"),
                          ("strings", "original"), ("candidates", "original"),
                          ("events", "bulk")):  # fmt: skip
        base.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    base.execute("PRAGMA user_version = 1")
    base.commit()
    base.close()
    with Project.open(path) as project:
        # Nothing was known of reviews then: "?fever" was automatic.
        assert by_text(project)["?fever"].status == "auto"
        machine = Sayer(version="2")
        outcome = refresh(project, machine)
        assert outcome["changed"] == {"automatic": 0, "new": 0, "gone": 1}
        assert set(machine.options) == {("any", False)}
        assert by_text(project)["?fever"].status == "review"
    make(tmp_path, rows=ROWS, machine=Sayer(version="2"), split=False).close()
