"""Unfinished files and folders: names of their own, and locks that tell who is at work.

What is begun for `graph` lies beside it as `.graph.TOKEN.partial`. A token is random, and whoever
made it holds the lock of the file `.graph.TOKEN.lock` until all is done. The end of a process, in
whatever way, lets go of its locks: what nobody holds was left by one that was killed, and goes when
the place is used next. Numbers of processes say nothing, since containers count from one.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from medcoder.errors import MedcoderError
from medcoder.renames import rename_new

# What has no holder that can be asked is taken for left behind when nothing in it has changed for
# so long: where there are no locks, from another machine, and from versions that had none.
LEFT_BEHIND = 24 * 3600.0
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}  # of a file system
_TOKEN = r"[0-9a-f]{24}"
_PID = r"[0-9]{1,10}"  # versions before 0.3 named what they began by the number of the process
_STAGE = "partial|old|lock|left|vectors"
_NAME = re.compile(rf"\.(.+)\.(?:{_TOKEN}|{_PID})\.(?:{_STAGE})", re.DOTALL)
_LONGEST = 180  # bytes of a name that leave room for a token
_warned: set[int] = set()  # devices


class _Left(NamedTuple):
    path: Path
    token: str
    stage: str


class _Held(MedcoderError):
    """Another has the lock."""


class _Replaced(Exception):
    """The lock is that of a file which was removed."""


def new_name(path: Path, stage: str = "partial") -> Path:
    """A hidden name beside `path` that nobody has."""
    return path.with_name(f".{_stem(path)}.{_machine()}{secrets.token_hex(8)}.{stage}")


@contextlib.contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A name for what is to become `path`; what is there at the end, and not renamed, goes."""
    partial = new_name(path)
    with alone(partial.with_suffix(".lock")):
        try:
            yield partial
        finally:
            _settle(path, [partial, partial.with_suffix(".old")])


@contextlib.contextmanager
def alone(
    file: Path,
    *,
    busy: MedcoderError | None = None,
    waiting: Callable[[], None] | None = None,
) -> Iterator[bool]:
    """Hold the lock of a file that is there only as long as somebody holds it.

    Gives whether there are locks. Where there are none, nobody is kept out, and a warning says so.

    busy: raised at once if another has the lock; without it, wait
    waiting: called once before
    """
    from filelock import BaseFileLock, FileLock, Timeout

    def is_this(handle: int) -> None:
        # Whoever had it before may have removed the file: then it keeps nobody out.
        try:
            same = os.path.samestat(os.fstat(handle), file.stat())
        except FileNotFoundError:
            same = False
        if not same:
            raise _Replaced

    lock: BaseFileLock | None = None
    wait = False
    while lock is None:
        # Whoever may write to the folder may do what the lock is for.
        new = FileLock(
            file, mode=0o666, thread_local=False, fallback_to_soft=False, on_acquired=is_this
        )
        try:
            new.acquire(blocking=wait)
            lock = new
        except _Replaced:
            continue
        except Timeout:
            if busy is not None:
                raise busy from None
            wait = True
            if waiting is not None:
                waiting()
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno not in NO_LOCKS:
                raise
            without_locks(file.parent)
            break
    try:
        yield lock is not None
    finally:
        # While it is held: whoever waits for it sees that it is gone, and makes another.
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
        if lock is not None:
            lock.release()


def without_locks(folder: Path) -> None:
    """Say, once for each, that a file system has no locks."""
    device = folder.stat().st_dev
    if device not in _warned:
        _warned.add(device)
        warnings.warn(
            f"{folder}: this file system has no locks. Let one process at a time write there; "
            "what a killed process leaves is removed when it is a day old",
            stacklevel=2,
        )


