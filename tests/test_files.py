"""Files that appear whole or not at all, and locks between processes."""

import errno
import json
import os
import re
import resource
import sqlite3
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest

from medcoder import unfinished
from medcoder.errors import DiskFull, UsageError
from medcoder.files import disk_full, locked, no_room, replacing, write_json, write_text
from support.containers import in_container, kill

HOLDER = """
import sys
from pathlib import Path
from medcoder.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
WRITER = """
import sys
from pathlib import Path
from medcoder.files import replacing
with replacing(Path(sys.argv[1])) as partial:
    partial.write_text("theirs")
    print("writing", flush=True)
    sys.stdin.readline()
"""
BUSY = UsageError("another has it")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def holder():
    """Start processes that hold a lock until their standard input ends."""
    started = []

    def start(path):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


# Writing


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "new" / "x.txt"
    with replacing(path) as partial:
        partial.write_text("whole")
        assert not path.exists() and partial.parent == path.parent
    assert path.read_text() == "whole" and names(path.parent) == ["x.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError(errno.EIO, "broken")])
def test_an_error_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "x.txt"
    path.write_text("old")
    with (
        pytest.raises(error if isinstance(error, type) else OSError),
        replacing(path) as partial,
    ):
        partial.write_text("half")
        raise error
    assert path.read_text() == "old" and names(tmp_path) == ["x.txt"]


def test_two_writers_of_one_file_and_one_that_is_killed(tmp_path):
    """Each is process 1 of its container."""
    path = tmp_path / "x.txt"
    writers = [in_container(WRITER, path, stderr=None) for _ in range(3)]
    for writer in writers:
        assert writer.stdout.readline() == "writing\n"
    partials = [name for name in names(tmp_path) if name.endswith(".partial")]
    assert len(partials) == 3
    assert all(re.fullmatch(r"\.x\.txt\.[0-9a-f]{24}\.partial", name) for name in partials)
    kill(writers[0])
    write_text(path, "ours")  # takes away what was left, and no more
    assert len([name for name in names(tmp_path) if name.endswith(".partial")]) == 2
    for writer in writers[1:]:
        writer.communicate("\n")
        assert writer.returncode == 0
    assert path.read_text() == "theirs" and names(tmp_path) == ["x.txt"]


def test_a_name_as_long_as_names_may_be(tmp_path):
    write_text(tmp_path / ("x" * 255), "whole")
    assert (tmp_path / ("x" * 255)).read_text() == "whole"


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    with pytest.raises(UsageError, match="it is a folder"), replacing(tmp_path):
        pass


def test_text_keeps_its_line_ends(tmp_path):
    write_text(tmp_path / "x.txt", "é\r\nb\n")
    assert (tmp_path / "x.txt").read_bytes() == "é\r\nb\n".encode()


def test_json_that_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"é": 1})
    assert path.read_bytes().decode() == '{\n "é": 1\n}\n'
    with pytest.raises(TypeError):
        write_json(path, {"bad": object()})
    assert json.loads(path.read_text()) == {"é": 1}
    assert names(tmp_path) == ["x.json"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_has_its_own_error(tmp_path, code):
    with pytest.raises(DiskFull) as caught, replacing(tmp_path / "x"):
        raise OSError(code, os.strerror(code))
    assert caught.value.what == "no room left to write it"
    assert caught.value.where == str(tmp_path / "x")
    assert os.strerror(code) in caught.value.values
    assert caught.value.remedy.startswith("Nothing was kept of it. Free some space")


def test_the_outer_call_says_what_is_kept(tmp_path):
    with (
        pytest.raises(DiskFull, match=r"all: no room left .* The first half stays"),
        disk_full(tmp_path / "all", kept="The first half stays"),
        replacing(tmp_path / "x"),
    ):
        raise OSError(errno.ENOSPC, "full")
    with (
        pytest.raises(DiskFull, match="x: no room"),
        disk_full(tmp_path),
        replacing(tmp_path / "x"),
    ):
        raise OSError(errno.ENOSPC, "full")


def test_other_errors_of_the_disk_stay_as_they_are(tmp_path):
    with pytest.raises(PermissionError), disk_full(tmp_path, kept="All"):
        raise PermissionError(errno.EACCES, "not yours")


# Locks


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_lock_excludes_another_process(tmp_path, holder, kind):
    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    process = holder(path)
    with pytest.raises(UsageError, match="another has it"), locked(path, busy=BUSY):
        pass
    process.communicate("")
    with locked(path, busy=BUSY):
        pass


def test_a_killed_process_lets_go(tmp_path, holder):
    process = holder(tmp_path / "it")
    process.kill()
    process.wait()
    with locked(tmp_path / "it", busy=BUSY):
        pass


def test_without_an_error_to_raise_it_waits(tmp_path, holder):
    process = holder(tmp_path / "it")
    got = threading.Event()

    def wait():
        with locked(tmp_path / "it"):
            got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not got.wait(0.2)
    process.communicate("")
    thread.join()
    assert got.is_set()


def test_a_lock_excludes_within_a_process_and_is_released_on_an_error(tmp_path):
    with pytest.raises(ValueError, match="x"), locked(tmp_path):
        with pytest.raises(UsageError, match="another has it"), locked(tmp_path, busy=BUSY):
            pass
        raise ValueError("x")
    with locked(tmp_path, busy=BUSY):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600


def test_locks_of_two_files_are_two(tmp_path):
    with locked(tmp_path / "a", busy=BUSY), locked(tmp_path / "b", busy=BUSY):
        assert names(tmp_path) == [".a.lock", ".b.lock"]


def test_a_disk_without_locks(tmp_path, monkeypatch):
    import filelock

    def missing(*_, **__):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", missing)
    monkeypatch.setattr(unfinished, "_warned", set())
    with pytest.warns(UserWarning, match="this file system has no locks") as warned:
        for _ in range(2):
            with locked(tmp_path, busy=BUSY):
                write_text(tmp_path / "x.txt", "whole")
    assert len(warned) == 1 and names(tmp_path) == ["x.txt"]


def test_whoever_may_write_to_a_folder_may_lock_a_file_of_it(tmp_path):
    with locked(tmp_path / "terms.tsv"):
        assert (tmp_path / ".terms.tsv.lock").stat().st_mode & 0o777 == 0o666


# A lock that is there only while it is held


def test_the_lock_of_a_removed_file_is_none(tmp_path, monkeypatch):
    """Between opening and locking, whoever had the file may have removed it."""
    file, status, removed = tmp_path / "lock", os.fstat, []

    def look(handle):
        seen = status(handle)
        if not removed:
            removed.append(file.unlink())
            file.touch()
        return seen

    monkeypatch.setattr(os, "fstat", look)
    with unfinished.alone(file, busy=BUSY) as locks:
        assert locks and removed
        with pytest.raises(UsageError, match="another has it"), unfinished.alone(file, busy=BUSY):
            pass
    assert names(tmp_path) == []


def test_who_waits_says_so_once_and_gets_it(tmp_path, holder):
    file, said = tmp_path / ".it.lock", []
    process = holder(tmp_path / "it")

    def waiting():
        said.append("waiting")
        process.kill()

    with unfinished.alone(file, waiting=waiting) as locks:
        assert locks
    assert said == ["waiting"] and names(tmp_path) == []


# Libraries that write by themselves say in their own way that there is no room.


def arrow(path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"x": np.random.default_rng(0).random(1 << 16)}), path)


def numbers(path):
    np.zeros(1 << 16).tofile(path)


def numpy_file(path):
    np.save(path, np.zeros(1 << 16))


def faiss_index(path):
    import faiss

    index = faiss.IndexFlatIP(64)
    index.add(np.zeros((1 << 12, 64), np.float32))
    faiss.write_index(index, str(path))


def tensors(path):
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(1 << 16)}, path)


def tokens(path):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    Tokenizer(WordLevel({f"word {n}": n for n in range(1 << 12)})).save(str(path))


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x", bytes(1 << 20))


def workbook(path):
    from medcoder.tables.xlsx import SheetWriter

    writer = SheetWriter(["x"], title="x", guard=str, instead="?")
    for number in range(20000):
        writer.row((f"{number * 7919}",))
    writer.save(path)


@pytest.mark.parametrize(
    "write",
    [arrow, numbers, numpy_file, faiss_index, tensors, tokens, archive, workbook],
    ids=lambda write: write.__name__,
)
def test_whatever_finds_no_room_it_is_the_same_error(tmp_path, write):
    write(tmp_path / "imported")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, hard))
    try:
        with pytest.raises(DiskFull, match="no room left to write it"), disk_full(tmp_path / "x"):
            write(tmp_path / "x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_other_errors_are_not_taken_for_a_full_disk():
    assert no_room(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device"
    assert no_room(sqlite3.OperationalError("database or disk is full")) is not None
    assert no_room(OSError(errno.EROFS, "Read-only file system")) is None
    assert no_room(UsageError("a cell", values="No space left on device")) is None
    assert no_room(ValueError("5 requested")) is None
    assert no_room(None) is None
