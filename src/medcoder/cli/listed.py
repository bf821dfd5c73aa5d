"""Options that take several values at once: `--models A B C` as well as `--models A --models B`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand


class Listed(TyperCommand):
    """A command whose repeatable options take all words up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = {
            name
            for parameter in self.params
            if getattr(parameter, "multiple", False)
            for name in parameter.opts
        }
        return super().parse_args(ctx, spread(args, names))


def spread(words: Sequence[str], names: set[str]) -> list[str]:
    """Repeat the option before each of its values.

    >>> spread(["--models", "a", "b", "--out", "o"], {"--models"})
    ['--models', 'a', '--models', 'b', '--out', 'o']
    """
    found: list[str] = []
    option: str | None = None  # the one whose values these are
    first = False
    for word in words:
        if word.startswith("-") and word != "-":
            name, equals, _ = word.partition("=")
            option, first = (name, not equals) if name in names else (None, False)
            found.append(word)
        elif option is None or first:
            found.append(word)
            first = False
        else:
            found += [option, word]
    return found
