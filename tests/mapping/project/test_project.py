"""The project file: decisions, versions, undo, history, and files that are damaged or in use."""

import multiprocessing
import os
import sqlite3
import threading

import pytest

from medcoder.errors import (
    ArtefactError,
    DiskFull,
    NotFound,
    StaleDecision,
    UnknownName,
    UsageError,
)
from medcoder.mapping import Project, map_table
from medcoder.mapping.project.records import STATUSES, Decision
from medcoder.types import Code
from support.maps import FakeMapper, decide_many

ROWS = """id,text,n,kind
1,heart attack,5,
2,MI,1,
3,cold,2,
4,heart attack,7,
1,heart attack,1,
6,puzzle,3,
7,cold,1,symptom
"""


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    file = folder / "ward.csv"
    file.write_text(ROWS)
    made = map_table(
        file, column="text", code="id", count="n", context={"kind": "type"},
        out=folder / "ward", normalizer=FakeMapper(),
    )  # fmt: skip
    return made.path


@pytest.fixture
def path(original, tmp_path):
    """A copy of the project of ROWS."""
    with sqlite3.connect(original) as base, sqlite3.connect(tmp_path / "project.sqlite") as to:
        base.backup(to)
    base.close()
    to.close()
    return tmp_path / "project.sqlite"


@pytest.fixture
def project(path):
    with Project.open(path.parent) as opened:
        yield opened


def statuses(project):
    return [mapping.status for mapping in project.mappings()]


def test_rows_come_in_order_with_all_they_had(project):
    found = list(project.mappings())
    assert project.header == ("id", "text", "n", "kind")
    assert len(project) == 7
    assert [mapping.row.number for mapping in found] == [1, 2, 3, 4, 5, 6, 7]
    assert [",".join(mapping.row.fields) for mapping in found] == ROWS.splitlines()[1:]
    assert [mapping.row.count for mapping in found] == [5, 1, 2, 7, 1, 3, 1]
    assert found[6].row.context == {"kind": "symptom"}
    assert statuses(project) == ["auto", "review", "review", "auto", "auto", "none", "review"]
    assert found[0].target == ("C1", "Heart attack", (Code("MSH", "D1"), Code("ICD10CM", "I1")))
    assert found[1].target is None
    assert [one.concept for one in found[2].candidates] == ["C3", "C4"]
    assert [one.concept for one in found[6].candidates] == ["C4"]  # only of the type of its row


def test_terms_add_up_what_repeats_them(project):
    found = [(one.row.number, one.row.text, one.row.code, one.row.count) for one in project.terms()]
    assert found == [
        (1, "heart attack", "1", 6), (2, "MI", "2", 1), (3, "cold", "3", 2),
        (4, "heart attack", "4", 7), (6, "puzzle", "6", 3), (7, "cold", "7", 1),
    ]  # fmt: skip
    assert project.counts() == {
        "auto": {"terms": 2, "rows": 3, "count": 13},
        "review": {"terms": 3, "rows": 3, "count": 4},
        "none": {"terms": 1, "rows": 1, "count": 3},
        "approved": {"terms": 0, "rows": 0, "count": 0},
        "flagged": {"terms": 0, "rows": 0, "count": 0},
    }


def test_filters_by_status(project):
    project.decide(2, "C1", who="ann")
    everything = list(project.mappings())
    for status in STATUSES:
        assert list(project.mappings(status)) == [one for one in everything if one.status == status]
    with pytest.raises(UnknownName, match=r"no such status: 'done'\. There are: auto"):
        project.mappings("done")


def test_a_decision_counts_for_all_rows_of_its_term(project):
    made = project.decide(
        5, "C2", who=" ann ", equivalence="broader", note="n", when="2026-01-02T00:00:00Z"
    )
    assert made == Decision(
        concept="C2", name="Fever", codes=(Code("MSH", "D2"), Code("ICD10CM", "I2")),
        equivalence="broader", who="ann", when="2026-01-02T00:00:00Z", note="n", version=1,
    )  # fmt: skip
    found = list(project.mappings())
    assert [one.decision for one in found] == [made, None, None, None, made, None, None]
    assert [one.status for one in found][0::4] == ["approved", "approved"]
    assert found[0].target == ("C2", "Fever", made.codes)
    assert found[0].version == 1


