"""Project files on disks that are full or read-only."""

import json
import os
import resource
import shutil
import subprocess
import sys

import pytest

from medcoder.errors import ArtefactError, DiskFull, UsageError
from medcoder.mapping import Project, export
from support.maps import mapped, write_rows
from support.small_disk import NoNamespaces, small_disk

SIZES = """
import json, subprocess, sys
from pathlib import Path
from medcoder.errors import DiskFull, MedcoderError
from medcoder.mapping import Project

disk, said = Path(sys.argv[1]), {}
for size in range(1, 81, 2):
    subprocess.check_call(["mount", "-o", f"remount,size={4096 * size}", disk])
    try:
        Project.create(disk / "ward").close()
        said[size] = "made"
    except DiskFull:
        said[size] = "full" if not any(disk.iterdir()) else "left behind"
    except MedcoderError as error:
        said[size] = str(error)
    subprocess.check_call(["mount", "-o", "remount,size=1m", disk])
    with Project.create(disk / "ward") as project:
        project.verify()
    for file in (disk / "ward").iterdir():
        file.unlink()
    (disk / "ward").rmdir()
print(json.dumps(said))
"""
READ_ONLY = """
import json, sys
from pathlib import Path
from medcoder.errors import MedcoderError
from medcoder.mapping import Project, export, write_results

with Project.open(sys.argv[1]) as project:
    notes = [event.note for event in project.history()]
    export(project, "csv", Path(sys.argv[2]))
    file = write_results(project, Path(sys.argv[3]))
    refused = []
    for write in (lambda: project.decide(2, None, who="ann"), lambda: write_results(project)):
        try:
            write()
        except MedcoderError as error:
            refused.append([error.what, error.exit_code, error.remedy])
print(json.dumps([notes, refused, file.name]))
"""


@pytest.fixture
def disk(tmp_path):
    try:
        with small_disk(tmp_path / "disk", size=1 << 20) as made:
            yield made
    except NoNamespaces as reason:
        pytest.skip(str(reason))


@pytest.fixture
def ward(tmp_path):
    """A project of two rows, one of them decided."""
    table = write_rows(tmp_path / "ward.csv", ["text"], [["fever"], ["cold"]])
    made = mapped(table, tmp_path / "ward")
    with made.project() as project:
        project.decide(1, "C2", who="ann", note="sure")
    return tmp_path / "ward"


def inside(disk, code, *args):
    """What Python code prints there as JSON."""
    command = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(
        command, preexec_fn=disk.enter(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_on_a_full_disk_a_project_is_made_whole_or_not_at_all(disk):
    said = inside(disk, SIZES, disk.folder)
    assert set(said.values()) == {"full", "made"}
    assert said["1"] == "full" and said["79"] == "made"


@pytest.mark.parametrize("journal", ["none", "wal", "wal and shm"])
def test_a_project_on_a_read_only_mount_is_read_exported_and_reported_on(
    disk, ward, tmp_path, journal
):
    with Project.open(ward) as project:
        project.decide(1, None, who="bob", note="no")
        if journal != "none":
            shutil.copytree(ward, disk.inside / "ward")  # with the journal, as a kill leaves it
    if journal == "none":
        shutil.copytree(ward, disk.inside / "ward")
    elif journal == "wal":
        (disk.inside / "ward" / "project.sqlite-shm").unlink()
    left = sorted(path.name for path in (disk.inside / "ward").iterdir())
    assert ("project.sqlite-wal" in left) == (journal != "none")
    disk.make_read_only()
    home, out = disk.folder / "ward", tmp_path / "report"
    notes, refused, file = inside(disk, READ_ONLY, home, tmp_path / "out.csv", out)
    assert notes == ["sure", "no"]
    assert [entry[:2] for entry in refused] == [["the project is read-only", 4]] * 2
    assert refused[1][2] == f"To write elsewhere: medcoder map report {home} --out FOLDER"
    assert "fever" in (tmp_path / "out.csv").read_text()
    assert sorted(path.name for path in out.iterdir()) == [file, "report.html", "report.json"]
    assert "\nfever,,,,,approved," in (out / file).read_text()
    assert sorted(path.name for path in (disk.inside / "ward").iterdir()) == left


@pytest.mark.parametrize("journal", [False, True])
def test_a_project_without_permission_is_read_and_nothing_is_put_beside_it(
    ward, tmp_path, monkeypatch, journal
):
    copy = tmp_path / "copy"
    with Project.open(ward) as project:
        project.decide(2, "C3", who="ann", note="later")
        shutil.copytree(ward, copy)
    if not journal:
        Project.open(copy).close()
    before = sorted(path.name for path in copy.iterdir())
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write whatever it says
    with Project.open(copy) as project:
        assert [event.note for event in project.history()] == ["sure", "later"]
        assert [mapping.status for mapping in project.mappings()] == ["approved"] * 2
        export(project, "csv", tmp_path / "out.csv")
        for write in (
            lambda: project.decide(1, None, who="ann"),
            lambda: project.undo(1, who="ann"),
            lambda: project.put(rows=3),
        ):
            with pytest.raises(ArtefactError, match=r"the project is read-only\. Nothing was"):
                write()
    assert sorted(path.name for path in copy.iterdir()) == before
    with pytest.raises(ArtefactError, match="the project is read-only"):
        Project.create(copy)


def test_on_a_full_disk_a_project_is_read_and_a_decision_says_why_not(disk, ward, tmp_path):
    shutil.copytree(ward, disk.inside / "ward")
    disk.do(f"cat /dev/zero > {disk.folder}/fill || true")
    home, out = disk.folder / "ward", tmp_path / "report"
    notes, refused, _ = inside(disk, READ_ONLY, home, tmp_path / "out.csv", out)
    assert notes == ["sure"]
    what = "no room left to write the project"
    assert [entry[:2] for entry in refused] == [[what, DiskFull.exit_code]] * 2
    assert (out / "report.html").is_file()
    disk.do(f"rm {disk.folder}/fill")
    shutil.copytree(disk.inside / "ward", tmp_path / "copy")
    with Project.open(tmp_path / "copy") as project:
        assert [event.note for event in project.history()] == ["sure"]
        project.verify()


def test_under_a_limit_on_the_size_of_files_a_project_is_made_or_there_is_no_room(tmp_path):
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    said = []
    for size in range(60_000, 80_000, 200):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, was[1]))
        try:
            Project.create(tmp_path / f"{size}").close()
            said.append("made")
        except DiskFull:
            said.append("full")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, was)
    assert said == sorted(said)  # full, then made
    assert set(said) == {"full", "made"}


def test_a_project_is_made_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def link(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with Project.create(tmp_path / "ward") as project:
        project.verify()


def test_a_project_that_cannot_be_made_leaves_no_folder(tmp_path, monkeypatch):
    def link(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(DiskFull, match="The project was not made"):
        Project.create(tmp_path / "ward")
    assert not (tmp_path / "ward").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the project cannot be made: Not a directory"):
        Project.create(tmp_path / "file" / "ward")


KILLED = """
import os, signal, sys
from medcoder.mapping import Project
from medcoder.mapping.project import schema

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

schema._publish = kill
Project.create(sys.argv[1])
"""


def test_what_a_kill_while_it_is_made_leaves_goes_with_the_next(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "a"], check=False)
    assert done.returncode == -9
    assert len(_hidden(tmp_path / "a")) == 2
    with Project.create(tmp_path / "a"):
        assert _hidden(tmp_path / "a") == []


def _hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]
