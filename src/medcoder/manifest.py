"""What a directory says of itself in `meta.json`, read as what a stranger wrote.

Nothing in it is believed: names of files stay inside the directory and are those of plain files,
sizes are those on disk, the digest of the whole is that of its parts. Whoever opens a directory
compares the checksums of its small files; `medcoder check` compares the digests of all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from medcoder.errors import ArtefactError

META = "meta.json"
SEAL = "seal"
SMALL = 4 << 20  # bytes of a file that is compared with its checksum whenever it is opened
_JSON_MOST = 64 << 20  # bytes of JSON that are read
_DIGEST = re.compile(r"[0-9a-f]{32}")
_AGAIN = "Copy or build it again"


class Checksums(NamedTuple):
    """Of a file: the digest that identifies it, and a sum that is six times as fast to compare."""

    blake2b: str
    crc32: int


def read_json(file: Path, *, most: int = _JSON_MOST) -> Any:
    """The JSON in a file: a plain file, not too large, without NaN, not nested without end.

    What is wrong is a ValueError or an OSError, for the caller to say where.
    """
    # Without waiting: a pipe would never have a writer.
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(handle, "rb") as stream:  # noqa: PTH123 (a handle, not a path)
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is not a file")
        if about.st_size > most:
            raise ValueError(f"it has {about.st_size:,} bytes, more than the {most:,} it may have")
        data = stream.read(most)
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def check_meta(path: Path, meta: Mapping[str, Any]) -> None:
    """Whether what every directory says is of the right kind, and fits together."""
    files = meta.get("files")
    if not isinstance(files, dict) or not all(map(_is_entry, files.values())):
        _refuse(path, "its list of files is not as it should be")
    for name in files:
        if not is_inside(name):
            _refuse(path, "its list of files names something outside of it", repr(name)[:200])
    parents = meta.get("parents", {})
    if not isinstance(parents, dict) or not all(isinstance(v, str) for v in parents.values()):
        _refuse(path, "its list of parents is not as it should be")
    if meta.get("fingerprint") != fingerprint_of(files):
        _refuse(path, "its list of files is not the one that it was made with")
    if SEAL in meta and meta[SEAL] != seal_of(meta):
        _refuse(path, "it was changed or damaged")


def _refuse(path: Path, what: str, values: object = None) -> NoReturn:
    raise ArtefactError(what, where=Path(path) / META, values=values, remedy=_AGAIN)


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and type(entry.get("size")) is int
        and entry["size"] >= 0
        and isinstance(entry.get("blake2b"), str)
        and _DIGEST.fullmatch(entry["blake2b"]) is not None
        and type(entry.get("crc32", 0)) is int
    )


def is_inside(name: str) -> bool:
    """Whether a name, with forward slashes, is of something in the directory.

    >>> [is_inside(name) for name in ("a", "b/c", "../a", "/a", "b//c", "b/./c", "", "a\\\\b")]
    [True, True, False, False, False, False, False, False]
    """
    parts = name.split("/")
    plain = name.isprintable() and not set(name) & set(":\\")
    return plain and all(part not in ("", ".", "..") for part in parts)


def check_files(path: Path, meta: Mapping[str, Any], *, needs: Iterable[str] = ()) -> None:
    """Whether all files are there, plain, and as long as they were; `needs` are among them."""
    files: dict[str, dict[str, Any]] = meta["files"]
    folder = Path(path)
    for name in needs:
        if name not in files:
            _damaged(meta, folder / name, "it is missing")
    folders: set[str] = set()  # that are known to be no links to elsewhere
    for name, entry in files.items():
        parent = ""
        for part in name.split("/")[:-1]:
            parent = f"{parent}{part}/"
            if parent not in folders:
                _check_link(folder, parent)
                folders.add(parent)
        file = folder / name
        size = _size(folder, name)
        if size != entry["size"]:
            has = "it is missing" if size < 0 else f"it has {size:,} bytes, not {entry['size']:,}"
            _damaged(meta, file, has)


def _size(folder: Path, name: str) -> int:
    """Of a plain file of a directory; -1 if there is none."""
    try:
        about = (folder / name).lstat()
        if stat.S_ISLNK(about.st_mode):
            _check_link(folder, name)
            about = (folder / name).stat()
    except (FileNotFoundError, NotADirectoryError):
        return -1
    return about.st_size if stat.S_ISREG(about.st_mode) else -1


def _check_link(folder: Path, name: str) -> None:
    path = folder / name
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise ArtefactError(
            "it is a link to something outside of its directory",
            where=path,
            remedy="Copy the directory with what its links lead to: cp -rL",
        )


def _damaged(meta: Mapping[str, Any], file: Path, has: str) -> NoReturn:
    kind = meta["kind"]
    what = f"the {kind} {'are' if kind.endswith('s') else 'is'} damaged"
    raise ArtefactError(what, where=file, values=has, remedy=_AGAIN)


def check_small(path: Path, meta: Mapping[str, Any]) -> None:
    """Whether the small files are what they were.

    Those of a directory inside, with a list of its own, are compared when that is opened.
    """
    files: dict[str, dict[str, Any]] = meta["files"]
    buffer = memoryview(bytearray(1 << 18))  # stays in the cache
    inner = tuple(name[: -len(META)] for name in files if name.endswith(f"/{META}"))
    for name, entry in files.items():
        if entry["size"] > SMALL or (name.startswith(inner) and not name.endswith(f"/{META}")):
            continue
        file = Path(path) / name
        if "crc32" in entry:
            same = _crc32(file, buffer) == entry["crc32"]
        else:  # made by medcoder 0.2 or before
            same = checksums(file).blake2b == entry["blake2b"]
        if not same:
            raise changed(file)


def _crc32(file: Path, buffer: memoryview) -> int:
    crc = 0
    with file.open("rb", buffering=0) as stream:
        while size := stream.readinto(buffer):
            crc = zlib.crc32(buffer[:size], crc)
    return crc


def check_file(path: Path, entry: Mapping[str, Any]) -> None:
    """Whether a file is what it was, whatever its size."""
    if checksums(path).blake2b != entry["blake2b"]:
        raise changed(path)


def changed(file: Path) -> ArtefactError:
    return ArtefactError("it was changed or damaged", where=file, remedy=_AGAIN)


def checksums(file: Path) -> Checksums:
    digest, crc = hashlib.blake2b(digest_size=16), 0
    with file.open("rb", buffering=0) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            crc = zlib.crc32(block, crc)
    return Checksums(digest.hexdigest(), crc)


def fingerprint_of(files: Mapping[str, Mapping[str, Any]]) -> str:
    """What identifies the content of a directory."""
    lines = "".join(f"{name} {entry['blake2b']}\n" for name, entry in sorted(files.items()))
    return hashlib.blake2b(lines.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def seal_of(meta: Mapping[str, Any]) -> str:
    """The digest of all that `meta.json` says beside it; those of medcoder 0.2 have none."""
    said = json.dumps({k: v for k, v in meta.items() if k != SEAL}, sort_keys=True)
    return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()
