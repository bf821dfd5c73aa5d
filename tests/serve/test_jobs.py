"""Jobs of the service: what was left is gone on with, and nothing runs twice."""

import errno
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from medcoder.errors import DiskFull, InputError
from medcoder.serve import jobs as room
from medcoder.serve.settings import Settings
from medcoder.serve.uploads import Upload
from support.served import client, made, until, upload

LEFT = "0" * 32


@pytest.fixture
def mapped(monkeypatch):
    """Names of the tables that were mapped, in place of mapping them; `go` lets them end."""
    found, go = [], threading.Event()

    def map_table(table, *, out, **rest):
        found.append(table.parent.name)
        assert go.wait(10)

    monkeypatch.setattr(room, "map_table", map_table)
    return found, go


def test_a_job_that_was_started_before_the_others_are_gone_on_with_runs_once(tmp_path, mapped):
    found, go = mapped
    folder, table = tmp_path / "jobs", tmp_path / "ward.csv"
    table.write_text("term\nfever\n", encoding="utf-8")
    left(folder)

    jobs = room.Jobs(folder, lambda: None, limit=4)
    assert [job.state for job in jobs.all()] == ["waiting"]
    new = jobs.start(Upload(id="1" * 32, name="ward.csv", file=table, reading={}), "", {})
    jobs.resume()
    jobs.resume()
    go.set()
    jobs._pool.shutdown()
    assert sorted(found) == sorted([LEFT, new.id])
    assert {job.id: (job.state, job.error) for job in jobs.all()} == {
        LEFT: ("done", None), new.id: ("done", None),
    }  # fmt: skip
    assert not list(folder.glob("*/table.*"))


def left(folder, number=LEFT, **said):
    """A job as a process that was killed left it, with its table and what it had mapped."""
    place = folder / number
    place.joinpath("out").mkdir(parents=True)
    place.joinpath("out", "project.sqlite").write_text("half", encoding="utf-8")
    place.joinpath("table.csv").write_text("term\ncough\n", encoding="utf-8")
    given = {"id": number, "name": "left", "options": {}, "created": "2026-01-01", "error": None}
    given |= {"state": "running", "done": 1, "total": 2} | said
    place.joinpath("job.json").write_text(json.dumps(given), encoding="utf-8")
    return place


def names(place):
    return sorted(file.name for file in place.iterdir())


def kept(place):
    return json.loads(place.joinpath("job.json").read_text(encoding="utf-8"))


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "ward.csv"
    file.write_text("term\nfever\n", encoding="utf-8")
    return Upload(id="1" * 32, name="ward.csv", file=file, reading={})


@pytest.fixture
def steps(monkeypatch):
    """A table that is mapped step by step, as others allow."""
    begun, go = threading.Event(), threading.Event()

    def map_table(table, *, out, progress, **rest):
        out.mkdir()
        out.joinpath("project.sqlite").write_text("half", encoding="utf-8")
        begun.set()
        assert go.wait(10)
        progress("mapping", 1, 2)

    monkeypatch.setattr(room, "map_table", map_table)
    return begun, go


