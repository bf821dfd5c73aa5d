"""Tables of alternatives: a name stands for "module:attribute", imported when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from medcoder.errors import MissingExtra, UnknownName


class Registry(Mapping[str, str]):
    """Name -> "module:attribute". Adding an alternative is one file and one line.

    >>> shapes = Registry("shape", {"path": "pathlib:PurePath"})
    >>> shapes.load("path").__name__
    'PurePath'
    >>> shapes.load("pth")
    Traceback (most recent call last):
    medcoder.errors.UnknownName: no shape is called 'pth'; did you mean 'path'? There are: path
    """

    def __init__(
        self, noun: str, entries: Mapping[str, str], *, extras: Mapping[str, str] | None = None
    ) -> None:
        """`extras` maps a name to the extra of medcoder that installs what it needs."""
        self._noun = noun
        self._entries = dict(entries)
        self._extras = dict(extras or {})

    def __getitem__(self, name: str) -> str:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, name: str) -> Any:
        if name not in self._entries:
            near = get_close_matches(name, self._entries, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            known = ", ".join(sorted(self._entries))
            raise UnknownName(f"no {self._noun} is called {name!r}{hint} There are: {known}")
        module, _, attribute = self._entries[name].partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            extra = self._extras.get(name)
            if extra is None or (error.name or "").startswith("medcoder"):
                raise
            raise MissingExtra(
                f"the {self._noun} {name!r} needs {error.name}, which is not installed. "
                f"Install it with: pip install 'medcoder[{extra}]'"
            ) from error
