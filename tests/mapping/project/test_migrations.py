"""Project files of older formats: brought up to date with a copy kept, or left as they are."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from medcoder.errors import ArtefactError
from medcoder.mapping import Project
from medcoder.mapping.project import migrations
from medcoder.mapping.project.migrations import format_of, present_format
from medcoder.mapping.project.records import NOTHING_SAID

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def path(tmp_path):
    """A project as version 0.1 made it."""
    return Path(shutil.copy(FIXTURES / "v1" / "ward" / "project.sqlite", tmp_path))


@pytest.fixture
def second(tmp_path):
    """A project of format 2."""
    return Path(shutil.copy(FIXTURES / "v2" / "project.sqlite", tmp_path))


def add_reviewer(base):
    base.execute("ALTER TABLE terms ADD COLUMN reviewer TEXT NOT NULL DEFAULT ''")


def name_reviewer(base):
    base.execute("UPDATE terms SET reviewer = 'ann'")


STEPS = migrations.STEPS


def content(path):
    base = sqlite3.connect(path)
    try:
        tables = ("meta", "rows", "terms", "strings", "candidates", "events")
        return format_of(base), {t: base.execute(f"SELECT * FROM {t}").fetchall() for t in tables}
    finally:
        base.close()


def test_a_project_of_version_1_is_brought_to_the_present_format(path):
    before = content(path)
    assert (before[0], present_format()) == (1, 3)
    with Project.open(path) as project:
        assert len(list(project.mappings())) == len(project) > 0
        first = next(project.terms())
        assert (first.review, first.said, first.together) == ("", NOTHING_SAID, 1)
        assert (first.candidates[0].attributes, first.candidates[0].span) == ((), None)
    version, tables = content(path)
    assert version == 3
    for table, added, confidence in (
        ("strings", ("", "{}", 1, "[]"), 6), ("candidates", ("[]", "[]", None), 8),
    ):  # fmt: skip
        assert tables[table] == [(*row, *added, row[confidence]) for row in before[1][table]]
    assert content(path.with_name("project.sqlite.v1")) == before
    assert columns(path) == columns_of_a_new_one(path)


def test_a_project_of_format_2_is_brought_to_format_3(second):
    before = content(second)
    assert before[0] == 2
    with Project.open(second) as project:
        assert project.counts()["approved"]["terms"] == 7
        assert [event.who for event in project.history()][:4] == ["Ann"] * 4
    version, tables = content(second)
    assert version == 3
    for table, confidence in (("strings", 6), ("candidates", 8)):
        assert tables[table] == [(*row, row[confidence]) for row in before[1][table]]
    assert [row[:-1] for row in tables["events"]] == before[1]["events"]
    assert content(second.with_name("project.sqlite.v2")) == before
    assert columns(second) == columns_of_a_new_one(second)


def test_decisions_of_format_2_that_were_made_in_bulk_are_told_by_their_times(second):
    base = sqlite3.connect(second)
    # As an import has it: in the order of a file, with the times that it says.
    for at, who in (("2026-03-02", "Cid"), ("2026-03-01", "Cid"), ("2026-03-09", "Dee")):
        base.execute(
            "INSERT INTO events (term, action, equivalence, who, at, note, version) "
            "VALUES (14, 'decide', 'no match', ?, ?, '', 1)", [who, f"{at}T00:00:00.000Z"],
        )  # fmt: skip
    base.commit()
    base.close()
    with Project.open(second) as project:
        told = project.base.execute("SELECT who, bulk FROM events WHERE action = 'decide'")
        assert told.fetchall() == [
            *[("Ann", 0)] * 4, *[("Bob", 1)] * 4, ("Ann", 0), *[("Cid", 1)] * 2, ("Dee", 0),
        ]  # fmt: skip


def columns_of_a_new_one(path):
    Project.create(path.parent / "new").close()
    return columns(path.parent / "new" / "project.sqlite")


def columns(path):
    base = sqlite3.connect(path)
    try:
        return {
            table: sorted(base.execute(f"SELECT name, type FROM pragma_table_info('{table}')"))
            for table in ("strings", "candidates", "events")
        }
    finally:
        base.close()


def test_the_present_format_is_opened_as_it_is(path):
    Project.open(path).close()
    path.with_name("project.sqlite.v1").unlink()
    before = content(path)
    assert before[0] == present_format() == 3
    with Project.open(path) as project:
        assert len(project) == len(before[1]["rows"]) > 0
    assert content(path) == before
    assert not list(path.parent.glob("*.v*"))


def test_steps_are_taken_in_their_order_and_a_copy_is_kept(path, monkeypatch):
    Project.open(path).close()
    before = content(path)
    with Project.open(path) as project:
        mappings = list(project.mappings())
    monkeypatch.setattr(migrations, "STEPS", [*STEPS, add_reviewer, name_reviewer])
    for _ in range(2):  # the second time there is nothing to do
        with Project.open(path) as project:
            assert list(project.mappings()) == mappings
    version, tables = content(path)
    assert version == 5
    assert [row[:-1] for row in tables["terms"]] == before[1]["terms"]
    assert {row[-1] for row in tables["terms"]} == {"ann"}
    assert content(path.with_name("project.sqlite.v3")) == before


def test_only_the_steps_that_are_missing_are_taken(path, monkeypatch):
    monkeypatch.setattr(migrations, "STEPS", [add_reviewer])
    Project.open(path).close()
    monkeypatch.setattr(migrations, "STEPS", [add_reviewer, name_reviewer])
    Project.open(path).close()
    assert content(path)[0] == 3
    assert content(path.with_name("project.sqlite.v2"))[0] == 2


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("what is this"), ArtefactError),
        (sqlite3.OperationalError("no such table: terms"), ArtefactError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_step_that_fails_leaves_the_old_file(path, monkeypatch, error, raised):
    before = content(path)

    def failing(base):
        raise error

    monkeypatch.setattr(migrations, "STEPS", [add_reviewer, failing])
    with pytest.raises(raised):
        Project.open(path)
    assert content(path) == before
    assert not list(path.parent.glob("*.v*"))
    monkeypatch.setattr(migrations, "STEPS", STEPS)
    Project.open(path).close()


def test_what_a_failing_step_says(path, monkeypatch):
    monkeypatch.setattr(migrations, "STEPS", [lambda base: base.execute("SELECT * FROM nowhere")])
    with pytest.raises(ArtefactError) as told:
        Project.open(path)
    assert told.value.what == "the project cannot be brought to the format of this medcoder"
    assert told.value.values == "no such table: nowhere"
    assert "Nothing was changed" in str(told.value)


def test_what_is_in_the_journal_is_in_the_copy(path, monkeypatch):
    """Another has the project open, and what it decided is not in the file itself yet."""
    with Project.open(path) as project:
        project.decide(1, None, who="ann")
        decided = list(project.history())
        monkeypatch.setattr(migrations, "STEPS", [*STEPS, add_reviewer])
        Project.open(path).close()
        assert list(project.history()) == decided
    monkeypatch.setattr(migrations, "STEPS", STEPS)
    with Project.open(
        path.with_name("project.sqlite.v3").rename(path.with_name("old.sqlite"))
    ) as old:
        assert list(old.history()) == decided


def test_another_that_was_faster(path, monkeypatch):
    calls = []

    def step(base):
        calls.append(1)
        add_reviewer(base)

    monkeypatch.setattr(migrations, "STEPS", [step])
    real = migrations.is_present

    def slow(base, file):  # between the first look and the lock, another does it
        found = real(base, file)
        if not found and not base.in_transaction and not calls:
            monkeypatch.setattr(migrations, "is_present", real)
            Project.open(file).close()
        return found

    monkeypatch.setattr(migrations, "is_present", slow)
    Project.open(path).close()
    assert calls == [1]
    assert content(path)[0] == 2


def test_a_new_project_has_the_present_format(tmp_path, monkeypatch):
    monkeypatch.setattr(migrations, "STEPS", [add_reviewer])
    Project.create(tmp_path / "new").close()
    assert content(tmp_path / "new" / "project.sqlite")[0] == 2


@pytest.mark.parametrize("version", [0, 4, 99])
def test_a_format_that_is_not_read_is_refused(path, version):
    base = sqlite3.connect(path)
    base.execute(f"PRAGMA user_version = {version}")
    base.close()
    with pytest.raises(ArtefactError, match=f"it has format {version}, formats 1 to 3 are read"):
        Project.open(path)
    assert content(path)[0] == version
