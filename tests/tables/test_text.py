"""Readers of tables: formats, encodings, quotes, and what is wrong with a file."""

import csv
import datetime

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from medcoder.errors import InputError, UsageError
from medcoder.mapping.project.rows import Columns, Settings
from medcoder.tables import TABLES, Reading, Row, open_table
from medcoder.tables.text import read_columns, read_rows

ROWS = [("1", "fever"), ("2", 'a,b\n"c"; d\te'), ("3", ""), ("4", "かぜ é")]


def read(source, **options):
    table = open_table(source, Reading(**options))
    return table.header, [row.fields for row in table.rows()]


def write_csv(path, rows, *, delimiter=",", encoding="utf-8"):
    with path.open("w", encoding=encoding, newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(rows)
    return path


def write_xlsx(path, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def as_file(ending, folder):
    """The rows of ROWS in a file of that format."""
    path, rows = folder / f"t{ending}", [("id", "text"), *ROWS]
    if ending in (".csv", ".txt"):
        return write_csv(path, rows)
    if ending == ".tsv":
        return write_csv(path, rows, delimiter="\t")
    if ending == ".parquet":
        parquet.write_table(pa.table({"id": [1, 2, 3, 4], "text": [r[1] for r in ROWS]}), path)
        return path
    return write_xlsx(path, rows)


@pytest.mark.parametrize("ending", sorted(TABLES))
def test_every_format_gives_the_same_rows(ending, tmp_path):
    options = {"delimiter": ","} if ending == ".txt" else {}
    path = as_file(ending, tmp_path)
    assert read(path, **options) == (("id", "text"), ROWS)
    table = open_table(path, Reading(**options))
    for skip in (0, 1, 3, 4, 9):
        assert [row.fields for row in table.rows(skip)] == ROWS[skip:]


@pytest.mark.parametrize("ending", sorted(TABLES))
def test_the_fingerprint_is_of_the_bytes(ending, tmp_path):
    import hashlib

    path = as_file(ending, tmp_path)
    table = open_table(path, Reading(delimiter="," if ending == ".txt" else None))
    assert table.fingerprint() == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_frames(make):
    frame = make({"id": [1, 2], "text": ["fever", None], "x": [0.5, 2.0]})
    header, rows = read(frame)
    assert header == ("id", "text", "x")
    assert rows == [("1", "fever", "0.5"), ("2", "", "2")]
    other = make({"id": [1, 2], "text": ["fever", "x"], "x": [0.5, 2.0]})
    assert open_table(frame).fingerprint() != open_table(other).fingerprint()
    assert open_table(frame).fingerprint() == open_table(frame).fingerprint()


def test_what_is_no_frame():
    with pytest.raises(UsageError, match="a dict is no table"):
        open_table({"a": 1})
    with pytest.raises(UsageError, match="--sheet makes no sense for a table in memory"):
        open_table(pa.table({"a": [1]}), Reading(sheet="x"))


def test_columns_of_pandas_with_values_of_several_types():
    frame = pd.DataFrame(
        {"text": pd.Series(["fever", 5, None, "\ud800"], dtype=object), "n": [1] * 4}
    )
    assert read(frame)[1] == [("fever", "1"), ("5", "1"), ("", "1"), ("?", "1")]


def test_the_number_of_rows_is_guessed_for_progress(tmp_path):
    path = write_csv(tmp_path / "t.csv", [["text"], *[["fever"]] * 30_000])
    table = open_table(path)
    rows = table.rows()
    for _ in range(12_000):
        next(rows)
    assert table.size() == pytest.approx(30_000, rel=0.2)
    rows.close()


def test_nested_values_are_shown_as_json():
    table = pa.table({"a": [[1, 2], None], "when": [datetime.date(2026, 1, 2), None]})
    assert read(table)[1] == [("[1, 2]", "2026-01-02"), ("", "")]


FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(st.lists(st.tuples(FIELDS, FIELDS), max_size=6))
def test_delimited_text_round_trips(tmp_path_factory, rows):
    path = write_csv(tmp_path_factory.mktemp("t") / "t.csv", [("a", "b"), *rows])
    assert read(path) == (("a", "b"), rows)


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("utf-8", None), ("utf-8-sig", None), ("utf-16", None), ("utf-32", None),
        ("cp1252", "cp1252"), ("latin-1", "latin-1"), ("utf-16-le", "utf-16-le"),
        ("utf-8-sig", "utf-8"), ("utf-16-le", None), ("utf-16-be", None),
    ],
)  # fmt: skip
def test_encodings(tmp_path, written, named):
    path = write_csv(tmp_path / "t.csv", [["text", "n"], ["fièvre é", "1"]], encoding=written)
    assert read(path, encoding=named) == (("text", "n"), [("fièvre é", "1")])


