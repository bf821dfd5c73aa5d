"""The tables of `data/`: how they are read, and written anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

VARIANT = " / "  # between the terms of a field of the parallel vocabulary


class Phrase(NamedTuple):
    concept: str
    name: str
    phrase: str
    language: str


class Row(NamedTuple):
    """A concept of the parallel vocabulary, and its terms by language."""

    concept: str
    terms: dict[str, list[str]]


def read(path: Path) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and rows. Tabs part fields; quotes are letters like others."""
    lines = path.read_text(encoding="utf-8").split("\n")
    header, *rows = [line.split("\t") for line in lines if line]
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise SystemExit(f"{path}, row {number}: {len(row)} fields, expected {len(header)}")
    return header, rows


def write(path: Path, header: list[str], rows: Iterable[Iterable[str]]) -> None:
    lines = ["\t".join(row) for row in [header, *rows]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_lay(data: Path) -> list[Phrase]:
    """Phrases of patients and of hospitals in all languages, by the names of the files."""
    return [Phrase(*row, file.stem) for file in lay_files(data) for row in read(file)[1]]


def lay_files(data: Path) -> list[Path]:
    return [file for folder in ("lay", "notes") for file in sorted((data / folder).glob("*.tsv"))]


def read_parallel(data: Path) -> list[Row]:
    """The parallel vocabulary: all its files, each with the languages that its header names."""
    files = sorted((data / "parallel").glob("*.tsv"))
    return [row for file in files for row in parallel_rows(file)]


def parallel_rows(file: Path) -> list[Row]:
    (_, *languages), rows = read(file)
    found = []
    for concept, *fields in rows:
        pairs = zip(languages, fields, strict=True)
        found.append(Row(concept, {tag: field.split(VARIANT) for tag, field in pairs if field}))
    return found
