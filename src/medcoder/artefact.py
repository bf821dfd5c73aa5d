"""Directories written whole or not at all, which know what made them and from what.

A directory under construction has a hidden name beside its final one; it is renamed when all of
it is on disk. One that is overwritten changes places with the new one in a single step where the
file system can do that; where it cannot, whoever finds neither puts the old one back. Processes of
this machine that have the old one open go on with it. `meta.json` holds the kind, the format
version, what made it, the fingerprint of its content and those of its parents.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medcoder.errors import ArtefactError, UsageError
from medcoder.files import disk_full, sync, write_json
from medcoder.manifest import (
    META,
    SEAL,
    check_file,
    check_files,
    check_meta,
    check_small,
    checksums,
    fingerprint_of,
    read_json,
    seal_of,
)
from medcoder.renames import exchange, rename_new
from medcoder.unfinished import moved_away, remove, sweep, unfinished

__all__ = ["META", "Draft", "check_free", "create", "fingerprint", "open_artefact", "read_meta"]
__all__ += ["verify"]
_BETWEEN_RENAMES = 5.0  # seconds that a process at work may need for the second; it takes none


@dataclass
class Draft:
    """A directory under construction. Write files under `path`; fill `meta` as you go."""

    path: Path
    meta: dict[str, Any] = field(default_factory=dict)
    scratch: Path = field(init=False)  # temporary files: gone before the directory appears

    def __post_init__(self) -> None:
        self.scratch = self.path / ".scratch"
        self.scratch.mkdir(parents=True)


@contextlib.contextmanager
def create(
    path: Path,
    *,
    kind: str,
    version: int,
    parents: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> Iterator[Draft]:
    """Make the artefact at `path`; on any error, or an interrupt, nothing is left of it."""
    path = Path(path).absolute()
    made_by_another = sweep(path)
    check_free(path, kind=kind, overwrite=overwrite)
    if made_by_another:
        raise UsageError("it is being made already", where=path, remedy="Wait until it is done")
    with disk_full(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(path) as partial:
            draft = Draft(partial)
            yield draft
            shutil.rmtree(draft.scratch)
            files = _digests(draft.path)
            made = {
                "kind": kind,
                "version": version,
                "fingerprint": fingerprint_of(files),
                "parents": dict(parents or {}),
                "files": files,
                **draft.meta,
            }
            write_json(draft.path / META, made | {SEAL: seal_of(made)})
            for entry in draft.path.rglob("*"):
                sync(entry)
            sync(draft.path)
            _put(draft.path, path, kind=kind, overwrite=overwrite)
            sync(path.parent)


def _put(made: Path, path: Path, *, kind: str, overwrite: bool) -> None:
    """Give a finished directory its name; what had it before is left to be removed."""
    old = made.with_suffix(".old")
    while True:
        try:
            rename_new(made, path)
            return
        except FileExistsError:
            check_free(path, kind=kind, overwrite=overwrite)  # others may have come before
        with contextlib.suppress(FileNotFoundError):  # moved meanwhile by another that overwrites
            if exchange(made, path):
                return
            remove(old)
            path.rename(old)


def open_artefact(
    path: Path, *, kind: str, version: int, needs: Iterable[str] = ()
) -> dict[str, Any]:
    """The meta data of an artefact, after checking that it is of this kind and whole.

    Files up to 4 MiB are compared with their checksums; `verify` compares all.

    needs: files that must be among its own
    """
    meta = _said(path, kind=kind)
    if meta.get("version") != version:
        raise ArtefactError(
            "its format is of another version",
            where=path,
            values=f"it has format {meta.get('version')}, this medcoder reads format {version}",
            remedy="Build it again, or use the medcoder that made it "
            f"({meta.get('made_by', 'unknown')})",
        )
    check_meta(path, meta)
    check_files(path, meta, needs=needs)
    check_small(path, meta)
    return meta


def read_meta(path: Path, *, kind: str) -> dict[str, Any]:
    """The meta data of an artefact of this kind; its files are not looked at."""
    meta = _said(path, kind=kind)
    check_meta(path, meta)
    return meta


def _said(path: Path, *, kind: str) -> dict[str, Any]:
    """What `meta.json` says, which may be wrong in all but the kind."""
    file = Path(path) / META
    _put_back(Path(path).absolute())
    try:
        meta = read_json(file)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtefactError(
            f"it is not {_a(kind)}: it has no {META}", where=path, remedy="Check the path"
        ) from error
    except (ValueError, OSError) as error:
        raise ArtefactError(
            "it cannot be read", where=file, values=error, remedy="Copy or build it again"
        ) from error
    if not isinstance(meta, dict) or meta.get("kind") != kind or "files" not in meta:
        stored = meta.get("kind") if isinstance(meta, dict) else None
        other = "a directory of something else"
        if isinstance(stored, str) and stored.isprintable() and 0 < len(stored) < 40:
            other = _a(stored)
        raise ArtefactError(
            f"it is not {_a(kind)}",
            where=path,
            values=other,
            message=f"{path}: it is {other}, not {_a(kind)}",
        )
    return meta


def fingerprint(path: Path, *, kind: str) -> str:
    """What identifies the content of an artefact, wherever it lies and whenever it was made."""
    value: str = read_meta(path, kind=kind)["fingerprint"]
    return value


def verify(path: Path, *, kind: str) -> None:
    """Read every file of an artefact and compare it with its digest."""
    meta = read_meta(path, kind=kind)
    check_files(path, meta)
    for name, entry in meta["files"].items():
        check_file(Path(path) / name, entry)


def _a(kind: str) -> str:
    """The kind with its article."""
    if kind.endswith("s"):
        return kind
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _digests(folder: Path) -> dict[str, dict[str, Any]]:
    """Size and checksums of every file; the name is relative and uses forward slashes."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    with ThreadPoolExecutor() as pool:  # hashing lets go of the interpreter lock
        return {
            file.relative_to(folder).as_posix(): {"size": file.stat().st_size} | sums._asdict()
            for file, sums in zip(files, pool.map(checksums, files), strict=True)
        }


def check_free(path: Path, *, kind: str, overwrite: bool) -> None:
    """Whether an artefact may be put at `path`."""
    if path.exists() and not overwrite:
        raise UsageError(
            "it exists",
            where=path,
            remedy="Choose another place, or allow it to be overwritten",
        )
    if path.exists() and any(path.iterdir() if path.is_dir() else [path]):
        _said(path, kind=kind)  # never overwrite what is not ours; what is damaged may go


def _put_back(path: Path) -> None:
    """See that what an overwrite which was killed between two renames had moved away is back."""
    for _ in range(round(_BETWEEN_RENAMES * 100)):
        if moved_away(path) is None:
            return
        if not sweep(path):
            break
        time.sleep(0.01)
    if (old := moved_away(path)) is not None:
        raise ArtefactError(
            "overwriting it was interrupted",
            where=path,
            values=f"what it was lies in {old}",
            remedy="Give that folder its name back, or build it again",
        )
