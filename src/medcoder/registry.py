"""Tables of alternatives: a name stands for "module:attribute", imported when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from medcoder.errors import MissingExtra, UnknownName, UsageError


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

    def add(self, name: str, target: str, *, extra: str | None = None) -> None:
        """Enter an alternative of your own, for this process.

        target: "module:attribute", imported when it is asked for
        extra: the extra of medcoder that installs what it needs

        >>> shapes = Registry("shape", {})
        >>> shapes.add("path", "pathlib:PurePath")
        >>> list(shapes)
        ['path']
        """
        module, _, attribute = target.partition(":")
        if not module or not attribute:
            raise UsageError(
                f"where a {self._noun} is must be written as module:attribute", values=repr(target)
            )
        if self._entries.get(name, target) != target:
            raise UsageError(
                f"a {self._noun} has this name already", values=repr(name), remedy="Give another"
            )
        self._entries[name] = target
        if extra is not None:
            self._extras[name] = extra

    def load(self, name: str) -> Any:
        """What the name stands for; an error suggests the nearest name."""
        if name not in self._entries:
            raise unknown(self._noun, name, sorted(self._entries))
        module, _, attribute = self._entries[name].partition(":")
        try:
            return getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            extra = self._extras.get(name)
            if extra is None or (error.name or "").startswith("medcoder"):
                raise
            remedy = f"Install it with: pip install 'medcoder[{extra}]'"
            raise MissingExtra(
                f"what this {self._noun} needs is not installed",
                values=[repr(name), error.name],
                remedy=remedy,
                message=f"the {self._noun} {name!r} needs {error.name}, which is not installed. "
                + remedy,
            ) from error


def unknown(noun: str, name: str, known: Sequence[str]) -> UnknownName:
    """The error for a name that is not among the known ones, with the nearest of them."""
    near = get_close_matches(name, known, n=1)
    names = f"There are: {', '.join(known) or 'none'}"
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return UnknownName(
        f"no {noun} has this name",
        values=repr(name),
        remedy=f"Did you mean {near[0]!r}? {names}" if near else names,
        message=f"no {noun} is called {name!r}{hint} {names}",
    )
