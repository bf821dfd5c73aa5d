"""Extra terms beside the graph's, such as lay phrases, from a table."""

from __future__ import annotations

import csv
from collections.abc import Collection
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


def read_extra(path: Path, kg: KG, *, text: str = "term") -> Extra:
    """A table with the columns `text` and concept, and maybe language and weight, .csv or .tsv."""
    dialect: dict[str, Any] = {"delimiter": ","}
    if path.suffix == ".tsv":
        dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    extra = Extra()
    line = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True, **dialect)
            missing = {text, "concept"} - set(reader.fieldnames or ())
            if missing:
                raise InputError(
                    f"no column {', '.join(sorted(missing))}; there are: "
                    f"{', '.join(reader.fieldnames or ()) or 'none'}",
                    file=path,
                    row=1,
                    remedy=f"Name the columns {text} and concept",
                )
            for row in reader:
                line = reader.line_num
                _add(extra, row, kg, text, path, line)
    except csv.Error as error:
        raise InputError(
            f"is no table after this row: {error}", file=path, row=line, remedy="Correct it"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8: {error}", file=path, remedy="Convert it") from error
    except OSError as error:
        remedy = "Check the path, and that you may read it"
        raise InputError(f"{error.strerror}", file=path, remedy=remedy) from error
    return extra


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
