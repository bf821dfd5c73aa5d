"""The folder of a service: one service each, the last files, and nothing half sent."""

import errno
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from medcoder.errors import DiskFull, UsageError
from medcoder.serve import uploads as room
from medcoder.serve.settings import Settings
from support.mapped import write_concepts
from support.served import TABLE, client, made, send_concepts, upload


@pytest.fixture
def rest(many_index, tmp_path):
    with client(made(many_index, tmp_path, settings=Settings(uploads=2))) as found:
        yield found


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def full(*rest, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def error_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


# One service a folder


def test_a_folder_has_one_service_at_a_time(many_index, tmp_path):
    with client(made(many_index, tmp_path)) as rest:
        being_written = rest.app.state.serving.exports / "x"
        being_written.write_text("half", encoding="utf-8")
        with pytest.raises(UsageError, match=r"is in use by another .* --folder") as found:
            made(many_index, tmp_path)
        assert str(tmp_path) in str(found.value)
        assert being_written.exists()
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    with client(made(many_index, tmp_path)) as rest:
        assert rest.get("/v1/projects").status_code == 200


def test_the_command_says_that_a_folder_is_in_use(rest, many_index, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "medcoder", "serve", "--index", str(many_index), "--port", "0",
         "--folder", str(tmp_path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "in use by another" in done.stderr) == (2, True), done.stderr


def test_a_service_that_is_dropped_lets_go_of_its_folder(many_index, tmp_path):
    app = made(many_index, tmp_path)
    release = app.state.serving.release
    assert release.alive
    release()
    release()
    made(many_index, tmp_path).state.serving.release()


# Uploads


def test_the_last_uploads_are_kept_by_a_clock_that_was_put_back(rest, tmp_path):
    sent = [upload(rest).json()["upload"] for _ in range(2)]
    later = time.time_ns() + 10**12
    for number in sent:
        os.utime(tmp_path / "uploads" / f"{number}.json", ns=(later, later))
    for _ in range(5):
        sent.append(upload(rest).json()["upload"])
        assert rest.app.state.serving.uploads.last() == sent[-1]
    assert {name.partition(".")[0] for name in names(tmp_path / "uploads")} == set(sent[-2:])


def test_an_upload_that_cannot_be_described_is_not_kept(rest, tmp_path, monkeypatch):
    def replacing(path):
        raise DiskFull("no room")

    monkeypatch.setattr(room, "replacing", replacing)
    assert error_of(upload(rest)) == (507, "disk_full")
    assert names(tmp_path / "uploads") == []


def test_what_was_half_sent_is_removed_at_the_next_start(many_index, tmp_path):
    with client(made(many_index, tmp_path)) as rest:
        sent = upload(rest).json()["upload"]
    folder = tmp_path / "uploads"
    (folder / f"{'1' * 32}.csv").write_bytes(TABLE)
    (folder / f".{'2' * 32}.json.77.partial").write_text("{", encoding="utf-8")
    (folder / "of others").mkdir()
    with client(made(many_index, tmp_path)) as rest:
        assert names(folder) == sorted([f"{sent}.csv", f"{sent}.json", "of others"])
        answer = rest.post("/v1/map", json={"upload": sent, "column": "text"})
        assert answer.status_code == 202


def test_an_upload_that_is_forgotten_this_moment(rest, tmp_path, monkeypatch):
    asked = {"upload": upload(rest).json()["upload"], "column": "text"}
    file = tmp_path / "uploads" / f"{asked['upload']}.csv"
    jobs, plain = rest.app.state.serving.jobs, rest.app.state.serving.jobs.start

    def start(*some):
        file.unlink()
        return plain(*some)

    monkeypatch.setattr(jobs, "start", start)
    for _ in range(2):  # while it is copied; before it is looked at
        assert error_of(rest.post("/v1/map", json=asked)) == (404, "no_upload")
    described = file.with_suffix(".json")
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    described.unlink()
    assert error_of(rest.post("/v1/map", json=asked)) == (404, "no_upload")
    assert names(tmp_path / "jobs") == []


# A disk that is full


@pytest.mark.parametrize("where", ["body", "file"])
def test_no_room_for_what_is_sent(rest, tmp_path, monkeypatch, where):
    table = write_concepts(tmp_path)
    with monkeypatch.context() as change:
        if where == "file":
            change.setattr(Path, "chmod", full)  # the first that is done to the new file
        else:
            change.setattr(tempfile, "SpooledTemporaryFile", full)
            change.setattr("starlette.formparsers.SpooledTemporaryFile", full)
        assert error_of(upload(rest)) == (507, "disk_full")
        assert error_of(send_concepts(rest, table)) == (507, "disk_full")
    assert names(tmp_path / "uploads") == names(tmp_path / "concepts") == []
    said = json.dumps(upload(rest).json())
    assert "preview" in said
