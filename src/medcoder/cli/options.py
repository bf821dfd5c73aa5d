"""Options that commands share, and what people write for them, as values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from medcoder.errors import UsageError

_SIZE = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([KMG]?)i?B?\s*", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Graph = Annotated[
    Path | None,
    typer.Option(
        "--kg",
        envvar="MEDCODER_KG",
        help="Directory of the graph. Without it: the bundled one, built on first use.",
    ),
]

Index = Annotated[
    Path | None,
    typer.Option(
        "--index",
        envvar="MEDCODER_INDEX",
        help="Directory of the index. Without it: the bundled one, built on first use.",
    ),
]


def name_list(option: str, text: str | None) -> list[str] | None:
    """Names between commas; None where the option was not given."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option} {text!r} names none: write them with commas between")
    return names


def column_pair(text: str) -> tuple[str, str]:
    """Our name of a column and the file's."""
    ours, equals, theirs = text.partition("=")
    if not (equals and ours.strip() and theirs.strip()):
        raise UsageError(f"--column {text!r}: write OURS=THEIRS, as in term=label")
    return ours.strip(), theirs


def byte_size(text: str) -> int:
    """Bytes of "2GB", "512 MB" or "1.5g"."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(f"--memory {text!r} is not a size such as 2GB or 512MB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def user_path(path: Path) -> Path:
    """The path with a leading ~ expanded, as shells do not in `--out=~/umls.kg`."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise UsageError(f"{path}: there is no such home directory") from error


def only_for(option: str, given: object, source: str, sources: Sequence[str]) -> None:
    """An option that none of the sources looks at is a mistake."""
    if given and source not in {spec.partition("=")[0] for spec in sources}:
        raise UsageError(f"{option} is for the source {source!r}, which is not among those to read")


class MultiValue(TyperCommand):
    """A command whose repeatable options take all words up to the next option.

    `--models A B C` is `--models A --models B --models C`.
    """

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
    spread_words: list[str] = []
    option: str | None = None  # whose values these are
    first = False
    for word in words:
        if word.startswith("-") and word != "-":
            name, equals, _ = word.partition("=")
            option, first = (name, not equals) if name in names else (None, False)
            spread_words.append(word)
        elif option is None or first:
            spread_words.append(word)
            first = False
        else:
            spread_words += [option, word]
    return spread_words
