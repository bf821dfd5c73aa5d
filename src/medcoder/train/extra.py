"""Texts beside the graph's from tables, such as lay phrases, and vectors given for texts."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.errors import InputError
from medcoder.kg import KG
from medcoder.text import language_in, language_tag

Array = npt.NDArray[Any]
MOST_WEIGHT = 1000


@dataclass
class Extra:
    """Terms, and for each its concept's number, its language ("" if unknown) and its weight."""

    texts: list[str] = field(default_factory=list)
    concepts: list[int] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)

    def speaks(self, languages: Collection[str] | None) -> Array:
        """Which terms are of these languages; those of an unknown one are of any."""
        found = [not languages or not tag or language_in(tag, languages) for tag in self.languages]
        return np.array(found, bool)

    def draws(self, first: int, languages: Collection[str]) -> tuple[Array, Array]:
        """(concepts, terms) for the sampler: terms count from `first`, and repeat by weight."""
        weights = np.where(self.speaks(languages), np.array(self.weights, np.int64), 0)
        concepts = np.array(self.concepts, np.int64)
        numbers = first + np.arange(len(self.texts))
        return np.repeat(concepts, weights), np.repeat(numbers, weights)


def spoken(kg: KG, extra: Extra, languages: Collection[str] | None) -> Array:
    """Which terms of the graph, then which extra ones, are of these languages; none: all are."""
    good = [not languages or language_in(tag, languages) for tag in kg.languages]
    return np.concatenate([np.array(good, bool)[kg.terms.info[:, 0]], extra.speaks(languages)])


def read_extra(path: Path, kg: KG, *, text: str = "term") -> Extra:
    """A table with the columns `text` and concept, and maybe language and weight, .csv or .tsv."""
    extra = Extra()
    for line, row in _rows(path, (text, "concept")):
        _add(extra, row, kg, text, path, line)
    return extra


def read_queries(path: Path, kg: KG) -> Extra:
    """A table with the columns query and concept, and maybe weight, .csv or .tsv."""
    queries = read_extra(path, kg, text="query")
    if not any(queries.weights):
        raise InputError("has no queries", file=path, remedy="Add rows below the header")
    return queries


def read_texts(path: Path) -> tuple[list[str], Array]:
    """Texts and shares of a table with the column text, and maybe share, .csv or .tsv."""
    texts, shares = [], []
    for line, row in _rows(path, ("text",)):
        share = (row.get("share") or "1").strip()
        try:
            shares.append(float(share))
        except ValueError:
            shares.append(math.nan)
        texts.append((row["text"] or "").strip())
        if None in row or not texts[-1] or not 0 <= shares[-1] < math.inf:
            raise InputError(
                "is not a text with a share",
                file=path,
                row=line,
                values=f"text {texts[-1]!r}, share {share!r}",
                remedy="Give a text, and a number from 0 on as its share",
            )
    if not sum(shares) > 0:
        raise InputError("has no texts", file=path, remedy="Add rows below the header")
    return texts, np.array(shares)


def read_vectors(path: Path, rows: int | None = None) -> Array:
    """Vectors (rows, d) that numpy.save wrote, memory-mapped."""
    try:
        vectors: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read as vectors: {error}", file=path, remedy="Write it with numpy.save"
        ) from error
    if vectors.dtype.kind != "f":
        raise InputError(f"holds {vectors.dtype}", file=path, remedy="Write it as floats")
    if rows is not None and (vectors.ndim != 2 or len(vectors) != rows):
        raise InputError(
            f"holds an array {vectors.shape}: expected ({rows}, width), a vector for each text",
            file=path,
            remedy="Make it again from the same table or graph",
        )
    return vectors


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Rows by name of column, with the numbers of their lines."""
    dialect: dict[str, Any] = {"delimiter": ","}
    if path.suffix == ".tsv":
        dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True, **dialect)
            missing = set(columns) - set(reader.fieldnames or ())
            if missing:
                raise InputError(
                    f"no column {', '.join(sorted(missing))}; there are: "
                    f"{', '.join(reader.fieldnames or ()) or 'none'}",
                    file=path,
                    row=1,
                    remedy=f"Name the columns {' and '.join(columns)}",
                )
            for row in reader:
                line = reader.line_num
                yield line, row
    except csv.Error as error:
        raise InputError(
            f"is no table after this row: {error}", file=path, row=line, remedy="Correct it"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8: {error}", file=path, remedy="Convert it") from error
    except OSError as error:
        remedy = "Check the path, and that you may read it"
        raise InputError(f"{error.strerror}", file=path, remedy=remedy) from error


def _add(extra: Extra, row: dict[Any, Any], kg: KG, text: str, path: Path, number: int) -> None:
    term, concept = (row[text] or "").strip(), (row["concept"] or "").strip()
    weight = (row.get("weight") or "1").strip()
    found = f"{text} {term!r}, concept {concept!r}, weight {weight!r}"
    if None in row:  # what DictReader makes of fields beyond the header
        found += f", and {len(row[None])} fields more than columns"
    good = weight.isdecimal() and int(weight) <= MOST_WEIGHT
    if None in row or not term or concept not in kg or not good:
        raise InputError(
            found,
            file=path,
            row=number,
            remedy=f"Give a {text}, the id of a concept of the graph, a whole weight up to 1,000",
        )
    extra.texts.append(term)
    extra.concepts.append(kg.index(concept))
    extra.languages.append(language_tag(row.get("language") or ""))
    extra.weights.append(int(weight))
