"""Small files that unpack to huge ones, and damaged ones: what makes each of them."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_MEGABYTE = 1 << 20
_LONG = "x" * 1_000_000
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_PARTS = {
    "[Content_Types].xml": '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/'
    'package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlfor'
    'mats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="applicati'
    'on/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/w'
    'orksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetm'
    'l.worksheet+xml"/><Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.ope'
    'nxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
    "_rels/.rels": '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/p'
    'ackage/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/of'
    'ficeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<?xml version="1.0"?><workbook xmlns="{SHEET}" xmlns:r="http://schemas.o'
    'penxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="a" sheetId="1" r:id'
    '="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<?xml version="1.0"?><Relationships xmlns="http://schemas.openx'
    'mlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxm'
    'lformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></R'
    "elationships>",
    "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}"><si><t>term</t></si></sst>',
}
HEADER = '<row r="1"><c r="A1" t="inlineStr"><is><t>term</t></is></c></row>'


def workbook(path: Path, rows: str | list[bytes], **parts: str | bytes | list[bytes]) -> None:
    """A workbook of these rows of XML; `parts` replaces others, / and . written as __ and _."""
    stored: dict[str, str | bytes | list[bytes]] = dict(_PARTS)
    body = [rows.encode()] if isinstance(rows, str) else rows
    stored["xl/worksheets/sheet1.xml"] = [
        f'<worksheet xmlns="{SHEET}"><sheetData>'.encode(), *body, b"</sheetData></worksheet>"
    ]  # fmt: skip
    stored |= {"xl/" + name.replace("_xml", ".xml"): value for name, value in parts.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in stored.items():
            with archive.open(name, "w") as stream:
                for block in value if isinstance(value, list) else [value]:
                    stream.write(block.encode() if isinstance(block, str) else block)


def inline(text: str, row: int = 2) -> str:
    return f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>{text}</t></is></c></row>'


def parquet(path: Path, *groups: pa.Table, **options: object) -> None:
    options = {"compression": "zstd"} | options
    with pq.ParquetWriter(path, groups[0].schema, **options) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=len(group))


def _dictionary(values: list[object], count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(values))


def long_cells(path: Path) -> None:
    parquet(path, pa.table({"term": _dictionary([_LONG], 100_000)}))


def many_rows(path: Path) -> None:
    table = pa.table({"term": pa.nulls(1 << 24, pa.string())})
    parquet(path, *[table] * 24)


def one_list(path: Path) -> None:
    count = 1 << 27
    numbers = pa.repeat(pa.scalar(0, pa.int8()), count)
    lists = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), numbers)
    parquet(path, pa.table({"term": ["a"], "list": lists}))


def lists_of_long_texts(path: Path) -> None:
    texts = _dictionary([_LONG], 100_000)
    lists = pa.ListArray.from_arrays(pa.array(range(0, 100_001, 10), pa.int32()), texts)
    parquet(path, pa.table({"term": ["a"] * 10_000, "list": lists}))


def prefixes(path: Path) -> None:
    """Values that are each the one before it."""
    table = pa.table({"term": [_LONG] * 500})
    encoding = {"use_dictionary": False, "column_encoding": {"term": "DELTA_BYTE_ARRAY"}}
    parquet(path, *[table] * 20, data_page_size=1 << 30, write_batch_size=500, **encoding)


def large_page(path: Path) -> None:
    table = pa.table({"term": pa.array(["x" * 700_000_000])})
    parquet(path, table, use_dictionary=False)


def row_three_billion(path: Path) -> None:
    workbook(
        path, HEADER + inline("a") + '<row r="3000000000"><c r="A3000000000"><v>1</v></c></row>'
    )


def column_far_away(path: Path) -> None:
    workbook(path, HEADER + '<row r="2"><c r="XFE2"><v>1</v></c></row>')


def rows_far_apart(path: Path) -> None:
    """As many columns as a sheet may have, and two rows, the second as far below as it may be."""
    names = "".join(f'<c t="inlineStr"><is><t>{n}</t></is></c>' for n in range(16_383))
    term = '<c t="inlineStr"><is><t>term</t></is></c>'
    workbook(path, f'<row r="1">{term}{names}</row>' + inline("a", 1_048_576))


def wide_rows(path: Path) -> None:
    rows = [HEADER.encode()]
    rows += [
        f'<row r="{row}"><c r="XFD{row}"><v>1</v></c></row>'.encode() for row in range(2, 99_999)
    ]
    workbook(path, rows)


def many_cells_in_a_row(path: Path) -> None:
    workbook(path, [HEADER.encode(), b'<row r="2">', *[b"<c/>" * 250_000] * 40, b"</row>"])


def many_rows_again(path: Path) -> None:
    workbook(path, [HEADER.encode(), *[b'<row r="1"/>' * 100_000] * 200])


def long_inline_text(path: Path) -> None:
    text = [b"x" * _MEGABYTE] * 600
    workbook(path, [HEADER.encode(), b'<row r="2"><c r="A2" t="inlineStr"><is><t>', *text,
                    b"</t></is></c></row>"])  # fmt: skip


def many_shared_strings(path: Path) -> None:
    strings = [
        f'<sst xmlns="{SHEET}">'.encode(),
        *[b"<si><t>ab</t></si>" * 100_000] * 300,
        b"</sst>",
    ]
    workbook(path, HEADER, sharedStrings_xml=strings)


def one_shared_string_everywhere(path: Path) -> None:
    strings = f'<sst xmlns="{SHEET}"><si><t>{_LONG}</t></si></sst>'
    rows = "".join(
        f'<row r="{row}"><c r="A{row}" t="s"><v>0</v></c></row>' for row in range(2, 99_999)
    )
    workbook(path, HEADER + rows, sharedStrings_xml=strings)


def laughs(path: Path) -> None:
    entities = '<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12)
    )
    strings = f'<!DOCTYPE sst [{entities}]><sst xmlns="{SHEET}"><si><t>&m;</t></si></sst>'
    workbook(path, HEADER, sharedStrings_xml=strings)


def large_styles(path: Path) -> None:
    styles = [f'<styleSheet xmlns="{SHEET}"><fonts>'.encode(), *[b"<font/>" * 100_000] * 100,
              b"</fonts></styleSheet>"]  # fmt: skip
    workbook(path, HEADER + inline("a"), styles_xml=styles)


def many_parts(path: Path) -> None:
    workbook(path, HEADER + inline("a"))
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(400_000):
            archive.writestr(f"p{number}", b"")


def bad_deflate(path: Path) -> None:
    workbook(path, HEADER + inline("a" * 5000))
    data = bytearray(path.read_bytes())
    at = data.find(b"sheet1.xml", data.find(b"xl/workbook.xml.rels")) + 60
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)


def formulas(path: Path) -> None:
    workbook(path, HEADER + '<row r="2"><c r="A2"><f>1+1</f></c></row>' + inline("asthma", 3))


def long_line(path: Path) -> None:
    with path.open("wb") as stream:
        stream.write(b"concept,term\n")
        for _ in range(1200):
            stream.write(b"x" * _MEGABYTE)


def many_columns(path: Path) -> None:
    path.write_bytes(b"term" + b",ab" * 10_000_000 + b"\n")


def short_rows(path: Path) -> None:
    """Rows of one field each, in a table of many columns."""
    header = ",".join(["term", *map(str, range(16_383))])
    path.write_bytes(header.encode() + b"\n" + b"a\n" * 10_000_000)


def open_quote(path: Path) -> None:
    with path.open("wb") as stream:
        stream.write(b'concept,term\n1,"')
        for _ in range(900):
            stream.write(b"x\n" * (_MEGABYTE >> 1))


def _gzipped(path: Path, start: bytes, block: bytes, count: int) -> None:
    """A block many times over: made once, and every copy is a member of its own."""
    with path.open("wb") as stream:
        stream.write(gzip.compress(start))
        member = gzip.compress(block)
        for _ in range(count):
            stream.write(member)


def gz_long_line(path: Path) -> None:
    _gzipped(path, b"concept,term\n", b"x" * (16 * _MEGABYTE), 200)


def gz_many_lines(path: Path) -> None:
    _gzipped(path, b"concept,term\n", b"1,asthma\n" * 2_000_000, 200)


def gz_cut_off(path: Path) -> None:
    path.write_bytes(gzip.compress(b"concept,term\n" + os.urandom(50_000).hex().encode())[:30_000])


def gz_damaged(path: Path) -> None:
    packed = bytearray(
        gzip.compress(b"concept,term\n1,asthma\n" + os.urandom(50_000).hex().encode())
    )
    packed[200:300] = bytes(100)
    path.write_bytes(packed)


def obo_frame(path: Path) -> None:
    synonym = b'synonym: "a" EXACT []\n' * 40_000
    start = b"format-version: 1.2\nontology: toy\n\n[Term]\nid: T:1\nname: pain\n"
    _gzipped(path, start, synonym, 400)


def obo_line(path: Path) -> None:
    start = b"format-version: 1.2\nontology: toy\n\n[Term]\nid: T:1\nname: "
    _gzipped(path, start, b"x" * (16 * _MEGABYTE), 60)


# Name of the file -> what makes it. The names of files tell `kg build` what they are.
TABLES: dict[str, Callable[[Path], None]] = {
    "long_cells.parquet": long_cells,
    "many_rows.parquet": many_rows,
    "one_list.parquet": one_list,
    "lists_of_long_texts.parquet": lists_of_long_texts,
    "prefixes.parquet": prefixes,
    "large_page.parquet": large_page,
    "row_three_billion.xlsx": row_three_billion,
    "column_far_away.xlsx": column_far_away,
    "rows_far_apart.xlsx": rows_far_apart,
    "wide_rows.xlsx": wide_rows,
    "many_cells_in_a_row.xlsx": many_cells_in_a_row,
    "many_rows_again.xlsx": many_rows_again,
    "long_inline_text.xlsx": long_inline_text,
    "many_shared_strings.xlsx": many_shared_strings,
    "one_shared_string_everywhere.xlsx": one_shared_string_everywhere,
    "laughs.xlsx": laughs,
    "large_styles.xlsx": large_styles,
    "many_parts.xlsx": many_parts,
    "bad_deflate.xlsx": bad_deflate,
    "formulas.xlsx": formulas,
    "long_line.csv": long_line,
    "many_columns.csv": many_columns,
    "short_rows.csv": short_rows,
    "open_quote.csv": open_quote,
}
RELEASES: dict[str, Callable[[Path], None]] = {
    "long_line_terms.csv.gz": gz_long_line,
    "many_lines_terms.csv.gz": gz_many_lines,
    "cut_off_terms.csv.gz": gz_cut_off,
    "damaged_terms.csv.gz": gz_damaged,
    "long_line_terms.csv": long_line,
    "long_cells_terms.parquet": long_cells,
    "long_line_terms.tsv": long_line,
    "frame.obo.gz": obo_frame,
    "line.obo.gz": obo_line,
}
