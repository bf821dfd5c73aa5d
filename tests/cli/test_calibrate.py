"""`medcoder map calibrate`, and what status and report say of the promise."""

import json

import pytest

from medcoder.mapping import Project
from support.judged import confidences, decide, overconfident, undecided
from support.terminal import as_json, medcoder


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("MEDCODER_WHO", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def judged(tmp_path):
    overconfident(tmp_path / "out", 300, precision=0.8).close()
    return tmp_path / "out"


def shown(folder):
    with Project.open(folder) as project:
        return [mapping.as_dict() for mapping in project.terms()]


def test_a_calibration_and_back(judged):
    before = shown(judged)
    preview = medcoder("map", "calibrate", judged, "--dry-run")
    assert preview.exit_code == 0
    assert "would go to review: " in preview.stdout
    assert preview.stdout.splitlines()[-1] == "nothing was changed"
    assert shown(judged) == before
    done = medcoder("map", "calibrate", judged, "--who", "ann")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    with Project.open(judged) as project:
        [made] = project.meta["recalibrations"]
        auto = project.counts()["auto"]
    assert (made["who"], made["decisions"]) == ("ann", 300)
    error, loss, threshold = made["calibration_error"], made["log_loss"], made["threshold"]
    assert lines[0] == (
        f"decisions that count: 300, of which {made['right']} chose the first candidate"
    )
    assert lines[1] == (
        f"on held-out decisions, the calibration error goes from {100 * error[0]:.1f}% to "
        f"{100 * error[1]:.1f}%, and the log loss from {loss[0]:.4f} to {loss[1]:.4f}"
    )
    assert lines[2] == (
        f"automatic at 80% promised: a confidence of {threshold[1]:.3f} on, before: a confidence "
        f"of {threshold[0]:.3f} on"
    )
    assert lines[3].startswith("become automatic: 0 terms, 0 rows; go to review: ")
    assert lines[3].endswith(f"automatic then: {auto['terms']} terms, {auto['rows']} rows")
    assert lines[4] == (
        f"decisions stay as they are. Go back with: medcoder map calibrate {judged} --undo"
    )
    # Results and report are written again.
    status = medcoder("map", "status", judged)
    assert "confidences were fitted anew on 300 decisions by ann on 20" in status.stdout
    assert "medcoder map report" not in status.stderr
    assert json.loads((judged / "report.json").read_text())["recalibration"] == made
    undone = medcoder("map", "calibrate", judged, "--undo")
    assert undone.exit_code == 0
    assert undone.stdout.splitlines()[-1] == "the confidences are those of the machine again"
    assert shown(judged) == before
    again = medcoder("map", "calibrate", judged, "--undo")
    assert (again.exit_code, "no calibration of the project stands" in again.stderr) == (2, True)


def test_a_calibration_for_programs(judged):
    preview = as_json("map", "calibrate", judged, "--dry-run")
    assert (preview["changed"], preview["gain"]) == (False, True)
    done = as_json("map", "calibrate", judged)
    assert done == preview | {"changed": True}
    assert as_json("map", "status", judged)["meta"]["threshold"] == done["threshold"]["after"]
    undone = as_json("map", "calibrate", judged, "--undo")
    assert (undone["changed"], undone["recalibration"]) == (True, None)
    assert undone["threshold"]["after"] == done["threshold"]["before"]


def test_a_calibration_that_changes_nothing_says_why(tmp_path):
    decide(undecided(tmp_path / "out", confidences(50)), [True, False] * 20).close()
    done = medcoder("map", "calibrate", tmp_path / "out")
    assert (done.exit_code, done.stdout.splitlines()) == (0, [
        "decisions that count: 40, of which 20 chose the first candidate",
        "too few decisions count: 40, and 200 are needed",
        "nothing was changed",
    ])  # fmt: skip
    with Project.open(tmp_path / "out") as project:
        project.decide(41, "C1", who="ann", bulk=True)
    done = medcoder("map", "calibrate", tmp_path / "out")
    assert done.stdout.splitlines()[0] == (
        "decisions that count: 40, of which 20 chose the first candidate; not counted: 1 made for "
        "many terms at once or taken over from a file"
    )
    missing = medcoder("map", "calibrate", tmp_path / "none")
    assert (missing.exit_code, "there is no such project" in missing.stderr) == (4, True)


def test_a_project_that_is_not_mapped_to_its_end(judged):
    with Project.open(judged) as project:
        project.put(complete=False)
    for words in (["report"], ["calibrate"], ["calibrate", "--undo"], ["calibrate", "--dry-run"]):
        done = medcoder("map", words[0], judged, *words[1:])
        assert done.exit_code == 2
        assert "the project is not mapped to its end. Run the command that made it" in done.stderr


def test_status_and_report_say_how_the_promise_was_kept(tmp_path):
    decide(undecided(tmp_path / "out", [0.99] * 40), [True] * 29 + [False]).close()
    words = (
        "of the automatic mappings, people looked at 30 one by one and found 29 right: 96.7% (95% "
        "interval 82.8% to 99.9%), 98.0% promised"
    )
    for command in ("report", "status"):
        done = medcoder("map", command, tmp_path / "out")
        assert words in done.stdout
        assert done.stderr == ""
    kept = as_json("map", "status", tmp_path / "out")["promise"]
    assert (kept["looked_at"], kept["right"], kept["broken"]) == (30, 29, False)


def test_a_broken_promise_is_a_warning(tmp_path):
    decide(undecided(tmp_path / "out", [0.99] * 40), [True] * 20 + [False] * 10).close()
    for command in ("report", "status"):
        done = medcoder("map", command, tmp_path / "out")
        assert done.exit_code == 0
        assert done.stderr.startswith("warning: the promise is not kept: 98.0% of automatic")
        assert "Run medcoder map calibrate on the project, or the command that made it" in (
            done.stderr
        )
        assert as_json("map", command, tmp_path / "out")["promise"]["broken"] is True
