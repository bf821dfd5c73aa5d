"""What the pages of a Parquet file say of their size, before any is unpacked.

The footer of a file may say anything. A reader goes by the headers of the pages, one before each,
so those are read here: about twenty bytes in Thrift's compact form.
https://parquet.apache.org/docs/file-format/data-pages/
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medcoder.tables.limits import ROW, Limits, Meter, too_large

# Values that need no more room than their pages: of these each is the one before it, changed.
_DELTA_BYTES = 7
_DICTIONARY = 2  # type of a page
_PLAIN = "UNCOMPRESSED"
_DEEPEST = 8  # structures within structures of a header
_VALUES_A_BYTE = 8  # where each takes one bit; more only where one stands for many


@dataclass
class Column:
    """What is known of a column before it is read, over all row groups."""

    dictionary: bool = False  # it has one, and a value of it may stand in every row
    delta: int = 0  # bytes of the largest page whose values may each be as long as the page


def check_pages(path: Path, metadata: Any, leaves: list[int], limits: Limits) -> dict[int, Column]:
    """Look at the pages of these columns; more than is allowed is an error.

    ValueError: the file is damaged
    """
    columns = {leaf: Column() for leaf in leaves}
    meter = Meter(path, limits)
    # Where nothing is stored for a row, it is still one.
    meter.check(metadata.num_rows * (ROW + len(leaves)))
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for number in range(metadata.num_row_groups):
            group, together = metadata.row_group(number), 0
            for leaf, column in columns.items():
                chunk = group.column(leaf)
                largest = unpacked = values = 0
                for kind, size, count, encoding in _pages(data, chunk):
                    meter.add(size)
                    limits.check("held", size, file=path)
                    largest, unpacked = max(largest, size), unpacked + size
                    column.dictionary |= kind == _DICTIONARY
                    if kind == _DICTIONARY:
                        if count > size:
                            raise ValueError("a dictionary with more entries than bytes")
                        continue
                    values += count
                    if encoding == _DELTA_BYTES:
                        column.delta = max(column.delta, size)
                together += largest
                # All values of a list may stand in one row.
                most = max(limits.row, _VALUES_A_BYTE * unpacked)
                if metadata.schema.column(leaf).max_repetition_level and values > most:
                    raise too_large(
                        "a column of lists has too many values", "row", limits.row, values,
                        file=path,
                    )  # fmt: skip
            if together > 4 * limits.held:  # a page of every column is held at a time
                limits.check("held", together, file=path)
    return columns


def _pages(data: mmap.mmap, chunk: Any) -> Iterator[tuple[int, int, int, int]]:
    """Kind, unpacked size, number of values and encoding of each page of a column chunk."""
    starts = [chunk.data_page_offset, chunk.dictionary_page_offset]
    at = min(start for start in starts if start)
    end = min(at + chunk.total_compressed_size, len(data))
    if at < 0 or chunk.total_compressed_size < 0:
        raise ValueError("a column chunk outside of the file")
    while at < end:
        header, at = _structure(data, at, _DEEPEST)
        packed, size = header.get(3, 0), header.get(2, 0)
        if packed < 0 or size < 0:
            raise ValueError("a page of a negative size")
        about = header.get(5) or header.get(7) or header.get(8) or {}
        if not isinstance(about, dict):
            raise ValueError("a page without a header")
        encoding = about.get(4 if 8 in header else 2, 0)
        size = packed if chunk.compression == _PLAIN else size
        yield header.get(1, 0), size, max(about.get(1, 0), 0), encoding
        at += packed


# Thrift's compact protocol, as far as a header needs it
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


def _structure(data: mmap.mmap, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Fields of a structure by their number, and where it ends; texts are passed over."""
    if not depth:
        raise ValueError("a page header with too many structures")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        if at >= len(data):
            raise ValueError("a page header is cut off")
        byte, at = data[at], at + 1
        if not byte:
            return fields, at
        if byte >> 4:
            number += byte >> 4
        else:
            raw, at = _varint(data, at)
            number = _signed(raw)
        fields[number], at = _value(data, at, byte & 15, depth)


def _value(data: mmap.mmap, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in (_I16, _I32, _I64):
        raw, at = _varint(data, at)
        return _signed(raw), at
    if kind == _BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if kind == _STRUCT:
        return _structure(data, at, depth - 1)
    if kind in (_BYTE, _DOUBLE):
        return None, at + (1 if kind == _BYTE else 8)
    raise ValueError("a page header with a field of no known kind")  # none has a list or a map


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("a page header is cut off")
        byte, at = data[at], at + 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise ValueError("a number in a page header is too long")


def _signed(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