def test_no_match(project):
    made = project.decide("MI", None, who="ann")
    assert (made.concept, made.equivalence) == (None, "no match")
    assert project.mapping("MI").target is None
    assert project.mapping("MI").status == "approved"


def test_what_cannot_be_decided(project):
    with pytest.raises(UsageError, match="either a concept, or the equivalence no match"):
        project.decide(1, "C1", who="ann", equivalence="no match")
    with pytest.raises(UsageError, match="either a concept, or the equivalence no match"):
        project.decide(1, None, who="ann", equivalence="broader")
    with pytest.raises(UsageError, match="no such equivalence: 'wider'"):
        project.decide(1, "C1", who="ann", equivalence="wider")
    with pytest.raises(UsageError, match="who decides"):
        project.decide(1, "C1", who=" ")
    with pytest.raises(NotFound, match="no such row: row 8 of"):
        project.decide(8, "C1", who="ann")
    with pytest.raises(NotFound, match="no row has this text: 'flu'"):
        project.decide("flu", "C1", who="ann")
    with pytest.raises(UsageError, match=r"2 have 'cold'\. Name one by its row: 3, 7"):
        project.decide("cold", "C1", who="ann")
    assert list(project.history()) == []


def test_a_stale_decision_is_refused_with_both(path, project):
    with Project.open(path) as other:
        seen = other.mapping("MI").version
        mine = project.decide("MI", "C1", who="ann", expected_version=seen)
        with pytest.raises(
            StaleDecision, match="you saw version 0 of 'MI', it has version 1, by ann"
        ) as no:
            other.decide("MI", "C3", who="bob", expected_version=seen)
        assert (no.value.expected, no.value.found) == (0, 1)
        assert no.value.theirs == mine
        assert (no.value.mine.concept, no.value.mine.who) == ("C3", "bob")
        with pytest.raises(StaleDecision):
            other.undo("MI", who="bob", expected_version=seen)
        assert other.mapping("MI").decision == mine
        other.decide("MI", "C3", who="bob", expected_version=1)
    assert project.mapping("MI").decision.concept == "C3"


def test_undo_goes_back_step_by_step(project):
    project.decide("MI", "C1", who="ann")
    project.decide("MI", None, who="bob")
    project.decide("puzzle", "C5", who="ann")
    assert project.undo("MI", who="cat").decision.concept == "C1"
    assert project.mapping("MI").decision.who == "ann"
    assert project.mapping("MI").version == 3
    event = project.undo("MI", who="cat", note="wrong")
    assert (event.decision, event.version, event.note) == (None, 4, "wrong")
    assert project.mapping("MI").status == "review"
    with pytest.raises(UsageError, match="there is no decision to undo"):
        project.undo("MI", who="cat")
    assert project.mapping("puzzle").decision.concept == "C5"


def test_undo_of_the_last_decision_of_somebody(project):
    project.decide("MI", "C1", who="ann")
    project.decide("puzzle", "C5", who="ann")
    project.decide(3, "C3", who="bob")
    assert project.undo(who="ann").text == "puzzle"
    assert project.undo(who="ann").text == "MI"
    with pytest.raises(NotFound, match="no decision of this person stands: 'ann'"):
        project.undo(who="ann")
    assert project.mapping(3).status == "approved"


