"""Small files that unpack to huge ones are refused before they do; damaged ones are errors."""

import gzip
import logging
import subprocess
import sys
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attack import bomb_files
from medcoder.errors import InputError, MissingExtra, TooLarge, UsageError
from medcoder.tables import Reading, grouped, open_table
from medcoder.tables.frames import open_frames
from medcoder.tables.limits import Limits, open_bytes, usual
from medcoder.tables.text import read_text

ADDRESSES = 1500 << 20  # bytes of memory that reading a bomb may ask the system for
READ = """
import resource, sys
from pathlib import Path
from medcoder.errors import TooLarge
from medcoder.tables import open_table
resource.setrlimit(resource.RLIMIT_AS, ({0}, {0}))
for name in sys.argv[1:]:
    try:
        rows = sum(1 for _ in open_table(Path(name)).rows())
    except TooLarge as error:
        rows = "too large"
    print(rows)
"""


def read(path, **limits):
    return [row.fields for row in open_table(path, Reading(limits=Limits(**limits))).rows()]


def test_bombs_are_refused_in_little_memory(tmp_path):
    made = ("long_cells.parquet", "row_three_billion.xlsx", "column_far_away.xlsx")
    for name in made:
        bomb_files.TABLES[name](tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", READ.format(ADDRESSES), *[tmp_path / name for name in made]],
        capture_output=True, text=True, check=False, env={"POLARS_MAX_THREADS": "2"},
    )  # fmt: skip
    assert done.stdout.split("\n")[:3] == ["too large"] * 3, done.stderr[-500:]


def test_a_text_that_stands_in_many_rows_is_counted_in_each(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"term": ["x" * 1000] * 5000}), path, compression="zstd")
    assert path.stat().st_size < 10_000
    assert len(read(path)) == 5000
    with pytest.raises(TooLarge, match=r"unpacks to more than is allowed.*LIMITS=unpacked"):
        read(path, unpacked=4_000_000)


def test_rows_of_nothing_are_counted(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"term": pa.nulls(100_000, pa.string())}), path)
    with pytest.raises(TooLarge):
        read(path, unpacked=100_000)


@pytest.mark.parametrize("column", [
    pa.array([["x" * 1000] * 5] * 100), pa.array([{"a": "x" * 5000}] * 100),
    pa.array(["x" * 5000] * 100).dictionary_encode(), pa.array([b"x" * 5000] * 100),
    pa.array([[("k", "x" * 5000)]] * 100, pa.map_(pa.string(), pa.string())),
])  # fmt: skip
def test_nested_columns_too(tmp_path, column):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"term": ["a"] * 100, "more": column}), path, compression="zstd")
    assert len(read(path)) == 100
    table = open_table(path)
    assert pa.Table.from_batches(table.batches()).equals(pq.read_table(path))
    with pytest.raises(TooLarge):
        read(path, unpacked=400_000)
    with pytest.raises(TooLarge, match="row 1: a row is too long"):
        read(path, row=4000)


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_every_encoding_are_looked_at(tmp_path, encoding, version):
    path = tmp_path / "t.parquet"
    table = pa.table({"term": [f"{number} {'x' * 500}" for number in range(100)]})
    pq.write_table(
        table, path, use_dictionary=False, column_encoding={"term": encoding},
        data_page_version=version, compression="zstd",
    )  # fmt: skip
    assert [row[0] for row in read(path)] == table["term"].to_pylist()
    if encoding != "DELTA_BYTE_ARRAY":  # of that, a page holds little
        with pytest.raises(TooLarge, match="read as a whole is too large"):
            read(path, held=40_000)


@pytest.mark.parametrize("cut", [20, 60, 200])
def test_damaged_parquet_is_an_error(tmp_path, cut):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"term": ["asthma"] * 100}), path)
    data = bytearray(path.read_bytes())
    data[4:cut] = b"\xff" * (cut - 4)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"t.parquet.*cannot be read as Parquet.*again"):
        read(path)


def test_parquet_of_text_that_is_none_is_an_error(tmp_path):
    path = tmp_path / "t.parquet"
    raw = pa.array([b"a", b"\xff\xfe"])
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    pq.write_table(pa.table({"term": text}), path, use_dictionary=False)
    with pytest.raises(InputError, match=r"t.parquet, row 1: cannot be read as Parquet.*again"):
        read(path)


@pytest.mark.parametrize("name", ["laughs.xlsx", "bad_deflate.xlsx"])
def test_damaged_workbooks_are_errors(tmp_path, name):
    path = tmp_path / name
    bomb_files.TABLES[name](path)
    with pytest.raises(InputError, match=f"{name}.*cannot be read as a workbook.*Save it again"):
        read(path)


def test_entities_of_a_workbook_are_refused_or_it_is_not_read(tmp_path, monkeypatch):
    """The parser of Python alone lets a text of an entity stand a hundred times."""
    path = tmp_path / "t.xlsx"
    strings = f'<!DOCTYPE sst [<!ENTITY a "{"x" * 1000}">]><sst xmlns="{bomb_files.SHEET}">'
    strings += "<si><t>&a;</t></si>" * 50 + "</sst>"
    bomb_files.workbook(path, bomb_files.HEADER, sharedStrings_xml=strings)
    with pytest.raises(InputError, match="cannot be read as a workbook"):
        read(path)
    monkeypatch.delitem(sys.modules, "medcoder.tables.xlsx")
    monkeypatch.setitem(sys.modules, "defusedxml", None)
    with pytest.raises(MissingExtra, match=r"needs defusedxml.*medcoder\[tables\]"):
        read(path)


