"""Files that appear whole or not at all, and locks between processes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from medcoder.errors import DiskFull, MedcoderError, UsageError
from medcoder.unfinished import NO_LOCKS, sweep, unfinished, without_locks

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LOCK = "lock"
_SAID_OF_IT = re.compile(
    "|".join(
        [
            *(re.escape(os.strerror(number)) for number in sorted(_NO_ROOM)),
            "database or disk is full",  # SQLite
            r"\d+ requested and \d+ written",  # numpy
        ]
    )
)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` once all of it is on disk."""
    path = Path(path).expanduser().absolute()
    if path.is_dir():
        raise UsageError("it is a folder", where=path, remedy="Give the name of a file")
    with disk_full(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path)
        with unfinished(path) as partial:
            yield partial
            sync(partial)
            partial.replace(path)
            sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Replace a file by this text: readers see the old one or the new one, never half."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: object) -> None:
    """Replace a file by this value as JSON."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=1) + "\n")


@contextlib.contextmanager
def locked(path: Path, *, busy: MedcoderError | None = None) -> Iterator[None]:
    """Hold the lock of a file or a folder; the end of the process lets go of it in any case.

    The lock of a folder is the file `lock` in it, that of a file a hidden file beside it. Where
    the disk has no locks, there is nothing to wait for, and a warning says so.

    busy: raised at once if another has the lock; without it, wait
    """
    from filelock import FileLock, Timeout

    path = Path(path).absolute()
    if path.is_dir():  # used by one service or one command at a time
        lock = FileLock(path / _LOCK, mode=0o600, thread_local=False, fallback_to_soft=False)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whoever may write to the folder may change the file, so all of them may lock it.
        name = path.with_name(f".{path.name}.{_LOCK}")
        lock = FileLock(name, mode=0o666, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(blocking=busy is None)
    except Timeout:
        assert busy is not None
        raise busy from None
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in NO_LOCKS:
            raise
        without_locks(path.parent)
    try:
        yield
    finally:
        lock.release()


def no_room(error: BaseException | None) -> str | None:
    """What an error says of a full disk, a quota or a limit on the size of files; None: nothing.

    Libraries that write by themselves say it in errors of their own, with the words of the system.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror if error.errno in _NO_ROOM else None
    if error is None or isinstance(error, MedcoderError):
        return None
    said = _SAID_OF_IT.search(str(error))
    return said[0] if said else None


@contextlib.contextmanager
def disk_full(path: Path, *, kept: str | None = None) -> Iterator[None]:
    """Turn "no space left on device" into an error that says where and how much is left.

    kept: what is left of the work, in place of what an inner call says of its part
    """
    try:
        yield
    except Exception as error:
        cause = error.__cause__ if isinstance(error, DiskFull) and kept else error
        said = no_room(cause)
        if said is None:
            raise
        there = next(parent for parent in [path, *path.parents] if parent.exists())
        free = shutil.disk_usage(there).free / 1e9
        raise DiskFull(
            "no room left to write it",
            where=path,
            values=f"{free:.2f} GB free, {said}",
            remedy=f"{kept or 'Nothing was kept of it'}. Free some space, or write to another disk",
        ) from cause


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
