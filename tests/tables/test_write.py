"""What is written is read back as it was, by our readers and by those of others."""

import contextlib
import gc
import io
import re
import resource
import tempfile
import unicodedata
from pathlib import Path

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

from medcoder.tables import Reading, open_table
from medcoder.tables.parquet import from_rows, open_writer, read_column, write_rows
from medcoder.tables.text import Records
from medcoder.tables.write import Guard, TextWriter, plain, safe
from medcoder.tables.xlsx import SheetWriter

# Control characters, quotes, delimiters and spaces at the ends are as likely as letters.
FIELDS = st.text(
    st.one_of(
        st.sampled_from(list(" \",;|\t\r\n'=\x00\x01\x1f\x7f\x85\u2028\ufeff")),
        st.characters(codec="utf-8"),
    ),
    max_size=6,
)
PAIRS = st.lists(st.tuples(FIELDS, FIELDS), max_size=6)
SCHEMA = pa.schema({"a": pa.string(), "b": pa.string()})


def written(rows, **options):
    stream = io.StringIO(newline="")
    TextWriter(stream, **options).rows(rows)
    return stream.getvalue()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@given(rows=PAIRS)
def test_text_round_trips(tmp_path_factory, ending, line_end, rows):
    path = tmp_path_factory.mktemp("t") / f"t{ending}"
    delimiter = "\t" if ending == ".tsv" else ","
    text = written([("a", "b"), *rows], delimiter=delimiter, line_end=line_end)
    path.write_bytes(text.encode())
    table = open_table(path)
    assert (table.header, [row.fields for row in table.rows()]) == (("a", "b"), rows)
    assert [tuple(fields) for _, fields in Records(path, delimiter=delimiter)][1:] == rows


@given(st.lists(FIELDS, max_size=5))
def test_rows_of_one_field_round_trip(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_bytes(written([["a"], *([text] for text in texts)]).encode())
    assert [row.fields[0] for row in open_table(path).rows()] == texts


def _pandas(data, delimiter):
    frame = pd.read_csv(
        io.BytesIO(data), dtype=str, keep_default_na=False, skip_blank_lines=False, sep=delimiter
    )
    return list(frame.itertuples(index=False, name=None))


def _polars(data, delimiter):
    return pl.read_csv(
        data, infer_schema=False, empty_string_is_null=False, separator=delimiter
    ).rows()


def _arrow(data, delimiter):
    table = arrow_csv.read_csv(
        io.BytesIO(data),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True, delimiter=delimiter),
        convert_options=arrow_csv.ConvertOptions(
            column_types=SCHEMA, strings_can_be_null=False, quoted_strings_can_be_null=False
        ),
    )
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("read", [_pandas, _polars, _arrow])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", "\t"])
@given(rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6))
def test_other_programs_read_the_same(read, line_end, delimiter, rows):
    """No character is changed: not NUL, not a carriage return alone, not a mark."""
    data = written([("a", "b"), *rows], line_end=line_end, delimiter=delimiter).encode()
    assert read(data, delimiter) == rows


@given(st.lists(st.tuples(FIELDS, FIELDS), max_size=6))
def test_no_line_begins_with_a_formula(rows):
    """Not even for a reader that knows no quotes and takes every end of line for a row's."""
    guard = Guard()
    text = written([(guard(a), guard(b)) for a, b in rows])
    for line in text.splitlines():
        bare = line.lstrip(' "\ufeff\t\x00\x01\x7f')
        number = re.match(r"[+-][0-9]", bare)
        assert not bare.startswith(tuple("=+-@\uff1d\uff0b\uff0d\uff20")) or number or "," in line


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("a b", "a b"), ("a,b", '"a,b"'), ('a"b', '"a""b"'), ("a\rb", '"a\rb"'),
        ("a\nb", '"a\nb"'), (" a", '" a"'), ("a ", '"a "'), ("", '""'), ("a\tb", "a\tb"),
    ],
)  # fmt: skip
def test_what_is_quoted(field, line):
    assert written([[field]]) == line + "\n"
    assert written([["\ufeffx"]]) == '"\ufeffx"\n'  # readers would take the mark away
    assert written([["x", field]]) == f"x,{line if field else ''}\n"


