"""CSV, TSV and Parquet as data frames of strings, behind one interface."""

import gzip
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.errors import InputError
from medcoder.tables import frames
from medcoder.tables.frames import open_frames, split_name

FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
ROWS = st.lists(st.tuples(FIELD, FIELD), min_size=1, max_size=7)


def read(path, keep=("a", "b")):
    return [row for frame in open_frames(path).read(keep) for row in frame.rows()]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@given(rows=ROWS)
def test_rows_come_back_as_they_are(tmp_path_factory, ending, rows):
    path = tmp_path_factory.mktemp("t") / f"t.{ending}"
    frame = pl.DataFrame(rows, schema={"a": pl.String, "b": pl.String}, orient="row")
    if ending == "parquet":
        frame.write_parquet(path)
    else:
        data = frame.write_csv(quote_style="always").encode()
        path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "CHUNK", 2)
        patch.setattr(frames, "BATCH", 2)
        assert read(path) == rows
        assert read(path, ["b", "a"]) == [(b, a) for a, b in rows]


def test_a_tsv_has_no_quotes(tmp_path):
    (tmp_path / "t.tsv").write_text('a\tb\n"x\ty"\n')
    assert read(tmp_path / "t.tsv") == [('"x', 'y"')]


def test_columns_of_parquet_become_text(tmp_path):
    path = tmp_path / "t.parquet"
    columns = {
        "a": pa.array([1, None], pa.int32()),
        "b": pa.array([2.0, None], pa.float64()),
        "c": pa.array(["x", None]).dictionary_encode(),
        "d": pa.array([b"y", b""], pa.binary()),
    }
    pq.write_table(pa.table(columns), path)
    assert read(path, list("abcd")) == [("1", "2", "x", "y"), ("", "", "", "")]
    pq.write_table(pa.table({"a": [1.5], "b": [["x"]]}), path)
    with pytest.raises(InputError, match="more than whole numbers: 'a' is of type double"):
        read(path, ["a"])
    with pytest.raises(InputError, match="not text or whole numbers: 'b' is of type list"):
        read(path, ["b"])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.csv", "a,b\n1,2,3\n", "row 2: 3 fields where 2 were expected"),
        ("t.csv", "a,b\n\n1,2\n", "row 2: an empty row"),
        ("t.csv", '"a\n', "row 1: broken quotes"),
        ("t.csv", "\n", "row 1: the header is empty"),
        ("t.parquet", "a,b\n", "cannot be read as Parquet"),
        ("t.doc", "a,b\n", "is no table that can be read. Save it with one of"),
        ("t.csv", "", "is empty"),
    ],
)
def test_damage_is_named(tmp_path, name, data, message):
    (tmp_path / name).write_text(data)
    with pytest.raises(InputError, match=message):
        read(tmp_path / name)


def test_names_of_tables():
    assert split_name(Path("A_Terms.TSV.gz")) == ("A_Terms", ".tsv.gz")
    assert split_name(Path("terms.gz")) == ("terms.gz", "")
