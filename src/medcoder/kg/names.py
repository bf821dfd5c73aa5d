"""The small files of a graph: its lists of names, its counts, the report of its build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from medcoder.errors import ArtefactError
from medcoder.manifest import read_json

_NAMES = 1 << 24  # of a list: terms and edges refer to them by 16 or 32 bits
T = TypeVar("T")


class Names:
    """`names.json`: lists of words, and of rows of words."""

    def __init__(self, path: Path) -> None:
        self._file = path / "names.json"
        self._stored = read_dictionary(self._file)

    def words(self, key: str) -> tuple[str, ...]:
        words = self._list(key)
        if not all(isinstance(word, str) for word in words):
            raise self._wrong(key)
        return tuple(words)

    def rows(self, key: str, make: Callable[..., T]) -> tuple[T, ...]:
        rows = self._list(key)
        if not all(isinstance(row, list) and all(isinstance(v, str) for v in row) for row in rows):
            raise self._wrong(key)
        try:
            return tuple(make(*row) for row in rows)
        except TypeError as error:  # too few or too many of them
            raise self._wrong(key) from error

    def _list(self, key: str) -> list[Any]:
        entries = self._stored.get(key)
        if not isinstance(entries, list) or len(entries) > _NAMES:
            raise self._wrong(key)
        return entries

    def _wrong(self, key: str) -> ArtefactError:
        return ArtefactError(
            "it is not as it should be", where=self._file, values=f"its list of {key}",
            remedy="Copy or build it again",
        )  # fmt: skip


def read_dictionary(file: Path) -> dict[str, Any]:
    """What a file of JSON holds, which must be a dictionary."""
    try:
        stored = read_json(file)
        if not isinstance(stored, dict):
            raise ValueError("it is no dictionary")
    except (OSError, ValueError) as error:
        raise ArtefactError(
            "it cannot be read", where=file, values=error, remedy="Copy or build it again"
        ) from error
    return stored
