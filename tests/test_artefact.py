"""Directories written whole or not at all."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from medcoder import artefact, manifest
from medcoder.artefact import create, fingerprint, open_artefact, read_meta, verify
from medcoder.errors import ArtefactError, DiskFull, UsageError
from medcoder.files import write_json

KIND = "box"


def make(path, text="hello", **options):
    with create(path, kind=KIND, version=1, **options) as draft:
        (draft.path / "a.txt").write_text(text)
        (draft.path / "deep" / "er").mkdir(parents=True)
        (draft.path / "deep" / "er" / "b.txt").write_text(text * 2)
        (draft.scratch / "temporary").write_text("x")
        draft.meta["made_by"] = "a test"
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def living():
    """The number of another process that is running."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid


# Making one


def test_a_whole_artefact(tmp_path):
    path = make(tmp_path / "new" / "place" / "it", parents={"graph": "abc"})
    meta = open_artefact(path, kind=KIND, version=1)
    assert meta["made_by"] == "a test"
    assert meta["parents"] == {"graph": "abc"}
    assert {name: entry["size"] for name, entry in meta["files"].items()} == {
        "a.txt": 5,
        "deep/er/b.txt": 10,
    }
    assert names(path) == ["a.txt", "deep", "meta.json"]
    assert names(path.parent) == ["it"]
    verify(path, kind=KIND)


def test_nothing_shows_before_the_end(tmp_path):
    with create(tmp_path / "it", kind=KIND, version=1) as draft:
        assert names(tmp_path) == [f".it.{os.getpid()}.partial"]
        assert draft.path.parent == tmp_path
    assert names(tmp_path) == ["it"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, OSError(errno.EIO)])
def test_an_error_in_the_middle_leaves_nothing(tmp_path, error):
    with (
        pytest.raises(error if isinstance(error, type) else OSError),
        create(tmp_path / "it", kind=KIND, version=1) as draft,
    ):
        (draft.path / "a.txt").write_text("half")
        raise error
    assert names(tmp_path) == []
    make(tmp_path / "it")


@pytest.mark.parametrize("step", ["_digests", "write_json", "sync"])
def test_an_interrupt_while_finishing_leaves_nothing(tmp_path, monkeypatch, step):
    make(tmp_path / "it", "old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(artefact, step, interrupted)
    for name in ("it", "other"):
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path / name, "new", overwrite=True)
    assert names(tmp_path) == ["it"]
    assert (tmp_path / "it" / "a.txt").read_text() == "old"


def test_two_at_a_time_in_one_process(tmp_path):
    with create(tmp_path / "it", kind=KIND, version=1) as draft:
        with pytest.raises(UsageError, match="already"):
            make(tmp_path / "it")
        make(tmp_path / "other")
        (draft.path / "a.txt").write_text("the first")
    assert names(tmp_path) == ["it", "other"]
    assert (tmp_path / "it" / "a.txt").read_text() == "the first"


# Overwriting


def test_it_does_not_overwrite_unasked(tmp_path):
    make(tmp_path / "it", "old")
    with pytest.raises(UsageError, match=r"it exists\. Choose another place"):
        make(tmp_path / "it", "new")
    assert (tmp_path / "it" / "a.txt").read_text() == "old"


def test_nor_what_appeared_meanwhile(tmp_path):
    with (
        pytest.raises(UsageError, match="exists"),
        create(tmp_path / "it", kind=KIND, version=1) as draft,
    ):
        (draft.path / "a.txt").write_text("slow")
        (tmp_path / "it").mkdir()
        (tmp_path / "it" / "theirs").write_text("quick")
    assert names(tmp_path) == ["it"]
    assert names(tmp_path / "it") == ["theirs"]


def test_the_old_one_stays_until_the_new_one_is_whole(tmp_path):
    path = make(tmp_path / "it", "old")
    with create(path, kind=KIND, version=1, overwrite=True) as draft:
        (draft.path / "c.txt").write_text("new")
        assert open_artefact(path, kind=KIND, version=1)
        assert (path / "a.txt").read_text() == "old"
    assert names(path) == ["c.txt", "meta.json"]
    assert names(tmp_path) == ["it"]


def test_a_failed_overwrite_keeps_the_old_one(tmp_path):
    path = make(tmp_path / "it", "old")
    with (
        pytest.raises(ZeroDivisionError),
        create(path, kind=KIND, version=1, overwrite=True),
    ):
        raise ZeroDivisionError
    assert names(tmp_path) == ["it"]
    verify(path, kind=KIND)


