"""Files without quotes as data frames: every character but the separator is text."""

import gzip

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.errors import InputError
from medcoder.tables import unquoted
from medcoder.tables.unquoted import Unquoted, open_unquoted, read_header

FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\t\r\n\0"), max_size=6)
ROWS = st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=9)


def read(file, keep=("a", "b")):
    return [row for frame in file.read(keep) for row in frame.rows()]


@pytest.mark.parametrize("block", [1, 30, unquoted.BLOCK])
@pytest.mark.parametrize("ending", ["tsv", "tsv.gz"])
@given(rows=ROWS)
def test_rows_come_back_as_they_are(tmp_path_factory, ending, block, rows):
    path = tmp_path_factory.mktemp("t") / f"t.{ending}"
    data = "".join(f"{a}\t{b}\n" for a, b in [("a", "b"), *rows]).encode()
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unquoted, "BLOCK", block)
        file = open_unquoted(path, ["b"], separator="\t")
        assert read(file) == rows
        assert read(file, ["b"]) == [(b,) for _, b in rows]
    assert file.done == path.stat().st_size


def test_quotes_and_nulls_are_text(tmp_path):
    path = tmp_path / "T.RRF"
    path.write_bytes(b'"x|NULL|\r\nNA||\n')
    file = Unquoted(path, ["a", "b"], separator="|", trailing=True)
    assert read(file) == [('"x', "NULL"), ("NA", "")]
    assert [frame.schema for frame in file.read(["a"])] == [{"a": pl.String}]


@pytest.mark.parametrize("start", ["x\x01", "x\u06a9"])
def test_a_row_that_looks_compressed(tmp_path, start):
    path = tmp_path / "t.tsv"
    path.write_text(f"{start}\t1\ny\t2\n", encoding="utf-8")
    assert read(Unquoted(path, ["a", "b"], separator="\t")) == [(start, "1"), ("y", "2")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\tb\n1\t2\n3\n", r"row 3: 1 fields where 2 were expected"),
        (b"a\tb\n1\t2\n\n3\t4\n", "row 3: an empty row"),
        (b"a\tb\n1\t2\n1\t\xff\n", "row 3: byte 0xff is not UTF-8"),
        (b"a\tb\tb\n", "row 1: a column appears twice"),
        (b"a\tc\n1\t2\n", "row 1: no such column: b; there are: a, c"),
        (b"\xff\xfea\0", "row 1: is UTF-16 or no text"),
    ],
)
def test_damage_is_named_with_its_row(tmp_path, data, message):
    path = tmp_path / "t.tsv"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        read(open_unquoted(path, ["a", "b"], separator="\t"))


def test_two_files_that_were_swapped(tmp_path):
    path = tmp_path / "A.RRF"
    path.write_bytes(b"1|2|3|\n")
    file = Unquoted(path, ["a", "b"], separator="|", trailing=True, looks_like={3: "B.RRF"})
    with pytest.raises(InputError, match=r"this has the shape of B\.RRF\. Check whether two files"):
        read(file)


def test_a_header(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\tb\r\n1\t2\r\n")
    assert read_header(path, "\t") == ["a", "b"]
    assert read(open_unquoted(path, ["a"], separator="\t")) == [("1", "2")]