def test_an_encoding_that_cannot_be_told_names_the_row(tmp_path):
    lines = ["text", *["plain"] * 5000, "fièvre", "plain"]
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join(lines).encode("cp1252"))
    with pytest.raises(InputError, match=r"t\.csv, row 5,002: byte 0xe8 is not UTF-8") as bad:
        read(path)
    assert "--encoding cp1252" in str(bad.value)
    path.write_bytes("šum\nfièvre\n".encode("utf-16-le"))  # no zero beside its first letter
    with pytest.raises(InputError, match="looks like UTF-16"):
        read(path)
    path.write_bytes("text\n\x81\n".encode("latin-1"))
    with pytest.raises(InputError, match="not in the encoding cp1252"):
        read(path, encoding="cp1252")
    with pytest.raises(UsageError, match="no encoding is called 'klingon'"):
        read(path, encoding="klingon")


def test_a_wrong_number_of_fields(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"x\ny"\n2\n3,4,5\n6,7\n')
    with pytest.raises(InputError, match=r"row 3: 1 fields, not 2 .*--keep-bad-rows"):
        read(path)
    rows = list(open_table(path, Reading(keep_bad_rows=True)).rows())
    assert rows == [
        Row(("1", "x\ny")), Row(("2", ""), False), Row(("3", "4,5"), False), Row(("6", "7")),
    ]  # fmt: skip


def test_blank_lines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n\n1,2\n\n\n3,4\n\n")
    assert read(path)[1] == [("1", "2"), ("3", "4")]
    path.write_text("a\nx\n\ny\n")  # a row of one empty field
    assert read(path)[1] == [("x",), ("",), ("y",)]


def test_broken_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,2\n"3,4\n5,6\n')
    with pytest.raises(InputError, match=r"row 3: broken quotes"):
        read(path)


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError, match="it is a folder"):
        read(tmp_path)
    for ending in (".csv", ".xlsx", ".parquet"):
        (tmp_path / f"t{ending}").write_bytes(b"")
        with pytest.raises(InputError, match="it is empty"):
            read(tmp_path / f"t{ending}")
        (tmp_path / f"t{ending}").write_bytes(b"PK broken")
    with pytest.raises(InputError, match="cannot be read as a workbook"):
        read(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read(tmp_path / "t.parquet")
    (tmp_path / "t.dat").write_text("a|b\n1|2\n")
    with pytest.raises(UsageError, match=r"ends in \.dat: medcoder reads \.csv"):
        read(tmp_path / "t.dat")
    assert read(tmp_path / "t.dat", delimiter="|") == (("a", "b"), [("1", "2")])
    with pytest.raises(UsageError, match="it must be one character"):
        read(tmp_path / "t.dat", delimiter="||")
    with pytest.raises(UsageError, match="--delimiter"):
        (tmp_path / "t.txt").write_text("a\n")
        read(tmp_path / "t.txt")


def test_sheets_and_cells(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["text", "n", None])
    book.active.append(["=1+1", 12.0])
    book.active.append([])
    book.active.append([True, datetime.datetime(2026, 1, 2, 3, 4)])
    book.active.append([None, None, None])
    second = book.create_sheet("other")
    second.append(["x"])
    second.append([1.5, "too much"])
    path = tmp_path / "t.xlsx"
    book.save(path)
    # A formula without a stored result is empty; it is never worked out.
    assert read(path) == (
        ("text", "n"), [("", "12"), ("", ""), ("TRUE", "2026-01-02T03:04:00")],
    )  # fmt: skip
    with pytest.raises(InputError, match=r"row 2: 2 fields, not 1"):
        read(path, sheet="other")
    with pytest.raises(InputError, match=r"no such sheet: 'third'\. There are: Sheet, other"):
        read(path, sheet="third")
    with pytest.raises(UsageError, match="--encoding makes no sense for a workbook"):
        read(path, encoding="utf-8")


def test_a_missing_column_lists_those_there_are(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,diagnosis,id\n1,x,2\n")
    table = open_table(path)
    with pytest.raises(InputError, match=r"no such column: diagnose; there are: id, "
                       r"diagnosis, id\. Did you mean 'diagnosis'"):  # fmt: skip
        Columns.of(table, Settings(column="diagnose"))
    with pytest.raises(InputError, match="2 are called 'id'"):
        Columns.of(table, Settings(column="diagnosis", code="id"))
    path.write_text("id;diagnosis\n1;x\n")
    with pytest.raises(InputError, match="try --delimiter ';'"):
        Columns.of(open_table(path), Settings(column="diagnosis"))


def test_small_tables_with_and_without_quotes(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_bytes('\ufeffa\tb\r\n"x\ty"\r\n\nu\u2028v\tw\rz\n'.encode())
    assert list(read_rows(path, quoted=False)) == [
        (1, ["a", "b"]), (2, ['"x', 'y"']), (3, []), (4, ["u\u2028v", "w\rz"]),
    ]  # fmt: skip
    assert read_columns(path, ["b"], optional=["c"]) == [('y"', ""), ("w\rz", "")]
    with pytest.raises(InputError, match=r"row 1: no such column: bb; there are: a, b. Did you "):
        read_columns(path, ["bb"])
    path.write_bytes(b"a\n1\n\xff\n")
    with pytest.raises(InputError, match=r"t\.tsv, row 3: byte 0xff is not UTF-8\. Save it "):
        list(read_rows(path, quoted=False))
    path.write_bytes(b'a,b\n"1\n2",3\nx,\xff\n')
    with pytest.raises(InputError, match=r"row 3: byte 0xff is not UTF-8\. Save it as UTF-8"):
        list(read_rows(path, quoted=True))
    for wrong in (tmp_path, tmp_path / "none.tsv"):
        with pytest.raises(InputError, match=r"Is a directory|does not exist"):
            list(read_rows(wrong, quoted=False))


# From outside: one file and one line

MODULE = '''
from medcoder.tables import Row


class Lines:
    """A line a row, in one column."""

    format = "lines"

    def __init__(self, path, reading):
        reading.refuse("sheet", format="lines")
        self.name, self.header, self._lines = path.name, ("line",), path.read_text().split()

    def fingerprint(self):
        return "0"

    def size(self):
        return len(self._lines)

    def rows(self, skip=0):
        return (Row((line,)) for line in self._lines[skip:])
'''


def test_a_format_from_outside_is_one_file_and_one_line(tmp_path, monkeypatch, entered):
    (tmp_path / "outside_lines.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "t.lines").write_text("fever\ncold\n")
    with pytest.raises(UsageError):
        open_table(tmp_path / "t.lines")
    entered(TABLES, ".lines", "outside_lines:Lines")
    assert read(tmp_path / "t.lines") == (("line",), [("fever",), ("cold",)])
    with pytest.raises(UsageError, match="--sheet makes no sense for lines"):
        read(tmp_path / "t.lines", sheet="x")