def test_a_decision_is_flagged_and_stays(project):
    with pytest.raises(UsageError, match="no decision to flag"):
        project.flag(3, "looks odd", who="bob")
    project.decide(3, "C3", who="ann", note="a")
    for reason, who in (("", "bob"), ("odd", " ")):
        with pytest.raises(UsageError, match="Give both"):
            project.flag(3, reason, who=who)
    with pytest.raises(StaleDecision) as refused:
        project.flag(3, "looks odd", who="bob", expected_version=0)
    assert refused.value.theirs.who == "ann"
    event = project.flag(3, " looks odd ", who="bob", expected_version=1)
    assert (event.action, event.flag, event.who, event.version) == ("flag", "looks odd", "bob", 2)
    assert project.flag(3, "looks odd", who="cid").version == 2  # it is flagged so already
    mapping = project.mapping(3)
    assert (mapping.status, mapping.flag, mapping.target.concept) == ("flagged", "looks odd", "C3")
    project.decide(3, "C4", who="bob", expected_version=2)
    assert (project.mapping(3).status, project.mapping(3).flag) == ("approved", "")


def test_history_has_all_of_it(project):
    project.decide("MI", "C1", who="ann", note="a")
    project.undo("MI", who="bob")
    project.decide(3, "C3", who="bob", equivalence="related")
    project.decide("MI", "C3", who="ann")
    found = [
        (
            one.action,
            one.who,
            one.text,
            one.code,
            one.version,
            one.decision and one.decision.concept,
        )
        for one in project.history()
    ]
    assert found == [
        ("decide", "ann", "MI", "2", 1, "C1"), ("undo", "bob", "MI", "2", 2, None),
        ("decide", "bob", "cold", "3", 1, "C3"), ("decide", "ann", "MI", "2", 3, "C3"),
    ]  # fmt: skip
    assert [one.version for one in project.history("MI")] == [1, 2, 3]
    assert [one.decision.note for one in project.history(2) if one.decision] == ["a", ""]


def test_how_often_people_agree_with_the_machine(project):
    assert project.agreement() == {"decided": 0, "alike": 0}
    project.decide(1, "C1", who="ann")
    project.decide(4, None, who="ann")
    project.decide("MI", "C1", who="ann")  # would not have been automatic
    assert project.agreement() == {"decided": 2, "alike": 1}


def test_together_or_not_at_all(project):
    with pytest.raises(NotFound), project.transaction():
        project.decide("MI", "C1", who="ann")
        project.decide(99, "C1", who="ann")
    assert list(project.history()) == []
    with project.transaction():
        project.decide("MI", "C1", who="ann")
        project.decide(3, "C3", who="ann")
    assert len(list(project.history())) == 2


def test_reading_sees_the_project_as_it_was(project):
    stream = project.mappings()
    first = next(stream)
    project.decide(7, "C4", who="ann")
    assert [first.status, *(one.status for one in stream)][-1] == "review"
    assert statuses(project)[-1] == "approved"


def test_two_at_once_lose_nothing(path):
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    rows = [1, 2, 3, 6] * 5
    people = [
        spawn.Process(target=decide_many, args=(path, who, rows, answers)) for who in ("ann", "bob")
    ]
    for person in people:
        person.start()
    said = [answers.get(timeout=60) for _ in range(2 * len(rows))]
    for person in people:
        person.join(60)
        assert person.exitcode == 0
    with Project.open(path) as project:
        kept = [(one.row, one.who, one.version) for one in project.history()]
    assert sorted(kept) == sorted(said)
    assert len({(row, version) for row, _, version in kept}) == len(kept)  # none on top of another


def test_a_project_is_whole_as_soon_as_it_is_there(tmp_path):
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = threading.Thread(target=lambda at=folder: Project.create(at).close())
        made.start()
        while not (folder / "project.sqlite").exists():
            pass
        with Project.open(folder) as project:
            assert len(project) == 0 and project.meta == {}
        made.join()
        # Of two that close at once, SQLite may leave its own two files. Nothing else may stay.
        names = {file.name for file in folder.iterdir()}
        assert names - {"project.sqlite-wal", "project.sqlite-shm"} == {"project.sqlite"}