def test_an_interrupt_between_the_two_renames_puts_the_old_one_back(tmp_path, monkeypatch):
    path = make(tmp_path / "it", "old")
    rename = type(path).rename

    def interrupted(self, target):
        if self.name.endswith(".partial"):
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(type(path), "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(path, "new", overwrite=True)
    assert names(tmp_path) == ["it"]
    assert (path / "a.txt").read_text() == "old"


def test_an_older_format_of_ours_may_be_overwritten(tmp_path):
    path = make(tmp_path / "it", "old")
    meta = json.loads((path / "meta.json").read_text())
    write_json(path / "meta.json", meta | {"version": 0})
    make(path, "new", overwrite=True)
    assert open_artefact(path, kind=KIND, version=1)


def test_it_never_overwrites_what_is_not_ours(tmp_path):
    folder, file, other = tmp_path / "folder", tmp_path / "file", tmp_path / "other"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    file.write_text("precious")
    with create(other, kind="model", version=1) as draft:
        (draft.path / "w").write_text("w")
    with pytest.raises(ArtefactError, match=r"folder: it is not a box: it has no meta\.json"):
        make(folder, overwrite=True)
    with pytest.raises(ArtefactError, match="file: it is not a box"):
        make(file, overwrite=True)
    with pytest.raises(ArtefactError, match="other: it is a model, not a box"):
        make(other, overwrite=True)
    assert names(tmp_path) == ["file", "folder", "other"]
    assert (folder / "thesis.tex").read_text() == "years of work"
    assert file.read_text() == "precious"
    assert names(other) == ["meta.json", "w"]


def test_an_empty_folder_is_filled_when_overwriting(tmp_path):
    (tmp_path / "it").mkdir()
    with pytest.raises(UsageError):
        make(tmp_path / "it")
    make(tmp_path / "it", overwrite=True)
    assert names(tmp_path) == ["it"]


# What killed builds leave


def leave(folder, name, pid, stage, text="left"):
    left = folder / f".{name}.{pid}.{stage}"
    left.mkdir()
    (left / "a.txt").write_text(text)
    return left


def test_leftovers_of_dead_processes_are_swept(tmp_path, dead, living):
    leave(tmp_path, "it", dead, "partial")
    kept = {
        leave(tmp_path, "it", living, "partial").name,
        leave(tmp_path, "other", dead, "partial").name,  # not beside what is being made
        leave(tmp_path, "it.v2", dead, "partial").name,
        leave(tmp_path, "it", dead, "backup").name,
        leave(tmp_path, "it", "x", "partial").name,
    }
    make(tmp_path / "it")
    assert set(names(tmp_path)) == kept | {"it"}


def test_leftovers_with_our_own_number_are_swept(tmp_path):
    # The first process of a container has the same number every time.
    left = leave(tmp_path, "it", os.getpid(), "partial")
    (left / "stale").write_text("x")
    (left / ".scratch").mkdir()
    make(tmp_path / "it")
    assert names(tmp_path) == ["it"]
    assert names(tmp_path / "it") == ["a.txt", "deep", "meta.json"]


def test_names_with_brackets_are_swept_too(tmp_path, dead):
    leave(tmp_path, "it[1]*", dead, "partial")
    make(tmp_path / "it[1]*")
    assert names(tmp_path) == ["it[1]*"]


def killed_between_renames(tmp_path, pid):
    make(tmp_path / "it", "old").rename(tmp_path / f".it.{pid}.old")
    leave(tmp_path, "it", pid, "partial", "new")


def test_what_a_killed_build_had_moved_away_is_put_back(tmp_path, dead):
    killed_between_renames(tmp_path, dead)
    with pytest.raises(UsageError, match="exists"):
        make(tmp_path / "it", "newer")
    assert names(tmp_path) == ["it"]
    assert (tmp_path / "it" / "a.txt").read_text() == "old"


def test_and_stays_when_the_next_build_fails(tmp_path, dead):
    killed_between_renames(tmp_path, dead)
    with (
        pytest.raises(ZeroDivisionError),
        create(tmp_path / "it", kind=KIND, version=1, overwrite=True),
    ):
        raise ZeroDivisionError
    assert names(tmp_path) == ["it"]
    verify(tmp_path / "it", kind=KIND)


def test_an_old_one_is_removed_where_the_new_one_is_in_place(tmp_path, dead):
    make(tmp_path / "it")
    leave(tmp_path, "it", dead, "old")
    make(tmp_path / "it", "newer", overwrite=True)
    assert names(tmp_path) == ["it"]
    assert (tmp_path / "it" / "a.txt").read_text() == "newer"


def test_the_old_one_of_another_name_is_left_alone(tmp_path, dead):
    leave(tmp_path, "it.v2", dead, "old")
    make(tmp_path / "it")
    assert names(tmp_path) == [f".it.v2.{dead}.old", "it"]
    assert (tmp_path / "it" / "a.txt").read_text() == "hello"


# Opening one


def test_no_artefact_here(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "file" / "below"):
        with pytest.raises(
            ArtefactError, match=f"{path.name}: it is not a box: it has no meta.json"
        ):
            open_artefact(path, kind=KIND, version=1)


def test_another_kind_or_version(tmp_path):
    path = make(tmp_path / "it")
    with pytest.raises(ArtefactError, match="it is a box, not a model"):
        open_artefact(path, kind="model", version=1)
    with pytest.raises(
        ArtefactError, match=r"has format 1, this medcoder reads format 2\..*made it \(a test\)"
    ):
        open_artefact(path, kind=KIND, version=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ('{"kind": "box"', "cannot be read"),
        ("\udcff", "cannot be read"),
        ("[]", "directory of something else, not a box"),
        ("{}", "directory of something else, not a box"),
        ('{"kind": "box"}', "not a box"),
    ],
)
def test_a_meta_that_is_none(tmp_path, text, words):
    path = make(tmp_path / "it")
    (path / "meta.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ArtefactError, match=words):
        open_artefact(path, kind=KIND, version=1)


def test_a_missing_file(tmp_path):
    path = make(tmp_path / "it")
    (path / "deep" / "er" / "b.txt").unlink()
    with pytest.raises(ArtefactError, match=r"b\.txt: the box is damaged: it is missing"):
        open_artefact(path, kind=KIND, version=1)
    with pytest.raises(ArtefactError, match=r"b\.txt: the box is damaged: it is missing"):
        verify(path, kind=KIND)


def test_a_changed_size(tmp_path):
    path = make(tmp_path / "it")
    (path / "a.txt").write_text("hell")
    with pytest.raises(ArtefactError, match=r"a\.txt: the box is damaged: it has 4 bytes, not 5"):
        open_artefact(path, kind=KIND, version=1)


def test_a_flipped_byte_of_a_large_file(tmp_path):
    path = make(tmp_path / "it", "x" * (manifest.SMALL + 1))
    (path / "a.txt").write_text("x" * manifest.SMALL + "y")
    assert open_artefact(path, kind=KIND, version=1)  # its size is all that it looks at
    with pytest.raises(ArtefactError, match=r"a\.txt: it was changed or damaged"):
        verify(path, kind=KIND)


# Fingerprints


def test_a_fingerprint_tells_the_content_and_nothing_else(tmp_path, monkeypatch):
    one = fingerprint(make(tmp_path / "one"), kind=KIND)
    two = make(tmp_path / "else" / "where", parents={"p": "q"})
    os.utime(two / "a.txt", (0, 0))
    assert fingerprint(two, kind=KIND) == one
    moved = shutil.copytree(two, tmp_path / "moved")
    assert fingerprint(moved, kind=KIND) == one
    assert read_meta(moved, kind=KIND)["fingerprint"] == one
    assert fingerprint(make(tmp_path / "three", "hallo"), kind=KIND) != one


def test_a_fingerprint_changes_with_names(tmp_path):
    prints = set()
    for number, name in enumerate(["a", "b", "c/a"]):
        with create(tmp_path / str(number), kind=KIND, version=1) as draft:
            (draft.path / name).parent.mkdir(exist_ok=True)
            (draft.path / name).write_text("same")
        prints.add(fingerprint(tmp_path / str(number), kind=KIND))
    assert len(prints) == 3


# Full disks


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_its_own_error(tmp_path, code):
    with (
        pytest.raises(DiskFull, match=r"it: no room left to write it: [0-9.]+ GB free") as caught,
        create(tmp_path / "new" / "it", kind=KIND, version=1) as draft,
    ):
        (draft.path / "a.txt").write_text("half")
        raise OSError(code, os.strerror(code))
    assert caught.value.exit_code == 5
    assert "Free some space" in str(caught.value)
    assert names(tmp_path / "new") == []