def test_parts_of_a_workbook_are_limited(tmp_path, monkeypatch):
    path = tmp_path / "t.xlsx"
    bomb_files.workbook(
        path, bomb_files.HEADER + bomb_files.inline("x" * 5000) + bomb_files.inline("y", 3)
    )
    assert [row[0][:1] for row in read(path)] == ["x", "y"]
    with pytest.raises(TooLarge, match="unpacks to more"):
        read(path, unpacked=5000)
    monkeypatch.setattr("medcoder.tables.xlsx._PART", 3000)
    with pytest.raises(TooLarge, match="a row is too long"):
        read(path, row=3000)
    strings = f'<sst xmlns="{bomb_files.SHEET}">{"<si><t>a</t></si>" * 1000}</sst>'
    bomb_files.workbook(path, bomb_files.HEADER, sharedStrings_xml=strings)
    with pytest.raises(TooLarge, match="read as a whole"):
        read(path, held=10_000)
    bomb_files.workbook(path, bomb_files.HEADER + '<row r="1"/>' * 3000)
    monkeypatch.undo()
    monkeypatch.setattr("medcoder.tables.xlsx.ROWS", 2000)
    with pytest.raises(TooLarge, match="a sheet has 2,000 rows at most"):
        read(path)


def test_a_workbook_with_a_huge_list_of_parts_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.tables.xlsx._NAMES", 3000)
    path = tmp_path / "t.xlsx"
    bomb_files.workbook(path, bomb_files.HEADER + bomb_files.inline("a"))
    assert read(path) == [("a",)]
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(100):
            archive.writestr(f"p{number}", b"")
    with pytest.raises(InputError, match="the list of its parts is too large"):
        read(path)


def test_rows_between_others_are_empty_and_counted_once(tmp_path):
    path = tmp_path / "t.xlsx"
    rows = (
        bomb_files.HEADER + bomb_files.inline("a", 3) + bomb_files.inline("b", 3) + '<row r="9"/>'
    )
    bomb_files.workbook(path, rows)
    assert read(path) == [("",), ("a",)]


def test_formulas_without_a_value_are_counted_and_said(tmp_path, caplog):
    path = tmp_path / "t.xlsx"
    formula = (
        '<row r="2"><c r="A2"><f>1+1</f></c></row><row r="3"><c r="A3"><f>1</f><v>7</v></c></row>'
    )
    bomb_files.workbook(path, bomb_files.HEADER + formula)
    with caplog.at_level(logging.WARNING):
        table = open_table(path)
        assert [row.fields for row in table.rows()] == [("",), ("7",)]
        assert len(list(table.rows())) == 2
    [said] = caplog.messages
    assert said.startswith("t.xlsx: 1 formula without a value, read as empty; the first is A2. ")


def test_text_is_limited_by_row_cell_and_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("term,b\n" + "a,b\n" * 3 + "x" * 500 + ",b\n")
    assert len(read(path)) == 4
    for limits, what in (
        ({"row": 400}, "t.csv, row 5: a row is too long"),
        ({"cell": 400}, "t.csv, row 5: a cell is too long: 500, where 400 is the most"),
        ({"columns": 1}, "t.csv, row 1: it has too many columns: 2"),
    ):
        with pytest.raises(TooLarge, match=what):
            read(path, **limits)
    path.write_text('term,b\n1,"' + "x\n" * 500)
    with pytest.raises(TooLarge, match="row 2: a row is too long"):
        read(path, row=400)


def test_gzipped_text_is_limited_by_what_comes_out(tmp_path, monkeypatch):
    path = tmp_path / "t_terms.csv.gz"
    path.write_bytes(gzip.compress(b"concept,term\n" + b"1,a\n" * 50_000))
    with open_bytes(path) as stream:
        assert len(stream.read()) == 200_013
    with (
        pytest.raises(TooLarge, match="unpacks to more"),
        open_bytes(path, Limits(unpacked=100_000)) as stream,
    ):
        stream.read()
    monkeypatch.setenv("MEDCODER_LIMITS", "unpacked=100K")
    with pytest.raises(TooLarge):  # before any row is read
        open_frames(path)
    cut = tmp_path / "cut.csv.gz"  # of what is damaged, the reader tells where
    cut.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"row [0-9,]+: the gzip data is cut off"):
        list(open_frames(cut).read(["term"]))
    monkeypatch.setattr("medcoder.tables.limits.FREE", 1000)
    with (
        pytest.raises(TooLarge, match="more than its size on disk allows"),
        open_bytes(path, Limits(ratio=10)) as stream,
    ):
        stream.read()


def test_a_text_that_is_read_as_a_whole_is_limited(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("x" * 500)
    assert len(read_text(path)) == 500
    with pytest.raises(TooLarge, match="where 400 is the most"):
        read_text(path, limits=Limits(held=400))


@pytest.mark.parametrize("encoding", ["utf-7", "unicode_escape", "bz2", "zlib", "idna", "rot13"])
def test_what_is_no_encoding_of_tables_is_refused(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes(b"term\na\n")
    with pytest.raises(UsageError, match="no encoding is called"):
        open_table(path, Reading(encoding=encoding))


def test_the_environment_changes_limits(monkeypatch):
    monkeypatch.setenv("MEDCODER_LIMITS", "unpacked=2G, ratio=7")
    assert usual() == Limits(unpacked=2 << 30, ratio=7)
    for bad in ("unpacked", "size=3", "ratio=-1", "ratio=x"):
        monkeypatch.setenv("MEDCODER_LIMITS", bad)
        with pytest.raises(UsageError, match="There are: unpacked, ratio"):
            usual()


def test_groups_end_where_they_are_large():
    assert list(grouped("abcde", 2, len)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(grouped(["aaa", "b", "c"], 9, len, characters=2)) == [["aaa"], ["b", "c"]]
