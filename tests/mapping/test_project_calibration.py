"""Confidences of a project are fitted anew on its decisions, and go back exactly."""

import json
import shutil
import sqlite3
import subprocess
import sys
import threading

import pyarrow as pa
import pytest

from medcoder.errors import ArtefactError, UsageError
from medcoder.mapping import Project, calibrate, export, refresh, undo_calibration, write_results
from medcoder.mapping import project_calibration as calibration
from medcoder.mapping.auto_threshold import auto_threshold
from medcoder.mapping.project_table import is_old
from medcoder.mapping.recalibration import Recalibration
from support.judged import (
    RECALIBRATION,
    answers,
    confidences,
    decide,
    is_right,
    overconfident,
    undecided,
)
from support.mapped import make, read_csv
from support.maps import FakeMapper, Stops, mapped
from support.saying import ROWS, Sayer
from support.small_disk import NoNamespaces, small_disk


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    with overconfident(folder / "out", 300, precision=0.8) as project:
        return project.path


@pytest.fixture
def project(original, tmp_path):
    """A project of 600 terms, half of them decided, whose machine is far too sure."""
    with sqlite3.connect(original) as base, sqlite3.connect(tmp_path / "project.sqlite") as to:
        base.backup(to)
    base.close()
    to.close()
    with Project.open(tmp_path) as opened:
        yield opened


def kept(project):
    """All that is stored, but for the meta data and the originals."""
    tables = ("scopes", "strings", "candidates", "terms", "rows", "events")
    return {
        table: project.base.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        for table in tables
    }


def promised(project):
    meta = project.meta
    return {name: meta[name] for name in ("precision", "threshold", "expected")}


def by_term(project):
    return {one.row.number: one for one in project.terms()}


# What is not enough


def untouched(project, outcome):
    before = project.base.execute("SELECT count(*) FROM strings WHERE confidence != original")
    assert before.fetchone() == (0,)
    assert not project.meta.get("recalibrations")
    assert (outcome["changed"], outcome["gain"]) == (False, False)
    assert outcome["threshold"] is outcome["automatic"] is outcome["recalibration"] is None
    return outcome["reason"]


def test_too_few_decisions_change_nothing(tmp_path):
    sure = confidences(250)
    with decide(undecided(tmp_path / "out", sure), is_right(sure[:199], -2, 1)) as project:
        before = kept(project), project.meta
        outcome = calibrate(project, who="ann")
        assert untouched(project, outcome) == "too few decisions count: 199, and 200 are needed"
        assert outcome["decisions"]["counted"] == 199
        assert (kept(project), project.meta) == before
        project.decide(200, "C2", who="ann", bulk=True)
        outcome = calibrate(project, who="ann")
        assert outcome["decisions"]["left_out"] == {"bulk": 1}
        assert untouched(project, outcome) == "too few decisions count: 199, and 200 are needed"
        project.decide(200, "C2", who="ann")
        assert calibrate(project, who="ann")["changed"]


@pytest.mark.parametrize(("right", "word"), [(True, "right"), (False, "wrong")])
def test_decisions_of_one_kind_change_nothing(tmp_path, right, word):
    with decide(undecided(tmp_path / "out", confidences(220)), [right] * 220) as project:
        reason = untouched(project, calibrate(project, who="ann"))
    assert reason.startswith(f"all 220 decisions that count found the first candidate {word}")


def test_without_a_gain_nothing_changes(tmp_path):
    sure = confidences(300)
    with decide(undecided(tmp_path / "out", sure), is_right(sure, 0, 1)) as project:
        before = kept(project), project.meta
        outcome = calibrate(project, who="ann")
        reason = untouched(project, outcome)
        assert (kept(project), project.meta) == before
    loss, error = outcome["held_out"]["log_loss"], outcome["held_out"]["calibration_error"]
    assert reason.startswith("a fit is no gain that can be told from chance: on held-out decisions")
    assert f"{loss['before']:.4f} to {loss['after']:.4f}" in reason
    assert f"{100 * error['before']:.1f}% to {100 * error['after']:.1f}%" in reason


# What changes


