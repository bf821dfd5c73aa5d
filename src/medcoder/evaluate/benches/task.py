"""What every bench is made of: a data card, its metrics, and a task that reads and measures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from medcoder.errors import InputError
from medcoder.evaluate.metrics import Estimate, mean
from medcoder.evaluate.results import OOV, Context, Embedding, Figure, Linker, Result
from medcoder.tables.text import check_columns, read_lines


@dataclass(frozen=True)
class Metric:
    """A figure of a bench, and how people read it. Scores hold it as it was computed."""

    name: str
    scale: float = 100.0  # by which it is multiplied to be shown
    unit: str = "%"  # "" for none
    counted: bool = False  # shown as so many of all items

    def text(self, value: float, low: float, high: float, n: int) -> str:
        """The value with its interval.

        >>> Metric("acc@1").text(0.75, 0.5, 1.0, 4)
        '75.00 (50.0 to 100.0)'
        >>> Metric("hits", scale=1, unit="", counted=True).text(13, 11, 15, 15)
        '13 of 15'
        """
        if self.counted:
            return f"{self.scale * value:.0f} of {n}"
        low, high = low * self.scale, high * self.scale
        return f"{value * self.scale:.2f} ({low:.1f} to {high:.1f})"


@dataclass(frozen=True, kw_only=True)
class Needed:
    """One file of a bench."""

    path: str  # below the folder of the bench
    columns: tuple[str, ...] = ()  # of its header, for tables
    rows: int | None = None  # without the header; None: any
    sha256: str | None = None  # None: any content
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Card:
    """A data set that is never part of the project."""

    name: str
    title: str
    about: str  # the protocol, in a few sentences
    origin: str  # where to get it
    licence: str
    files: tuple[Needed, ...]
    folder: str = ""  # below the folder of all data; by default the name
    metrics: tuple[Metric, ...] = ()  # those to show first
    by_language: str = ""  # metric that is drawn by language and corpus, where it has both
    curves: bool = True  # scores of its predictions are worth a reliability curve
    reference: str = ""  # what to cite

    def folder_in(self, data: Path) -> Path:
        """Its folder below the folder of all data, which may also be that folder itself."""
        inside = data / (self.folder or self.name)
        return inside if inside.is_dir() else data

    def has_data(self, data: Path) -> bool:
        """Whether its own folder has all that it must have, whatever that holds."""
        folder = data / (self.folder or self.name)
        return all(needed.optional or (folder / needed.path).exists() for needed in self.files)

    def check(self, data: Path, *, pinned: bool = True) -> Path:
        """The folder with all of its files, or an error that says what is missing or wrong.

        pinned: they must also be the very files that the published figures are for
        """
        folder = self.folder_in(data)
        for needed in self.files:
            file = folder / needed.path
            if not file.exists():
                if needed.optional:
                    continue
                raise InputError(
                    f"{self.title} needs {needed.path}, which is not there",
                    file=file,
                    remedy=f"Get it from {self.origin} ({self.licence})",
                )
            if needed.columns:
                remedy = "The first line must name the columns, separated by tabs"
                header = read_lines(file)[0].split("\t")
                check_columns(needed.columns, header, file=file, remedy=remedy)
            if pinned:
                self._check_content(file, needed)
        return folder

    def _check_content(self, file: Path, needed: Needed) -> None:
        remedy = (
            f"Get it again from {self.origin}. To run on it as it is, allow other data, "
            "and do not compare the figures with those of others"
        )
        rows = None if needed.rows is None else sum(map(bool, read_lines(file)[1:]))
        if rows != needed.rows:
            raise InputError(
                f"it has {rows:,} rows, and the figures of {self.title} are for {needed.rows:,}",
                file=file,
                remedy=remedy,
            )
        if needed.sha256 is not None and (digest := sha256(file)) != needed.sha256:
            raise InputError(
                f"this is not the file that the figures of {self.title} are for: "
                f"its sha256 is {digest}, not {needed.sha256}",
                file=file,
                remedy=remedy,
            )


def fingerprint(folder: Path, files: Iterable[Path]) -> str:
    """Of the names and the content of files, in any order."""
    digest = hashlib.sha256()
    for file in sorted(files):
        name = file.relative_to(folder) if file.is_relative_to(folder) else Path(file.name)
        digest.update(f"{name.as_posix()} {sha256(file)}\n".encode())
    return digest.hexdigest()[:16]


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class Bench(Protocol):
    """A data card and what is done with the data. One file, one line in BENCHES."""

    @property
    def card(self) -> Card: ...

    def has_data(self, data: Path, context: Context) -> bool:
        """Whether its data is there."""
        ...

    def named(self, context: Context) -> bool:
        """Whether the options of the run name its files: then it alone is run by default."""
        ...

    def fingerprint(self, data: Path, context: Context) -> str:
        """Of all data that it reads; an error where that is missing or not the right one."""
        ...

    def settings(self, context: Context) -> dict[str, Any]:
        """The options that change its figures, with their values."""
        ...

    def run(self, system: Embedding | Linker, data: Path, context: Context) -> Result:
        """All figures of `system` on the files under `data`."""
        ...

    def accepts(self, system: Embedding | Linker) -> bool:
        """Whether it makes sense for this system: relation vectors need an Embedding, and so on."""
        ...


@dataclass(frozen=True)
class Task:
    """A data card, checked before it is used."""

    card: Card

    def files(self, data: Path, context: Context) -> list[Path]:
        """All files that are read; checks them."""
        folder = self.card.check(data, pinned=context.pinned)
        places = (folder / needed.path for needed in self.card.files)
        return [path for path in places if path.is_file()]

    def has_data(self, data: Path, context: Context) -> bool:
        return self.card.has_data(data)

    def named(self, context: Context) -> bool:
        return False

    def fingerprint(self, data: Path, context: Context) -> str:
        return fingerprint(self.card.folder_in(data), self.files(data, context))

    def settings(self, context: Context) -> dict[str, Any]:
        return {}

    def accepts(self, system: Embedding | Linker) -> bool:
        return not isinstance(system, Linker)


def figure(split: str, metric: str, estimate: Estimate, n: int, *, coverage: float = 1.0) -> Figure:
    return Figure(split, metric, estimate.value, estimate.low, estimate.high, n, coverage)


def word_figures(
    system: Embedding | Linker, texts: Sequence[str], context: Context, *, split: str = "all"
) -> Iterator[Figure]:
    """The out-of-vocabulary rate of word vectors on what a bench asks; nothing for others.

    Terms with some known words have a vector all the same, so that coverage does not tell it.
    """
    if not hasattr(system, "missing"):
        return
    missing = system.missing(texts)
    if len(missing):
        rate = mean(missing, resamples=context.resamples, seed=context.seed)
        yield figure(split, OOV, rate, len(missing))
