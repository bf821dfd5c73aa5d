"""The table of results: formats, types, and writing it again."""

import json

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from medcoder.mapping import refresh, write_results
from medcoder.mapping.project_table import ProjectTable, is_old, write
from support.maps import TEXTS, FakeMapper, mapped, read_rows, write_rows


def test_every_row_comes_out_once_in_order(ward, tmp_path):
    made = mapped(ward, tmp_path / "out", top=3)
    assert made.file == tmp_path / "out" / "mapped.csv"
    header, *rows = read_rows(made.file)
    assert header == ["id", "text", "concept", "name", "code", "confidence", "status", "said",
                      "review", "other_1", "other_2"]  # fmt: skip
    assert [row[0] for row in rows] == [str(number) for number in range(1, 10)]
    assert [row[1] for row in rows] == [*TEXTS[:5], "'=cmd()", *TEXTS[6:]]
    assert [row[6] for row in rows] == [
        "auto", "review", "auto", "review", "none", "none", "none", "auto", "auto"
    ]  # fmt: skip
    assert rows[0][2:] == ["C1", "Heart attack", "MSH:D1|ICD10CM:I1", "0.999", "auto", "", "",
                           "C2 Fever (0.01)", ""]  # fmt: skip
    assert rows[4][2:] == ["", "", "", "", "none", "", "", "C5 Headache (0.05)", ""]
    assert rows[8][2:] == rows[0][2:]


