"""Single files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from medcoder.artefact import disk_full
from medcoder.errors import UsageError


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` once all of it is on disk."""
    path = Path(path).expanduser().absolute()
    if path.is_dir():
        raise UsageError(f"{path} is a folder. Give the name of a file")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with disk_full(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            sync(partial)
            partial.replace(path)
            sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
