"""Whether what was written of hostile cells is read back, by programs of others, as it was."""

import csv
import io
import json
import logging
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from attack.frame import Tally

SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # ends of lines, for some reader
_NUMBER = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?")
DELIMITERS = ",;\t"  # of fields, for some spreadsheet
_LINES = re.compile(f"[{BREAKS}]")
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # in a workbook
_RETURN = re.compile("\r\n?")
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\ufeff]+")
_FIELD = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|((?:[^,\\\n"]|\\.)*))(,|\Z)', re.DOTALL)  # of Usagi
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_EMPTY = ("NA", "NaN")  # to the library of SSSOM
Rows = list[tuple[str, ...]]


@dataclass
class Trial:
    """A table, what its cells should be, and where failures are told."""

    number: int
    format: str
    header: tuple[str, str, str]  # code, text, another
    rows: Rows
    folder: Path
    tally: Tally

    @property
    def terms(self) -> Rows:
        """Codes and texts as other formats hold them: a text is one line with single spaces."""
        return [(code, one_line(text)) for code, text, _ in self.rows]

    def wrong(self, where: str, what: str) -> None:
        self.tally.fail(f"table {self.number} ({self.format}), {where}: {what}")

    def compare(self, where: str, read: Callable[[], Rows], wanted: Rows) -> None:
        """What a reader makes of a file, with what should be there in the first columns."""
        try:
            rows = read()
        except Exception as error:  # of any library
            said = str(error).partition("\n")[0][:200]
            self.wrong(where, f"it cannot be read: {type(error).__name__}: {said}")
            return
        self.tally.count("readings")
        if len(rows) != len(wanted):
            self.wrong(where, f"{len(rows)} rows, not {len(wanted)}")
            return
        for row, texts in zip(rows, wanted, strict=True):
            for cell, text in zip(row, texts, strict=False):
                if not is_guarded(cell, text):
                    self.wrong(where, f"{text!r} became {cell!r}")
                    return

    def check_formulas(self, where: str, rows: Rows, delimiter: str = DELIMITERS) -> None:
        """A spreadsheet may split cells of a text at other delimiters than that of the file."""
        others = "".join(char for char in DELIMITERS if char not in delimiter)
        for row in rows:
            for cell in row:
                if (part := live(cell, others)) is not None:
                    self.wrong(where, f"a live formula: {part!r} in {cell!r}")
                    return

    def check_lines(self, where: str, text: str, delimiter: str) -> None:
        """As a reader sees it that takes every end of a line for that of a row."""
        for line in _LINES.split(text):
            if live(line.partition(delimiter)[0].strip('"')) is not None:
                self.wrong(where, f"a line begins with a live formula: {line[:100]!r}")
                return

    def check(self, where: str, name: str, path: Path) -> None:
        """A file of the format of that name."""
        try:
            CHECKS[name](self, where, path)
        except Exception as error:  # of any library
            said = str(error).partition("\n")[0][:200]
            self.wrong(where, f"it cannot be read: {type(error).__name__}: {said}")


def live(cell: str, delimiters: str = "") -> str | None:
    """A part of a cell that a spreadsheet would run; None: there is none."""
    for line in re.split(f"[{BREAKS}{delimiters}]", cell):
        bare = line
        while bare and unicodedata.category(bare[0]) in ("Cc", "Cf", "Zs"):
            bare = bare[1:]
        if bare.startswith(SIGNS) and not _NUMBER.fullmatch(bare):
            return line
    return None


def is_guarded(cell: str, text: str) -> bool:
    """Whether a cell is the text, but for apostrophes at the start of lines and fields."""
    at = 0
    for position, char in enumerate(cell):
        if at < len(text) and text[at] == char:
            at += 1
            continue
        before = cell[:position].rstrip("'")
        if char != "'" or (before and before[-1] not in BREAKS + DELIMITERS):
            return False
    return at == len(text)


def one_line(text: str) -> str:
    """With single spaces, as the texts of source terms are."""
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip()


def in_a_workbook(text: str) -> str:
    """Workbooks hold no control characters, and line feeds alone as ends of lines."""
    return _RETURN.sub("\n", _ILLEGAL.sub("", text))


# A table of ours


def check_text(trial: Trial, where: str, path: Path) -> None:
    data = path.read_bytes()
    delimiter = "\t" if path.suffix == ".tsv" else ","
    trial.compare(f"{where}, csv", lambda: _csv(data, delimiter), [trial.header, *trial.rows])
    for name, read in (("pandas", _pandas), ("polars", _polars), ("arrow", _arrow)):
        trial.compare(f"{where}, {name}", lambda read=read: read(data, delimiter), trial.rows)  # type: ignore[misc]
    trial.check_lines(where, data.decode(), delimiter)
    trial.check_formulas(where, _csv(data, delimiter), delimiter)


def check_parquet(trial: Trial, where: str, path: Path) -> None:
    """Nothing is changed in it."""
    columns = pq.read_table(path).columns[:3]
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    trial.tally.count("readings")
    for row, wanted in zip(rows, trial.rows, strict=False):
        if row != wanted:
            trial.wrong(where, f"{wanted!r} became {row!r}")
            return
    if len(rows) != len(trial.rows):
        trial.wrong(where, f"{len(rows)} rows, not {len(trial.rows)}")


def check_xlsx(trial: Trial, where: str, path: Path) -> None:
    sheet = openpyxl.load_workbook(path).worksheets[0]
    if any(cell.data_type == "f" for row in sheet.iter_rows() for cell in row):
        trial.wrong(where, "a live formula")
    cells = [
        tuple(str("" if cell is None else cell) for cell in row)
        for row in sheet.iter_rows(values_only=True)
    ]
    wanted = [tuple(map(in_a_workbook, row)) for row in (trial.header, *trial.rows)]
    trial.compare(where, lambda: cells, wanted)
    trial.check_formulas(where, cells)


def _csv(data: bytes, delimiter: str) -> Rows:
    stream = io.StringIO(data.decode(), newline="")
    return [tuple(row) for row in csv.reader(stream, delimiter=delimiter, strict=True)]


def _pandas(data: bytes, delimiter: str) -> Rows:
    frame = pd.read_csv(
        io.BytesIO(data), dtype=str, keep_default_na=False, skip_blank_lines=False, sep=delimiter
    )
    return list(frame.itertuples(index=False, name=None))


def _polars(data: bytes, delimiter: str) -> Rows:
    read = pl.read_csv(data, infer_schema=False, empty_string_is_null=False, separator=delimiter)
    return read.rows()


def _arrow(data: bytes, delimiter: str) -> Rows:
    names = _csv(data, delimiter)[0]
    table = arrow_csv.read_csv(
        io.BytesIO(data),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, delimiter=delimiter),
        convert_options=arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=False,
            quoted_strings_can_be_null=False,
        ),
    )
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


# Formats of others


def check_sssom(trial: Trial, where: str, path: Path) -> None:
    text = path.read_bytes().decode()
    table = re.sub(r"\A(?:#[^\n]*\n)+", "", text)

    def read() -> Rows:
        rows = csv.DictReader(io.StringIO(table, newline=""), delimiter="\t", strict=True)
        return [
            (unquote(row["subject_id"].partition(":")[2]), row["subject_label"]) for row in rows
        ]

    trial.compare(where, read, trial.terms)
    trial.check_lines(where, table, "\t")
    trial.check_formulas(where, _csv(table.encode(), "\t"), "\t")


def check_sssom_library(trial: Trial, where: str, path: Path) -> None:
    """The library of the standard itself. It gives the rows in another order, and some texts as
    empty cells: those stand in the column `other` too."""
    from sssom.parsers import parse_sssom_table

    wanted = sorted((code, "" if text in _EMPTY else text) for code, text in trial.terms)

    def read() -> Rows:
        logging.disable(logging.WARNING)
        try:
            frame = parse_sssom_table(str(path)).df
        finally:
            logging.disable(logging.NOTSET)
        ids = (unquote(name.partition(":")[2]) for name in frame["subject_id"])
        return sorted(zip(ids, frame["subject_label"].fillna(""), strict=True))

    trial.compare(f"{where}, sssom", read, wanted)


def check_usagi(trial: Trial, where: str, path: Path) -> None:
    """It reads line by line, and lines end as Java has it."""
    text = path.read_bytes().decode()
    lines = re.split("\r\n|\r|\n", text)[:-1]

    def read() -> Rows:
        return [_usagi(line) for line in lines[1:]]

    wanted = [(_RETURN.sub("\n", code), text) for code, text in trial.terms]
    trial.compare(where, read, wanted)
    trial.check_lines(where, text, ",")
    trial.check_formulas(where, [_usagi(line) for line in lines], ",")


def _usagi(line: str) -> tuple[str, ...]:
    fields, position, end = [], 0, ","
    while end == ",":
        match = _FIELD.match(line, position)
        if match is None:
            raise ValueError(f"broken quotes: {line[:100]!r}")
        quoted, bare, end = match.groups()
        text = quoted if quoted is not None else bare
        fields.append(_ESCAPE.sub(lambda found: {"n": "\n"}.get(found[1], found[1]), text))
        position = match.end()
    return tuple(fields)


def check_omop(trial: Trial, where: str, path: Path) -> None:
    data = path.read_bytes()
    for name, read in (("csv", _csv), ("pandas", _pandas), ("polars", _polars), ("arrow", _arrow)):
        skip = int(name == "csv")  # its header
        trial.compare(
            f"{where}, {name}",
            lambda read=read, skip=skip: [(row[0], row[3]) for row in read(data, ",")[skip:]],  # type: ignore[misc]
            trial.terms,
        )
    trial.check_lines(where, data.decode(), ",")
    trial.check_formulas(where, _csv(data, ","), ",")


def check_fhir(trial: Trial, where: str, path: Path) -> None:
    """Codes have single spaces; nothing else is changed."""
    groups = json.loads(path.read_bytes())["group"]
    elements = [element for group in groups for element in group["element"]]
    trial.tally.count("readings")
    if len(elements) != len(trial.rows):
        trial.wrong(where, f"{len(elements)} elements, not {len(trial.rows)}")
    shown = {text for _, text in trial.terms}
    codes = {one_line(code) for code, _ in trial.terms}
    for element in elements:
        if element.get("display", "") not in shown or element["code"] not in codes:
            trial.wrong(where, f"it is changed: {element!r}")
            return


CHECKS: dict[str, Callable[[Trial, str, Path], None]] = {
    "csv": check_text,
    "tsv": check_text,
    "xlsx": check_xlsx,
    "parquet": check_parquet,
    "sssom": check_sssom,
    "usagi": check_usagi,
    "omop": check_omop,
    "fhir": check_fhir,
}
