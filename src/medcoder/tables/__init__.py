"""Tables to map: CSV, TSV, XLSX, Parquet, and frames of pandas, polars and Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from medcoder.errors import InputError, UsageError
from medcoder.registry import Registry
from medcoder.tables.base import Reading, Table

# How a file name ends -> function (file, options) that opens it.
TABLES = Registry(
    "table format",
    {
        ".csv": "medcoder.tables.delimited:open_csv",
        ".tsv": "medcoder.tables.delimited:open_tsv",
        ".txt": "medcoder.tables.delimited:open_text",
        ".xlsx": "medcoder.tables.sheet:open_xlsx",
        ".xlsm": "medcoder.tables.sheet:open_xlsx",
        ".parquet": "medcoder.tables.arrow:open_parquet",
    },
    extras={".xlsx": "tables", ".xlsm": "tables"},
)


def open_table(source: Any, reading: Reading | None = None) -> Table:
    """A table by its path, or a frame of pandas, polars or Arrow."""
    reading = reading or Reading()
    if not isinstance(source, str | Path):
        from medcoder.tables.arrow import open_frame

        return open_frame(source, reading)
    file = Path(source).expanduser()
    if not file.exists():
        raise InputError("does not exist", file=file, remedy="Check the path")
    if file.is_dir():
        raise InputError("it is a folder", file=file, remedy="Name a file in it")
    if not file.stat().st_size:
        raise InputError("it is empty", file=file, remedy="It needs a header and rows")
    ending = file.suffix.lower()
    if ending not in TABLES:
        if reading.delimiter is None:
            raise UsageError(
                f"{file} ends in {ending or 'nothing'}: medcoder reads {', '.join(TABLES)}. "
                "For text with another ending, name what is between fields with --delimiter"
            )
        ending = ".txt"
    table: Table = TABLES.load(ending)(file, reading)
    return table


__all__ = ["TABLES", "Reading", "Table", "open_table"]