@given(PAIRS)
def test_workbooks_round_trip_but_for_what_they_cannot_hold(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.xlsx"
    writer = SheetWriter(("a", "b"), title="t", guard=Guard())
    for row in rows:
        writer.row(row)
    writer.save(path)
    kept = [tuple(map(_in_a_workbook, row)) for row in rows]
    while kept and not any(kept[-1]):
        kept.pop()
    table = open_table(path)
    assert table.header == ("a", "b")
    assert [tuple(map(plain, row.fields)) for row in table.rows()] == kept


def _in_a_workbook(text):
    """Without control characters; XML has line feeds only."""
    text = "".join(char for char in text if char >= " " or char in "\t\r\n")
    text = text.replace("\ufffe", "").replace("\uffff", "")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def test_a_workbook_tells_what_it_changed(tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.tables.xlsx.ROWS", 3)
    writer = SheetWriter(["a"], title="t", guard=safe, instead="?", frozen=True)
    for text in ("=1+1", "a\x01b", "x" * 40_000, 1.5, "a\rb"):
        writer.row([text])
    writer.save(tmp_path / "t.xlsx")
    assert (writer.sheets, writer.cut, writer.cleaned, writer.returns) == (3, 1, 1, 1)
    book = openpyxl.load_workbook(tmp_path / "t.xlsx")
    assert [[cell.value for cell in column] for sheet in book for column in sheet.columns] == [
        ["a", "'=1+1", "a?b"], ["a", "x" * 32_767, 1.5], ["a", "a\nb"],
    ]  # fmt: skip
    assert (book.sheetnames, book["t 2"].freeze_panes) == (["t", "t 2", "t 3"], "A2")


@given(PAIRS)
def test_parquet_round_trips(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    assert write_rows(path, rows, SCHEMA) == len(rows)
    assert [row.fields for row in open_table(path).rows()] == rows
    with open_writer(path, SCHEMA) as writer:
        for row in rows:
            writer.write_table(from_rows([row], SCHEMA))
    assert [row.fields for row in open_table(path, Reading()).rows()] == rows
    assert list(read_column(path, "b")) == [b for _, b in rows]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@given(FIELDS)
def test_a_guarded_cell_is_no_formula_and_has_its_text_back(delimiter, text):
    guard = Guard(delimiter)
    assert plain(guard(text), delimiter) == text
    assert safe(guard(text), delimiter) == guard(text)
    assert guard.changed in (0, 3)


@pytest.mark.parametrize("cell", [
    "=1+1", "+cmd", "-x", "@sum", "\tx", "\rx", "=", "-1+2", " =1", "\ufeff=1", "\x01=1",
    "\u200b@x", "\uff1d1", "\uff0bx", "\uff0dx", "\uff20x", "\xa0-x",
])  # fmt: skip
def test_formulas_are_escaped(cell):
    assert safe(cell) == "'" + cell
    for end in ("\n", "\r", "\r\n", "\u2028", "\v", "\x85"):
        if cell[0] not in "\r\t":
            assert safe(f"a{end}{cell}") == f"a{end}'{cell}"


def test_nothing_that_cannot_be_seen_hides_a_formula():
    kinds = ("Cc", "Cf", "Zs")
    unseen = [char for char in map(chr, range(0x110000)) if unicodedata.category(char) in kinds]
    for char in {*unseen} - {*"\t\n\r\v\f\x1c\x1d\x1e\x85"}:
        assert safe(f"{char}=1") == f"'{char}=1"
        assert safe(f"a\r{char}{char}=1") == f"a\r'{char}{char}=1"
    assert safe("\t=1") == "'\t'=1"  # it may be seen, as what is between two fields
    assert safe("a\r\t=1", "\t") == "a\r'\t=1"


@pytest.mark.parametrize(("delimiter", "others"), [
    (",", ";\t"), (";", ",\t"), ("\t", ",;"), ("|", ",;\t")
])  # fmt: skip
@given(st.lists(FIELDS, max_size=3), st.sampled_from(["=cmd", " +cmd", '"@x', "-2+3", "\u200b=1"]))
def test_no_field_of_another_delimiter_is_a_formula(delimiter, others, parts, formula):
    """A spreadsheet may split a file at what it is set to, and at several delimiters at once."""
    for other in others:
        cell = safe(other.join(["a", *parts, formula]), delimiter)
        assert cell.endswith(f"{other}'{formula}")
        assert safe(f"a{delimiter}x{formula}", delimiter) == f"a{delimiter}x{formula}"
        assert safe(f"a{other} -1.5{other}-2", delimiter) == f"a{other} -1.5{other}-2"


def test_a_quote_hides_no_formula_in_a_later_line():
    """It is written twice: an empty text, and then the formula, for who starts reading there."""
    assert safe('"=1') == '"=1'
    assert safe('a\r"=1') == "a\r'\"=1"
    assert plain(Guard()("a\r'\"=1")) == "a\r'\"=1"


@pytest.mark.parametrize("cell", ["", "-1", "+4.5", "-1e5", "a=b", "x@y", "'=1", "a\n-1\nb"])
def test_other_cells_are_not(cell):
    assert safe(cell) == cell


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
@pytest.mark.parametrize("full", ["the disk", "the temporary files"])
def test_a_workbook_on_a_full_disk_is_one_error(tmp_path, monkeypatch, capfd, full):
    """Nothing is tried again when it is forgotten, and no temporary file stays."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with contextlib.closing(SheetWriter(["a"], title="t", guard=str)) as writer:
            for number in range(3000):
                writer.row([f"row {number}"])
            assert len(list(tmp_path.iterdir())) == 1
            if full == "the temporary files":
                resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, was[1]))
            with pytest.raises(OSError, match=r"No space left|too large") as caught:
                writer.save(Path("/dev/full"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
    del caught, writer
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