def test_confidences_and_threshold_change_and_decisions_stay(project):
    before, terms = kept(project), by_term(project)
    decided = [one.decision for one in terms.values()]
    outcome = calibrate(project, who=" ann ")
    assert (outcome["changed"], outcome["gain"], outcome["reason"]) == (True, True, "")
    counts = outcome["decisions"]
    right = sum(one.decision.concept == "C1" for one in terms.values() if one.decision)
    assert counts == {"counted": 300, "right": right, "left_out": {}}
    for figures in outcome["held_out"].values():
        assert figures["after"] < figures["before"]
    made = Recalibration(**outcome["recalibration"])
    assert made.intercept < -0.5
    after = by_term(project)
    assert [one.decision for one in after.values()] == decided
    for number, mapping in after.items():
        was = terms[number].candidates
        assert [one.concept for one in mapping.candidates] == [one.concept for one in was]
        assert [one.confidence for one in mapping.candidates] == [
            made.applied(one.confidence) for one in was
        ]
    now = kept(project)
    assert [now[name] == before[name] for name in ("terms", "rows", "events")] == [True] * 3
    assert 0.5 < outcome["threshold"]["before"] < outcome["threshold"]["after"] < 1
    assert promised(project) == auto_threshold(project, 0.8)
    assert outcome["threshold"]["after"] == project.meta["threshold"]


def test_how_many_terms_become_automatic_or_go_to_review(project):
    before = {one.row.number for one in project.terms("auto")}
    outcome = calibrate(project, who="ann")
    after = {one.row.number for one in project.terms("auto")}
    assert outcome["go_to_review"]["terms"] == len(before - after) > 10
    assert outcome["become_automatic"]["terms"] == len(after - before) == 0
    assert outcome["automatic"]["terms"] == len(after) > 0
    # The other way: a machine that is less sure than it should be.
    outcome = undo_calibration(project)
    assert outcome["become_automatic"]["terms"] == len(before - after)
    assert outcome["automatic"]["rows"] == len(before)


def test_an_unsure_machine_gets_surer(tmp_path):
    sure = confidences(600, 0.05, 0.95)
    sure = sure[::2] + sure[1::2]
    with undecided(tmp_path / "out", sure, precision=0.9) as project:
        decide(project, is_right(sure[:300], 1.5, 1))
        assert project.meta["threshold"] is not None
        before = project.counts()["auto"]["terms"]
        outcome = calibrate(project, who="ann")
        after = project.counts()["auto"]["terms"]
    assert outcome["become_automatic"]["terms"] == after - before > 0
    assert outcome["threshold"]["after"] != outcome["threshold"]["before"]


def test_what_is_kept_of_it(project):
    outcome = calibrate(project, who="ann")
    [made] = project.meta["recalibrations"]
    assert {"intercept": made["intercept"], "slope": made["slope"]} == outcome["recalibration"]
    assert (made["who"], made["decisions"]) == ("ann", 300)
    for name in ("log_loss", "calibration_error"):
        assert made[name] == [outcome["held_out"][name][end] for end in ("before", "after")]
    assert made["threshold"] == [outcome["threshold"][end] for end in ("before", "after")]


def test_a_preview_says_the_same_and_changes_nothing(project):
    before = kept(project), project.meta
    said = calibrate(project, who="ann", dry_run=True)
    assert (kept(project), project.meta) == before
    assert (said["changed"], said["gain"]) == (False, True)
    assert calibrate(project, who="ann") == said | {"changed": True}
    standing = kept(project), project.meta
    said = undo_calibration(project, dry_run=True)
    assert (kept(project), project.meta) == standing
    assert undo_calibration(project) == said | {"changed": True}
    assert kept(project) == before[0]


def test_a_second_calibration_needs_a_gain_of_its_own(project):
    calibrate(project, who="ann")
    again = calibrate(project, who="ann")
    assert (again["changed"], len(project.meta["recalibrations"])) == (False, 1)
    assert again["held_out"]["calibration_error"]["before"] < 0.1


# And back


def test_undoing_goes_back_exactly(project):
    before, figures = kept(project), promised(project)
    calibrate(project, who="ann")
    assert kept(project)["strings"] != before["strings"]
    outcome = undo_calibration(project)
    assert (outcome["changed"], outcome["recalibration"]) == (True, None)
    assert (kept(project), promised(project)) == (before, figures)
    with pytest.raises(UsageError, match="no calibration of the project stands"):
        undo_calibration(project)


def test_undoing_goes_back_one_by_one(project, monkeypatch):
    machine = kept(project)
    calibrate(project, who="ann")
    first = kept(project), promised(project)
    # Somebody decides otherwise: the machine was right far more often than it was sure.
    with project.transaction():
        for row in range(1, 301):
            project.decide(row, "C1" if row % 10 else None, who="bob")
    events = kept(project)["events"]
    again = calibrate(project, who="bob")
    assert again["changed"]
    assert [made["who"] for made in project.meta["recalibrations"]] == ["ann", "bob"]
    outcome = undo_calibration(project)
    assert outcome["recalibration"] == {
        name: project.meta["recalibrations"][-1][name] for name in ("intercept", "slope")
    }
    for table in ("strings", "candidates"):
        assert kept(project)[table] == first[0][table]
    assert promised(project) == first[1]
    undo_calibration(project)
    assert [kept(project)[table] for table in ("strings", "candidates")] == [
        machine[table] for table in ("strings", "candidates")
    ]
    assert kept(project)["events"] == events