def test_a_project_that_is_cancelled_is_out_of_the_list_before_it_is_deleted(
    tmp_path, table, steps, monkeypatch
):
    begun, go = steps
    jobs, seen, plain = room.Jobs(tmp_path / "jobs", lambda: None, limit=1), [], shutil.rmtree

    def rmtree(place, **options):
        seen.append((job.state, jobs.projects()))
        plain(place, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    job = jobs.start(table, "", {})
    assert begun.wait(10)
    assert set(jobs.projects()) == {job.id}
    jobs.cancel(job.id)
    go.set()
    jobs._pool.shutdown()
    assert seen
    assert all(one == ("cancelled", {}) for one in seen)
    assert names(tmp_path / "jobs" / job.id) == ["job.json"]


@pytest.mark.parametrize("error", [InputError("no such row"), ValueError("whatever")], ids=str)
def test_a_job_that_fails_leaves_no_table(tmp_path, table, monkeypatch, error):
    def map_table(table, *, out, **rest):
        out.mkdir()
        out.joinpath("project.sqlite").write_text("half", encoding="utf-8")
        raise error

    monkeypatch.setattr(room, "map_table", map_table)
    jobs = room.Jobs(tmp_path / "jobs", lambda: None, limit=1)
    job = jobs.start(table, "", {})
    jobs._pool.shutdown()
    place = tmp_path / "jobs" / job.id
    assert (job.state, names(place), kept(place)["state"]) == ("failed", ["job.json"], "failed")


def test_a_job_that_cannot_start_leaves_nothing(tmp_path, table):
    table.file.unlink()
    jobs = room.Jobs(tmp_path / "jobs", lambda: None, limit=1)
    with pytest.raises(FileNotFoundError):
        jobs.start(table, "", {})
    assert (names(tmp_path / "jobs"), jobs.all()) == ([], [])
    jobs.close()


def test_a_job_that_finds_no_room_leaves_nothing(tmp_path, table, monkeypatch):
    def refuse(*rest):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(shutil, "copyfile", refuse)
    jobs = room.Jobs(tmp_path / "jobs", lambda: None, limit=1)
    with pytest.raises(DiskFull):
        jobs.start(table, "", {})
    assert (names(tmp_path / "jobs"), jobs.all()) == ([], [])
    jobs.close()


def test_a_job_says_that_it_is_done_before_its_table_goes(tmp_path, table, monkeypatch, caplog):
    """Else a service that is killed in between would begin it again, without a table."""
    monkeypatch.setattr(room, "map_table", lambda table, *, out, **rest: out.mkdir())
    jobs = room.Jobs(tmp_path / "jobs", lambda: None, limit=1)
    plain = jobs._keep
    monkeypatch.setattr(
        jobs, "_keep", lambda job: _no_room() if job.state == "done" else plain(job)
    )
    job = jobs.start(table, "", {})
    jobs._pool.shutdown()
    place = tmp_path / "jobs" / job.id
    assert (job.state, names(place)) == ("done", ["job.json", "out", "table.csv"])
    assert "cannot be written: DiskFull" in caplog.text

    again = room.Jobs(tmp_path / "jobs", lambda: None, limit=1)
    monkeypatch.setattr(room, "map_table", lambda table, *, out, **rest: None)
    again.resume()
    again._pool.shutdown()
    assert [(one.id, one.state) for one in again.all()] == [(job.id, "done")]
    assert (names(place), kept(place)["state"]) == (["job.json", "out"], "done")


def _no_room():
    raise DiskFull("no room")


def test_what_a_killed_process_left_of_jobs_is_removed(tmp_path):
    done = left(tmp_path, "1" * 32, state="done")
    failed = left(tmp_path, "2" * 32, state="failed")
    cancelled = left(tmp_path, "3" * 32, state="cancelled")
    cancelled.joinpath("out").rename(cancelled / "gone")
    bare = left(tmp_path, "4" * 32)
    bare.joinpath("job.json").unlink()
    other = tmp_path / "not ours"
    other.mkdir()
    room.Jobs(tmp_path, lambda: None, limit=1).close()
    assert names(done) == ["job.json", "out"]
    assert names(failed) == names(cancelled) == ["job.json"]
    assert (bare.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_job_that_was_cancelled_does_not_come_back(tmp_path, table, steps, how):
    begun, go = steps
    folder = tmp_path / "jobs"
    jobs = room.Jobs(folder, lambda: None, limit=1)
    job = jobs.start(table, "", {})
    assert begun.wait(10)
    jobs.cancel(job.id)
    if how == "killed":  # as it is on disk at that moment
        shutil.copytree(folder, tmp_path / "then")
        folder = tmp_path / "then"
    jobs._closing = True
    go.set()
    jobs.close()
    again = room.Jobs(folder, lambda: None, limit=1)
    again.resume()
    again.close()
    assert [one.state for one in again.all()] == ["cancelled"]
    place = folder / job.id
    assert (names(place), kept(place)["state"]) == (["job.json"], "cancelled")


def test_one_job_is_written_by_several_threads(tmp_path, table, mapped):
    _, go = mapped
    jobs = room.Jobs(tmp_path / "jobs", lambda: None, limit=1)
    job = jobs.start(table, "", {})
    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(jobs._keep, job) for _ in range(60)]:
            future.result()
    go.set()
    jobs.close()
    assert names(tmp_path / "jobs" / job.id) == ["job.json"]


def test_projects_are_listed_while_others_are_cancelled(many_index, tmp_path):
    rows = b"text\n" + b"".join(b"fever %d\n" % number for number in range(300))
    said, over = [], threading.Event()
    with client(made(many_index, tmp_path, settings=Settings(jobs=3))) as rest:
        state = rest.app.state.serving
        sent = upload(rest, rows).json()["upload"]

        def listing():
            while not over.is_set():
                said.append(rest.get("/v1/projects").status_code)

        def cancelling(count):
            for _ in range(count):
                job = state.jobs.start(state.uploads.get(sent), "", {"column": "text"})
                until(lambda: job.id in state.projects() or not job.active)  # noqa: B023
                rest.delete(f"/v1/jobs/{job.id}")
                until(lambda: not job.active)  # noqa: B023

        with ThreadPoolExecutor(5) as pool:
            listers = [pool.submit(listing) for _ in range(3)]
            cancels = [pool.submit(cancelling, 5) for _ in range(2)]
            for one in cancels:
                one.result()
            over.set()
            for one in listers:
                one.result()
    assert set(said) == {200}
    states = {job.id: job.state for job in state.jobs.all()}
    assert "cancelled" in states.values()
    for number, ended in states.items():
        expected = ["job.json", "out"] if ended == "done" else ["job.json"]
        assert names(tmp_path / "jobs" / number) == expected


def test_a_job_of_medcoder_0_1_goes_on_as_it_was_begun(tmp_path):
    """What it maps says nothing of splitting cells, and was not split."""
    place = left(tmp_path, "5" * 32, state="done")
    said = kept(place)
    assert "split" not in said["options"]
    jobs = room.Jobs(tmp_path, lambda: None, limit=1)
    jobs.close()
    assert jobs.get("5" * 32).options == said["options"] | {"split": False, "targets": "any"}