def sweep(path: Path) -> bool:
    """Remove what the killed left beside `path`, and put back what an overwrite had moved away.

    Gives whether somebody is making `path` now.
    """
    tokens: dict[str, list[_Left]] = {}
    for left in leftovers(path):
        tokens.setdefault(left.token, []).append(left)
    held = False
    for token, several in tokens.items():
        files = [left.path for left in several if left.stage != "lock"]
        if not re.fullmatch(_TOKEN, token):
            _settle(path, files, keep_new=True)
            continue
        try:
            with alone(several[0].path.with_suffix(".lock"), busy=_Held("held")) as locks:
                _settle(path, files, keep_new=not (locks and token.startswith(_machine())))
        except _Held:  # by its maker, or by another who sweeps it and has renamed it by now
            held |= any(file.suffix == ".partial" and os.path.lexists(file) for file in files)
        except OSError:  # not ours to remove: no reason to stop
            pass
    return held


def sweep_folder(folder: Path, begins: str) -> None:
    """Sweep beside all names that begin so, whether they are there or not."""
    begun = [name for name in _hidden(folder) if name.lstrip(".").startswith(begins)]
    for name in {match[1] for name in begun if (match := _NAME.fullmatch(name))}:
        sweep(folder / name)
    for file in (folder / name for name in begun if not re.search(rf"\.{_TOKEN}\.\w+$", name)):
        if file.suffix == ".lock":  # goes when we let go of it
            with contextlib.suppress(_Held, OSError), alone(file, busy=_Held("held")):
                pass
        elif is_left_behind(file):
            remove(file)


def leftovers(path: Path) -> list[_Left]:
    """What lies beside `path` under names of the unfinished, the latest first."""
    stem = re.escape(_stem(path))
    pattern = re.compile(rf"\.{stem}\.({_TOKEN}|{_PID})\.({_STAGE})", re.DOTALL)
    found = [
        _Left(path.with_name(name), match[1], match[2])
        for name in _hidden(path.parent)
        if (match := pattern.fullmatch(name))
    ]
    return sorted(found, key=lambda left: (_changed(left.path), left.path), reverse=True)


def moved_away(path: Path) -> Path | None:
    """Where an overwrite that was stopped between two renames has left what was at `path`."""
    if os.path.lexists(path):
        return None
    return next((left.path for left in leftovers(path) if left.stage == "old"), None)


def is_left_behind(path: Path) -> bool:
    """Whether nothing of a file or a folder has changed for a day."""
    inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else ()
    latest = max(map(_changed, [path, *inside]))
    return latest < time.time() - LEFT_BEHIND


def remove(path: Path) -> None:
    """Remove a file or a folder as far as we may."""
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def remove_at_once(folder: Path, *, beside: Path) -> None:
    """Remove a folder; a kill on the way leaves none of it under its name.

    beside: what it was for; the next sweep there takes the rest
    """
    left = new_name(beside, "left")
    folder.rename(left)
    remove(left)


def _settle(path: Path, files: list[Path], *, keep_new: bool = False) -> None:
    """Remove files of one token; what was at `path` goes back where nothing else is there."""
    for file in files:
        if file.suffix == ".old" and not os.path.lexists(path):
            with contextlib.suppress(OSError):
                rename_new(file, path)
        elif not keep_new or is_left_behind(file):
            left = file.with_suffix(".left")  # so that nobody takes it for work that goes on
            with contextlib.suppress(OSError):
                file.rename(left)
                remove(left)


def _hidden(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.startswith(".")]
    except OSError:
        return []


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0


def _stem(path: Path) -> str:
    """The name of `path`, or what stands for it where that is very long."""
    name = os.fsencode(path.name)
    return path.name if len(name) <= _LONGEST else hashlib.blake2b(name, digest_size=16).hexdigest()


@functools.cache
def _machine() -> str:
    """What tells machines apart, and one start of a machine from the next.

    Some mounts keep the locks of each machine to itself. So what another machine holds may look as
    if nobody did.
    """
    try:
        running = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        running = platform.node()
    return hashlib.blake2b(running.encode(), digest_size=4).hexdigest()