def test_a_refresh_recalibrates_what_is_new_and_can_be_undone(project):
    calibrate(project, who="ann")
    made = Recalibration.standing(project.meta)
    sure = [round(0.99 - one / 2, 6) for one in confidences(600)]
    refresh(project, FakeMapper(answers=answers(sure), version="2"))
    for mapping in project.terms():
        new = sure[mapping.row.number - 1]
        assert [one.confidence for one in mapping.candidates] == [
            made.applied(new), made.applied(new / 4)
        ]  # fmt: skip
    assert promised(project) == auto_threshold(project, 0.8)
    assert len(project.meta["recalibrations"]) == 1
    undo_calibration(project)
    for mapping in project.terms():
        new = sure[mapping.row.number - 1]
        assert [one.confidence for one in mapping.candidates] == [new, new / 4]
    assert promised(project) == auto_threshold(project, 0.8)


def test_a_refresh_of_the_same_machine_changes_no_confidence(project):
    calibrate(project, who="ann")
    before = kept(project)
    sure = confidences(600)
    again = FakeMapper(answers=answers(sure[::2] + sure[1::2]), version="2")
    changed = refresh(project, again)["changed"]
    assert changed == {"automatic": 0, "new": 0, "gone": 0}
    confident = "SELECT id, confidence, original FROM strings"
    assert project.base.execute(confident).fetchall() == [
        (row[0], row[6], row[-1]) for row in before["strings"]
    ]


def test_a_string_without_a_chance_stays_so(tmp_path):
    sure = [*confidences(300), 0.0]
    with decide(undecided(tmp_path / "out", sure), is_right(sure[:300], -1.2, 0.8)) as project:
        assert calibrate(project, who="ann")["changed"]
        assert project.mapping(301).confidence == 0


def test_parts_of_a_cell_have_the_confidence_of_their_candidates(tmp_path):
    with make(tmp_path, rows=ROWS, machine=Sayer()) as project:
        with project.transaction():
            calibration._put(project, [RECALIBRATION])
        cell = project.mapping("fever; ache")
    apply = Recalibration(-1.0, 0.9).applied
    assert [part.confidence for part in cell.said.parts] == [apply(0.999), apply(0.997)]
    assert cell.confidence == apply(0.997)


# Exports, results and reports


def test_exports_and_results_have_the_confidences_that_stand(project, tmp_path):
    write_results(project)
    assert not is_old(project)
    calibrate(project, who="ann")
    assert is_old(project)
    write_results(project)
    assert not is_old(project)
    number = next(iter(project.terms("auto"))).row.number
    mapping = project.mapping(number)
    export(project, "csv", tmp_path / "x.csv")
    assert float(read_csv(tmp_path / "x.csv")[number - 1]["confidence"]) == pytest.approx(
        mapping.confidence, abs=1e-4
    )
    export(project, "sssom", tmp_path / "x.tsv")
    [line] = [one for one in (tmp_path / "x.tsv").read_text().split("\n") if mapping.row.text in
              one.split("\t")]  # fmt: skip
    assert f"{mapping.confidence:.6g}" in line.split("\t")
    undo_calibration(project)
    assert is_old(project)


def test_the_report_tells_of_it(project):
    calibrate(project, who="<b>ann")
    write_results(project)
    report = json.loads((project.path.parent / "report.json").read_text())
    assert report["recalibration"] == project.meta["recalibrations"][-1]
    assert report["threshold"]["confidence"] == project.meta["threshold"]
    page = (project.path.parent / "report.html").read_text()
    assert "on 300 decisions" in page and "by &lt;b&gt;ann on" in page
    before, after = report["recalibration"]["calibration_error"]
    assert f"went from {100 * before:.1f}% to {100 * after:.1f}%" in page
    undo_calibration(project)
    write_results(project)
    assert json.loads((project.path.parent / "report.json").read_text())["recalibration"] is None
    assert "recalibrated" not in (project.path.parent / "report.html").read_text()


# What goes wrong


def test_who_calibrates_has_a_name(project):
    with pytest.raises(UsageError, match="who calibrates"):
        calibrate(project, who=" ")


def test_all_or_nothing(project, monkeypatch):
    before = kept(project), project.meta

    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(calibration, "auto_threshold", fail)
    with pytest.raises(ArtefactError):
        calibrate(project, who="ann")
    assert (kept(project), project.meta) == before