def test_the_format_of_the_input_is_that_of_the_results(tmp_path):
    table = pa.table({"n": pa.array([1, None], pa.int32()), "text": ["fever", "=x"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    made = mapped(tmp_path / "t.parquet", tmp_path / "p")
    found = parquet.read_table(made.file)
    assert found.schema.field("n").type == pa.int32()
    assert found.column("n").to_pylist() == [1, None]
    assert found.column("text").to_pylist() == ["fever", "=x"]  # Parquet runs no formulas
    assert found.column("confidence").to_pylist() == [0.99, None]
    assert made.to_arrow() == found

    book = openpyxl.Workbook()
    for row in (["text", "n"], ["fever", 1.5], ["cold", None], ["+1 x", True]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    made = mapped(tmp_path / "t.xlsx", tmp_path / "x", top=1)
    sheet = openpyxl.load_workbook(made.file).active
    assert [[cell.value for cell in row] for row in sheet.iter_rows()] == [
        ["text", "n", "concept", "name", "code", "confidence", "status", "said", "review"],
        ["fever", 1.5, "C2", "Fever", "MSH:D2|ICD10CM:I2", 0.99, "auto", None, None],
        ["cold", None, "C3", "Common cold", "MSH:D3|ICD10CM:I3", 0.55, "review", None, None],
        ["'+1 x", True, None, None, None, None, "none", None, None],
    ]
    assert {cell.data_type for row in sheet.iter_rows() for cell in row} <= {
        "s",
        "n",
        "b",
        "inlineStr",
    }

    path = tmp_path / "t.tsv"
    path.write_bytes("text\tn\nfever\t1\n".encode("utf-16"))
    made = mapped(path, tmp_path / "t", top=1)
    assert made.file.name == "mapped.tsv"
    assert made.file.read_text("utf-8-sig").splitlines()[1].split("\t")[:3] == ["fever", "1", "C2"]


def test_frames_come_back_as_they_were(tmp_path):
    data = {"n": [1, 2], "text": ["fever", "puzzle"]}
    made = mapped(pd.DataFrame(data, index=["a", "b"]), tmp_path / "pandas")
    frame = made.to_pandas()
    assert list(frame.index) == ["a", "b"]
    assert frame["n"].tolist() == [1, 2]
    assert frame["status"].tolist() == ["auto", "none"]
    made = mapped(pl.DataFrame(data), tmp_path / "polars")
    assert made.to_polars()["concept"].to_list() == ["C2", ""]
    assert made.to_polars()["n"].dtype == pl.Int64
    with made.project() as project:
        project.decide(2, "C5", who="ann")
    assert made.to_polars()["status"].to_list() == ["auto", "approved"]  # as it stands now


def test_no_rows(tmp_path):
    path = write_rows(tmp_path / "t.csv", ["id", "text"], [])
    made = mapped(path, tmp_path / "out")
    assert len(read_rows(made.file)) == 1
    assert made.to_arrow().num_rows == 0
    with made.project() as project:
        assert project.meta["complete"]
        assert project.meta["threshold"] is None


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_results_without_the_input(tmp_path, ending):
    table = pl.DataFrame({"text": ["fever", "=x", None], "n": ["1", "2", ""]})
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        table.write_csv(path)
    elif ending == "parquet":
        table.write_parquet(path)
    else:
        book = openpyxl.Workbook()
        for row in (["text", "n"], ["fever", "1"], ["cold", "2"]):
            book.active.append(row)
        book.save(path)
    made = mapped(path, tmp_path / "out")
    before = made.to_arrow().to_pylist()
    path.unlink()
    with made.project() as project:
        file = write(project, ProjectTable(project))
    if ending == "parquet":
        empty = [{k: "" if v is None and k in ("text", "n") else v for k, v in row.items()}
                 for row in before]  # fmt: skip
        assert parquet.read_table(file).to_pylist() == empty
    elif ending == "xlsx":
        sheets = [openpyxl.load_workbook(one).active for one in (made.file, file)]
        cells = [[[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in sheets]
        assert cells[0] == cells[1]
    else:
        assert file.read_bytes() == made.file.read_bytes()


def test_results_are_written_again_after_a_decision(ward, tmp_path):
    made = mapped(ward, tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    with made.project() as project:
        assert not is_old(project)
        project.decide("cold", "C4", who="ann")
        assert is_old(project)
        project.undo("cold", who="ann")
        assert is_old(project)
        project.decide("cold", "C4", who="ann")
        assert write_results(project) == made.file
        assert not is_old(project)
    row = dict(zip(*(read_rows(made.file)[place] for place in (0, 4)), strict=True))
    assert (row["text"], row["concept"], row["status"]) == ("cold", "C4", "approved")
    again = json.loads((tmp_path / "out" / "report.json").read_text())
    assert again["status"]["approved"]["terms"] == 1
    assert again["timing"] == report["timing"]
    assert (again["timing"]["rows"], again["timing"]["strings"]) == (9, 8)


def test_the_speed_of_a_run_that_had_nothing_to_do_is_not_told(ward, tmp_path):
    mapped(ward, tmp_path / "out")
    before = json.loads((tmp_path / "out" / "report.json").read_text())["timing"]
    mapped(ward, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "report.json").read_text())["timing"] == before


def test_types_of_cells_outlive_a_refresh(tmp_path):
    frame = pa.table({"n": pa.array([1, None], pa.int32()), "text": ["fever", "cold"]})
    made = mapped(frame, tmp_path / "a")
    with made.project() as project:
        refresh(project, FakeMapper(version="2"))
        assert is_old(project)
        found = parquet.read_table(write_results(project))
    assert found.column("n").type == pa.int32()
    assert found.column("n").to_pylist() == [1, None]
    book = openpyxl.Workbook()
    for cells in (["n", "text"], [1.5, "fever"], [None, "=1+1"], [True, "cold"]):
        book.active.append(cells)
    book.active["B3"].data_type = "s"
    book.save(tmp_path / "t.xlsx")
    made = mapped(tmp_path / "t.xlsx", tmp_path / "b")
    before = [[cell.value for cell in row] for row in openpyxl.load_workbook(made.file).active]
    assert [row[0] for row in before] == ["n", 1.5, None, True]
    with made.project() as project:
        write_results(project)
    after = [[cell.value for cell in row] for row in openpyxl.load_workbook(made.file).active]
    assert after == before


def test_results_that_somebody_sorted_are_no_source(tmp_path):
    made = mapped(pa.table({"n": [1, 2], "text": ["fever", "cold"]}), tmp_path / "a")
    stored = parquet.read_table(made.file)
    parquet.write_table(stored.take([1, 0]), made.file)
    with made.project() as project:
        found = parquet.read_table(write_results(project))
    assert found.column("text").to_pylist() == ["fever", "cold"]
    assert found.column("n").to_pylist() == ["1", "2"]
    assert found.column("name").to_pylist() == stored.column("name").to_pylist()
