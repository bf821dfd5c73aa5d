"""Directories written whole or not at all."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from medcoder import artefact, manifest, renames, unfinished
from medcoder.artefact import create, fingerprint, open_artefact, read_meta, verify
from medcoder.errors import ArtefactError, DiskFull, UsageError
from medcoder.files import write_json
from medcoder.unfinished import new_name
from support.containers import in_container, kill

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


MAKER = """
import sys
from pathlib import Path
from medcoder.artefact import create
from medcoder.errors import MedcoderError
try:
    with create(Path(sys.argv[1]), kind="box", version=1, overwrite="overwrite" in sys.argv) as it:
        (it.path / "a.txt").write_text("theirs")
        print("making", flush=True)
        sys.stdin.readline()
except MedcoderError as error:
    print(error)
else:
    print("made")
"""


@pytest.fixture(params=["process", "container"])
def maker(request):
    """Start processes that make an artefact until they are told to finish."""
    started = []

    def start(path, *words, at_work=True):
        if request.param == "process":
            process = subprocess.Popen(
                [sys.executable, "-c", MAKER, str(path), *words], stdin=-1, stdout=-1, text=True
            )
        else:
            process = in_container(MAKER, path, *words, stderr=None)
        started.append(process)
        if at_work:
            assert process.stdout.readline() == "making\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


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
        lock, partial = names(tmp_path)
        token = r"\.it\.[0-9a-f]{24}\."
        assert re.fullmatch(token + "lock", lock) and re.fullmatch(token + "partial", partial)
        assert draft.path == tmp_path / partial
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


def test_the_old_one_is_never_hidden(tmp_path, monkeypatch):
    path = make(tmp_path / "it", "old")
    hidden, renamed = [], []

    def watched(name):
        call = getattr(os, name)

        def then_look(source, target, **options):
            call(source, target, **options)
            renamed.append(name)
            hidden.append(not (path / "meta.json").exists())

        monkeypatch.setattr(os, name, then_look)

    watched("rename")
    watched("replace")
    make(path, "new", overwrite=True)
    assert renamed and not any(hidden)
    assert (path / "a.txt").read_text() == "new"


@pytest.fixture
def no_exchange(monkeypatch):
    """A file system that renames in the plain way alone."""
    monkeypatch.setattr(renames, "_renameat2", lambda: None)


def test_overwriting_by_plain_renames(tmp_path, no_exchange):
    path = make(tmp_path / "it", "old")
    make(path, "new", overwrite=True)
    assert names(tmp_path) == ["it"]
    assert (path / "a.txt").read_text() == "new"
    with pytest.raises(UsageError, match="exists"):
        make(path, "newer")


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.EIO, "broken")])
def test_an_interrupt_between_the_two_renames_puts_the_old_one_back(
    tmp_path, monkeypatch, no_exchange, error
):
    path = make(tmp_path / "it", "old")
    rename = artefact.rename_new

    def interrupted(source, target):
        if not target.exists():
            raise error
        rename(source, target)

    monkeypatch.setattr(artefact, "rename_new", interrupted)
    with pytest.raises(error if isinstance(error, type) else OSError):
        make(path, "new", overwrite=True)
    assert names(tmp_path) == ["it"]
    assert (path / "a.txt").read_text() == "old"


def test_who_has_the_old_one_open_goes_on_with_it(tmp_path):
    path = make(tmp_path / "it", "old")
    with (path / "a.txt").open() as before:
        make(path, "new", overwrite=True)
        assert before.read() == "old"


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


# Several at once


def test_another_that_is_at_work_is_left_alone(tmp_path, maker):
    """Both are process 1 of their containers, and neither can see the other."""
    path = tmp_path / "it"
    first = maker(path, "overwrite")
    second, _ = maker(path, "overwrite", at_work=False).communicate("\n")
    assert second == f"{path}: it is being made already. Wait until it is done\n"
    assert first.communicate("\n")[0] == "made\n"
    verify(path, kind=KIND)
    assert names(tmp_path) == ["it"]


def test_what_a_killed_one_leaves_goes_with_the_next(tmp_path, maker):
    path = tmp_path / "it"
    first = maker(path)
    assert len(names(tmp_path)) == 2
    kill(first)
    assert maker(path).communicate("\n")[0] == "made\n"
    assert names(tmp_path) == ["it"]


def test_of_two_that_did_not_see_each_other_one_wins(tmp_path, maker, monkeypatch):
    path = tmp_path / "it"
    slow = maker(path)
    monkeypatch.setattr(artefact, "sweep", lambda path: False)
    make(path, "quick")
    assert slow.communicate("\n")[0].startswith(f"{path}: it exists")
    verify(path, kind=KIND)
    assert (path / "a.txt").read_text() == "quick"
    assert names(tmp_path) == ["it"]


# What killed builds leave

A_DAY_AGO = time.time() - 24 * 3600 - 60


def leave(folder, name, token, stage, text="left", since=A_DAY_AGO):
    left = folder / f".{name}.{token}.{stage}"
    left.mkdir()
    (left / "a.txt").write_text(text)
    for path in (left / "a.txt", left):
        os.utime(path, (since, since))
    return left


def token():
    return new_name(artefact.Path("x")).suffixes[-2].removeprefix(".")


def test_leftovers_that_nobody_holds_are_swept(tmp_path):
    now = time.time()
    leave(tmp_path, "it", token(), "partial", since=now)
    (tmp_path / f".it.{token()}.lock").touch()
    kept = {
        leave(tmp_path, "other", token(), "partial").name,  # not beside what is being made
        leave(tmp_path, "it.v2", token(), "partial").name,
        leave(tmp_path, "it", token(), "backup").name,
        leave(tmp_path, "it", "x", "partial").name,
    }
    make(tmp_path / "it")
    assert set(names(tmp_path)) == kept | {"it"}


@pytest.mark.parametrize("number", [1, 4194304, os.getpid()], ids=["first", "last", "own"])
def test_leftovers_named_by_process_are_swept_when_a_day_old(tmp_path, number):
    """Earlier versions held no lock: whether such a process lives, another container knows."""
    left = leave(tmp_path, "it", number, "partial", since=time.time())
    make(tmp_path / "it")
    assert names(tmp_path) == [left.name, "it"]
    for path in (left / "a.txt", left):
        os.utime(path, (A_DAY_AGO, A_DAY_AGO))
    make(tmp_path / "it", overwrite=True)
    assert names(tmp_path) == ["it"]


def test_leftovers_of_another_machine_are_swept_when_a_day_old(tmp_path):
    """Some mounts keep locks to the machine: there, one that is at work looks like one killed."""
    other = "0" * 8 + token()[8:]
    left = leave(tmp_path, "it", other, "partial", since=time.time())
    make(tmp_path / "it")
    assert names(tmp_path) == [left.name, "it"]
    for path in (left / "a.txt", left):
        os.utime(path, (A_DAY_AGO, A_DAY_AGO))
    make(tmp_path / "it", overwrite=True)
    assert names(tmp_path) == ["it"]


def test_where_there_are_no_locks_only_what_is_a_day_old_is_swept(tmp_path, monkeypatch):
    import filelock

    def missing(*_, **__):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(filelock.FileLock, "acquire", missing)
    monkeypatch.setattr(unfinished, "_warned", set())
    fresh = leave(tmp_path, "it", token(), "partial", since=time.time())
    leave(tmp_path, "it", token(), "partial")
    with pytest.warns(UserWarning, match="has no locks. Let one process at a time") as warned:
        make(tmp_path / "it")
        make(tmp_path / "it", overwrite=True)
    assert len(warned) == 1
    assert names(tmp_path) == [fresh.name, "it"]


def test_names_with_brackets_and_long_ones_are_swept_too(tmp_path):
    for name in ("it[1]*", "long" * 60):
        left = new_name(tmp_path / name)
        left.mkdir()
        make(tmp_path / name)
        assert not left.exists()
    assert names(tmp_path) == ["it[1]*", "long" * 60]


def killed_between_renames(tmp_path, token):
    make(tmp_path / "it", "old").rename(tmp_path / f".it.{token}.old")
    leave(tmp_path, "it", token, "partial", "new")


@pytest.mark.parametrize(
    "name", [token(), "0" * 8 + token()[8:], "77"], ids=["here", "elsewhere", "process"]
)
def test_what_a_killed_build_had_moved_away_is_put_back(tmp_path, name):
    killed_between_renames(tmp_path, name)
    with pytest.raises(UsageError, match="exists"):
        make(tmp_path / "it", "newer")
    assert names(tmp_path) == ["it"]
    assert (tmp_path / "it" / "a.txt").read_text() == "old"


@pytest.mark.parametrize("name", [token(), "77"], ids=["here", "process"])
def test_or_when_it_is_opened(tmp_path, name):
    killed_between_renames(tmp_path, name)
    open_artefact(tmp_path / "it", kind=KIND, version=1)
    assert names(tmp_path) == ["it"]
    assert (tmp_path / "it" / "a.txt").read_text() == "old"


def test_where_it_cannot_be_put_back_the_error_says_where_it_is(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(errno.EROFS, "Read-only file system")

    killed_between_renames(tmp_path, name := token())
    monkeypatch.setattr(unfinished, "rename_new", refused)
    with pytest.raises(ArtefactError, match=rf"interrupted: .*/\.it\.{name}\.old\. Give that"):
        open_artefact(tmp_path / "it", kind=KIND, version=1)
    assert (tmp_path / f".it.{name}.old" / "a.txt").read_text() == "old"


def test_and_stays_when_the_next_build_fails(tmp_path):
    killed_between_renames(tmp_path, token())
    with (
        pytest.raises(ZeroDivisionError),
        create(tmp_path / "it", kind=KIND, version=1, overwrite=True),
    ):
        raise ZeroDivisionError
    assert names(tmp_path) == ["it"]
    verify(tmp_path / "it", kind=KIND)


def test_an_old_one_is_removed_where_the_new_one_is_in_place(tmp_path):
    make(tmp_path / "it")
    leave(tmp_path, "it", token(), "old")
    make(tmp_path / "it", "newer", overwrite=True)
    assert names(tmp_path) == ["it"]
    assert (tmp_path / "it" / "a.txt").read_text() == "newer"


def test_the_old_one_of_another_name_is_left_alone(tmp_path):
    left = leave(tmp_path, "it.v2", token(), "old")
    make(tmp_path / "it")
    assert names(tmp_path) == [left.name, "it"]
    assert (tmp_path / "it" / "a.txt").read_text() == "hello"


KILLED = """
import os, signal, sys
from pathlib import Path
from medcoder import artefact
calls = 0

def killed(name):
    call = getattr(artefact, name)

    def then_kill(*arguments, **options):
        if name != sys.argv[2]:
            return call(*arguments, **options)
        if sys.argv[3] == "after":
            call(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(artefact, name, then_kill)

killed(sys.argv[2])
with artefact.create(Path(sys.argv[1]), kind="box", version=1, overwrite=True) as draft:
    (draft.path / "a.txt").write_text("new")
"""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["_digests", "write_json", "rename_new", "exchange", "sync"])
def test_a_kill_at_any_step_of_finishing(tmp_path, step, moment):
    path = make(tmp_path / "it", "old")
    command = [sys.executable, "-c", KILLED, path, step, moment]
    if (step, moment) == ("rename_new", "after"):  # it raises, since there is an old one
        shutil.rmtree(path)
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    verify(path, kind=KIND)
    make(path, "next", overwrite=True)
    assert names(tmp_path) == ["it"]
    assert (path / "a.txt").read_text() == "next"


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
