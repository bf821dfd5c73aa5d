"""Texts beside the graph's from tables, such as lay phrases, and vectors given for texts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.bundled.senses import read_senses
from medcoder.errors import InputError
from medcoder.kg import KG
from medcoder.kg.masks import named_terms
from medcoder.tables.text import check_columns, check_file, read_rows
from medcoder.text import language_in, language_tag

Array = npt.NDArray[Any]
MOST_WEIGHT = 1000
_TIMES = 10  # weight of an abbreviation that always stands for the same


@dataclass
class Extra:
    """Terms, and for each its concept's number, its language ("" if unknown) and its weight."""

    texts: list[str] = field(default_factory=list)
    concepts: list[int] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)

    def speaks(self, languages: Collection[str] | None) -> Array:
        """Which terms are of these languages; those of an unknown one are of any."""
        good = [not languages or not tag or language_in(tag, languages) for tag in self.languages]
        return np.array(good, bool)

    def draws(self, first: int, languages: Collection[str]) -> tuple[Array, Array]:
        """(concepts, terms) for the sampler: terms count from `first`, and repeat by weight."""
        weights = np.where(self.speaks(languages), np.array(self.weights, np.int64), 0)
        concepts = np.array(self.concepts, np.int64)
        numbers = first + np.arange(len(self.texts))
        return np.repeat(concepts, weights), np.repeat(numbers, weights)


def spoken(kg: KG, extra: Extra, languages: Collection[str] | None) -> Array:
    """Which names of the graph, then which extra ones, are of these languages; none: all are."""
    good = [not languages or language_in(tag, languages) for tag in kg.languages]
    names = np.array(good, bool)[kg.terms.info[:, 0]] & named_terms(kg)
    return np.concatenate([names, extra.speaks(languages)])


def read_extra(path: Path, kg: KG, *, text: str = "term") -> Extra:
    """A table with the columns `text` and concept, and maybe language and weight, .csv or .tsv.

    Or a folder of a dictionary of abbreviations, see `medcoder.bundled.senses`.
    """
    extra = Extra()
    if files := sorted(path.glob("*.tsv")) if path.is_dir() else []:
        for file in files:
            _add_senses(extra, file, kg)
        return extra
    for line, row in _rows(path, (text, "concept")):
        _add(extra, row, kg, text, path, line)
    return extra


def _add_senses(extra: Extra, file: Path, kg: KG) -> None:
    """The abbreviations of a file, for the concepts that bear what they stand for, by its share."""
    for sense in read_senses(file):
        concepts = kg.find(sense.expansion) or kg.find(sense.english)
        for concept in concepts:
            extra.texts.append(sense.abbreviation)
            extra.concepts.append(kg.index(concept))
            extra.languages.append(sense.language)
            extra.weights.append(max(round(_TIMES * sense.share), 1))


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
        number, share = _share(row)
        shares.append(number)
        texts.append(row.get("text", "").strip())
        if not texts[-1] or not 0 <= shares[-1] < math.inf:
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


def read_pairs(path: Path) -> tuple[list[str], list[str], Array]:
    """Texts, their partners and shares of a table with the columns text and other, maybe share."""
    texts, others, shares = [], [], []
    for line, row in _rows(path, ("text", "other")):
        number, share = _share(row)
        shares.append(number)
        texts.append(row.get("text", "").strip())
        others.append(row.get("other", "").strip())
        if not texts[-1] or not others[-1] or not 0 <= shares[-1] < math.inf:
            raise InputError(
                "is not a pair of texts with a share",
                file=path,
                row=line,
                values=f"text {texts[-1]!r}, other {others[-1]!r}, share {share!r}",
                remedy="Give two texts, and a number from 0 on as the share of the pair",
            )
    if not sum(shares) > 0:
        raise InputError("has no pairs", file=path, remedy="Add rows below the header")
    return texts, others, np.array(shares)


def _share(row: Mapping[str, str]) -> tuple[float, str]:
    """The share of a row, 1 if it has none, and as it is written."""
    written = (row.get("share") or "1").strip()
    try:
        return float(written), written
    except ValueError:
        return math.nan, written


def read_vectors(path: Path, rows: int | None = None) -> Array:
    """Vectors (rows, d) that numpy.save wrote, memory-mapped."""
    try:
        vectors: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(
            "cannot be read as vectors", file=path, values=error, remedy="Write it with numpy.save"
        ) from error
    if vectors.dtype.kind != "f":
        raise InputError(
            "holds no floats", file=path, values=vectors.dtype, remedy="Write it as floats"
        )
    if rows is not None and (vectors.ndim != 2 or len(vectors) != rows):
        raise InputError(
            "holds an array of another shape",
            file=path,
            values=f"{vectors.shape}, expected ({rows}, width), a vector for each text",
            remedy="Make it again from the same table or graph",
        )
    return vectors


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows by name of column, with their numbers; fields may be missing at the end of a row."""
    check_file(path)
    rows = read_rows(path, quoted=path.suffix != ".tsv")
    _, header = next(rows, (1, []))
    remedy = f"Name the columns {' and '.join(columns)}"
    check_columns(columns, header, file=path, remedy=remedy)
    for number, fields in rows:
        if len(fields) > len(header):
            raise InputError(
                f"{len(fields)} fields, where the header has {len(header)}",
                file=path,
                row=number,
                remedy="Put quotes around a field that holds the delimiter",
            )
        if fields:
            yield number, dict(zip(header, fields, strict=False))


def _add(extra: Extra, row: dict[str, str], kg: KG, text: str, path: Path, number: int) -> None:
    term, concept = row.get(text, "").strip(), row.get("concept", "").strip()
    weight = (row.get("weight") or "1").strip()
    good = weight.isdecimal() and int(weight) <= MOST_WEIGHT
    if not term or concept not in kg or not good:
        raise InputError(
            f"is not a {text} of a concept of the graph",
            file=path,
            row=number,
            values=f"{text} {term!r}, concept {concept!r}, weight {weight!r}",
            remedy=f"Give a {text}, the id of a concept of the graph, a whole weight up to 1,000",
        )
    extra.texts.append(term)
    extra.concepts.append(kg.index(concept))
    extra.languages.append(language_tag(row.get("language") or ""))
    extra.weights.append(int(weight))