@pytest.mark.parametrize("call", [lambda p: calibrate(p, who="ann"), undo_calibration])
def test_a_project_that_another_process_writes(project, tmp_path, call):
    calibrate(project, who="ann")
    other = sqlite3.connect(project.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with (
            Project.open(project.path, wait=0.05) as mine,
            pytest.raises(ArtefactError, match="in use by another process"),
        ):
            call(mine)
    finally:
        other.close()


READ_ONLY = """
import json, sys
from medcoder.errors import MedcoderError
from medcoder.mapping import Project, calibrate, undo_calibration

said = []
with Project.open(sys.argv[1]) as project:
    said += [calibrate(project, who="ann", dry_run=True)["gain"], project.meta["threshold"]]
    for call in (lambda: calibrate(project, who="ann"), lambda: undo_calibration(project)):
        try:
            call()
        except MedcoderError as error:
            said.append([error.what, error.exit_code])
print(json.dumps(said))
"""


def test_on_a_read_only_disk_there_is_a_preview_alone(original, tmp_path):
    try:
        with small_disk(tmp_path / "disk", size=1 << 22) as disk:
            shutil.copytree(original.parent, disk.inside / "ward")
            disk.make_read_only()
            done = subprocess.run(
                [sys.executable, "-c", READ_ONLY, disk.folder / "ward"], text=True, check=False,
                preexec_fn=disk.enter(), capture_output=True,
            )  # fmt: skip
    except NoNamespaces as reason:
        pytest.skip(str(reason))
    assert done.returncode == 0, done.stderr
    refused = ["the project is read-only", ArtefactError.exit_code]
    with Project.open(original) as project:
        assert json.loads(done.stdout) == [True, project.meta["threshold"], refused, refused]


def test_a_project_that_is_being_refreshed(project):
    stops = Stops(4)
    stops.version, stops.answers = "2", answers(confidences(600))
    with pytest.raises(KeyboardInterrupt):
        refresh(project, stops)
    for dry in (True, False):
        for call in (lambda: calibrate(project, who="ann", dry_run=dry),  # noqa: B023
                     lambda: undo_calibration(project, dry_run=dry)):  # noqa: B023  # fmt: skip
            with pytest.raises(UsageError, match="Go on with: medcoder map refresh"):
                call()
    refresh(project, FakeMapper(answers=answers(confidences(600)), version="2"))
    assert calibrate(project, who="ann", dry_run=True)["decisions"]["counted"] > 0


def test_a_project_that_is_not_mapped_to_its_end(tmp_path):
    source = pa.table({"text": [f"s{n}" for n in range(20)]})
    with pytest.raises(KeyboardInterrupt):
        mapped(source, tmp_path / "out", Stops(4))
    with (
        Project.open(tmp_path / "out") as project,
        pytest.raises(UsageError, match="Run the command that made it again"),
    ):
        calibrate(project, who="ann")


def test_decisions_that_come_meanwhile_are_kept(project):
    """They wait, and are there afterwards."""
    begun, done = threading.Event(), []

    def other():
        with Project.open(project.path) as mine:
            begun.set()
            done.append(mine.decide(599, "C1", who="bob"))

    thread = threading.Thread(target=other)
    with project.transaction():
        thread.start()
        assert begun.wait(30)
        calibrate(project, who="ann")
        assert done == []
    thread.join(30)
    assert project.mapping(599).decision == done[0]


@pytest.mark.parametrize(
    "change",
    ["UPDATE strings SET original = 7", "UPDATE strings SET original = 'high'",
     "UPDATE candidates SET twins = '{'", "UPDATE strings SET confidence = -1",
     "DELETE FROM meta WHERE key = 'precision'"],
)  # fmt: skip
def test_hostile_values_are_refused(project, change):
    project.base.execute(change)
    with pytest.raises(ArtefactError):
        calibrate(project, who="ann")


@pytest.mark.parametrize(
    "change",
    [{"slope": 0}, {"slope": -1}, {"slope": "1"}, {"intercept": 1e300}, {"intercept": True},
     {"intercept": None},
     {"who": 1}, {"when": "soon"}, {"decisions": -1}, {"log_loss": [1]}, {"threshold": ["x", 1]}],
    ids=str,
)  # fmt: skip
def test_a_recalibration_that_is_none_is_refused(project, change):
    calibrate(project, who="ann")
    [made] = project.meta["recalibrations"]
    project.put(recalibrations=[made | change])
    with pytest.raises(ArtefactError, match="a value that it cannot hold"):
        _ = project.meta
