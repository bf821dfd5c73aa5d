"""Strings whose concepts are known: a table of them, checked against a graph.

It has the columns `string` and `concept`. A concept is an id of the graph, a code with its
vocabulary (ICD10CM:I21.9), or a code alone that is of one concept; several are separated by "|",
and any of them is right. Without a concept, the string means nothing that the graph has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from medcoder.errors import InputError, UsageError
from medcoder.kg import KG
from medcoder.tables import open_table
from medcoder.tables.text import check_columns
from medcoder.types import Code

STRING, CONCEPT = "string", "concept"
_BETWEEN = "|"
_SAVE = (
    "Save it as .csv in UTF-8, with commas between fields and as many fields in each row as in the "
    "header"
)


class LabelledString(NamedTuple):
    """A string, and the numbers of the concepts that are right for it."""

    text: str
    concepts: frozenset[int]  # none: it means nothing that the graph has


def read_labelled(source: Any, kg: KG) -> list[LabelledString]:
    """The rows of a table, given by its path or as a frame; a concept that is none is an error."""
    file = str(source) if isinstance(source, str | Path) else "the frame"
    with _own_remedies():
        table = open_table(source)
        header = [name.strip().lower() for name in table.header]
        remedy = f"It needs the columns {STRING} and {CONCEPT}. {_SAVE}"
        check_columns((STRING, CONCEPT), header, file=file, remedy=remedy)
        string, concept = header.index(STRING), header.index(CONCEPT)
        table.check()
        known: dict[str, frozenset[int]] = {}
        found = []
        for row, (fields, _) in enumerate(table.rows(), 2):
            text, cell = fields[string].strip(), fields[concept].strip()
            if not text and not cell:
                continue
            if not text:
                raise InputError(f"no {STRING}", file=file, row=row, remedy="Fill it in")
            if cell not in known:
                known[cell] = _concepts(cell, kg, file=file, row=row)
            found.append(LabelledString(text, known[cell]))
    return found


def _concepts(cell: str, kg: KG, *, file: str, row: int) -> frozenset[int]:
    names = [name.strip() for name in cell.split(_BETWEEN)]
    concepts: set[int] = set()
    for name in filter(None, names):
        some = _named(name, kg, file=file, row=row)
        if not some:
            raise InputError(
                "no such concept in the graph",
                file=file,
                row=row,
                values=repr(name),
                remedy="Give an id or a code of the graph: look it up with medcoder kg find. Of a "
                "string that means nothing it has, leave the concept empty",
            )
        concepts |= some
    return frozenset(concepts)


def _named(name: str, kg: KG, *, file: str, row: int) -> set[int]:
    """The concepts of an id or a code."""
    if name in kg:
        return {kg.index(name)}
    curie = Code.parse(name)
    if curie is not None:
        coded = kg.find_code(*curie) or kg.find_code(*curie, xrefs=True)
        return {kg.index(concept) for concept in coded}
    codes = kg.find_codes(name)
    concepts = {concept for concept, _ in codes}
    if len(concepts) > 1:
        raise InputError(
            "several concepts have the code",
            file=file,
            row=row,
            values=f"{name!r} is {', '.join(sorted({code.curie for _, code in codes}))}",
            remedy="Give it with its vocabulary, as in ICD10CM:I21.9, or give the id of the "
            "concept",
        )
    return concepts


@contextlib.contextmanager
def _own_remedies() -> Iterator[None]:
    """Errors of tables without the options that other commands have for them."""
    try:
        yield
    except InputError as error:
        if "--" not in (error.remedy or ""):
            raise
        raise InputError(
            error.what, file=error.file, row=error.row, values=error.values, remedy=_SAVE
        ) from error
    except UsageError as error:
        if "--" not in (error.remedy or ""):
            raise
        raise UsageError(
            error.what, where=error.where, values=error.values, remedy=_SAVE
        ) from error