def test_a_project_on_a_disk_without_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    for _ in range(2):  # the second opens what the first has made
        with Project.create(tmp_path) as project:
            assert len(project) == 0
            assert project.base.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_journal_of_a_deleted_project_is_not_read_into_a_new_one(tmp_path):
    file = tmp_path / "project.sqlite"
    old = Project.create(tmp_path)
    old.put(created="long ago")
    journal = (tmp_path / "project.sqlite-wal").read_bytes()  # as a kill leaves it
    old.close()
    file.unlink()
    (tmp_path / "project.sqlite-wal").write_bytes(journal)
    with Project.create(tmp_path) as new:
        assert new.meta == {}


# Files that are not as they should be


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_project_that_is_deleted_while_it_is_opened_stays_so(path, monkeypatch, what):
    plain = sqlite3.connect

    def connect(*rest, **options):
        if what == "file":
            path.unlink()
        else:
            path.parent.rename(f"{path.parent}-gone")
        return plain(*rest, **options)

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(NotFound, match="there is no such project"):
        Project.open(path)
    assert not path.exists()


def test_a_project_that_cannot_be_made_is_not_called_missing(tmp_path, monkeypatch):
    def connect(*rest, **options):
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(ArtefactError, match="unable to open") as found:
        Project.create(tmp_path / "new")
    assert not isinstance(found.value, NotFound)


@pytest.mark.parametrize("name", ["a b", "50% #1?mode=ro", "ü"])
def test_folders_of_any_name(tmp_path, name):
    Project.create(tmp_path / name).close()
    with Project.open(tmp_path / name) as project:
        project.put(rows=0)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_no_project(tmp_path):
    with pytest.raises(
        NotFound, match=r"there is no such project\. Make a project with: medcoder map"
    ):
        Project.open(tmp_path)
    (tmp_path / "project.sqlite").write_bytes(b"not a database, but long enough to be one " * 99)
    with pytest.raises(ArtefactError, match="is damaged"):
        Project.open(tmp_path)
    (tmp_path / "project.sqlite").unlink()
    base = sqlite3.connect(tmp_path / "project.sqlite")
    base.execute("CREATE TABLE t (x)")
    base.commit()
    with pytest.raises(ArtefactError, match="is not a mapping project"):
        Project.open(tmp_path)
    with pytest.raises(ArtefactError, match="is not a mapping project"):
        Project.create(tmp_path)
    base.close()


def test_damage_is_told(path):
    content = bytearray(path.read_bytes())
    content[4096 * 3 :] = b"\xff" * (len(content) - 4096 * 3)
    path.write_bytes(content)
    with (
        pytest.raises(ArtefactError, match=r"damaged|not as a project should be"),
        Project.open(path) as project,
    ):
        project.verify()


def test_a_sound_file_is_not_called_damaged(project):
    project.verify()


def test_a_locked_project_says_so_and_loses_nothing(path):
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Project.open(path, wait=0.1) as project:
        with pytest.raises(ArtefactError, match="in use by another process"):
            project.decide("MI", "C1", who="ann")
        assert project.mapping("MI").decision is None  # reading goes on
        other.execute("ROLLBACK")
        project.decide("MI", "C1", who="ann")
        assert project.mapping("MI").decision.concept == "C1"
    other.close()


def test_a_full_disk_loses_no_decision(path, project):
    project.decide("MI", "C1", who="ann")
    pages = project.base.execute("PRAGMA page_count").fetchone()[0]
    project.base.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DiskFull, match="All that was saved before is kept"):
        for number in range(1000):
            project.decide(3, "C3", who="ann", note=f"{number} " * 500)
    kept = [one.version for one in project.history(3)]
    assert kept == list(range(1, len(kept) + 1))
    project.base.execute("PRAGMA max_page_count = 1000000")
    project.decide(3, "C4", who="bob")
    assert project.mapping(3).decision.version == len(kept) + 1
    assert project.mapping("MI").decision.concept == "C1"
    project.verify()


def test_a_read_only_project_says_so(path):
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode = WAL")
    base.close()
    with Project.open(path) as project:
        project.base.execute("PRAGMA query_only = ON")
        with pytest.raises(ArtefactError, match="the project is read-only"):
            project.decide(1, "C1", who="ann")
