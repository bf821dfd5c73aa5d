"""Review columns: the one table of them, and a new one that is added from outside."""

import csv
import json

import openpyxl
import pytest
from fastapi.testclient import TestClient
from pyarrow import parquet

from medcoder.mapping import columns, export, write_results
from medcoder.mapping.columns import (
    COLUMNS,
    Column,
    export_columns,
    listed_columns,
    result_columns,
    unique_names,
)
from medcoder.serve import make_app
from support.mapped import decide, make
from support.terminal import medcoder

MARGIN = Column(
    name="margin",
    value=lambda mapping: round(
        mapping.confidence - sum(match.confidence for match in mapping.candidates[1:2]), 4
    ),
    numeric=True,
    in_results=True,
)


@pytest.fixture
def project(tmp_path):
    with decide(make(tmp_path)) as made:
        yield made


def test_the_columns_in_their_order():
    assert [column.name for column in export_columns(2)] == [
        "concept", "name", "code", "confidence", "status", "said", "review", "other_1", "part",
        "equivalence", "who", "when", "note", "flag",
    ]  # fmt: skip
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    assert listed_columns() == ()
    assert [column.numeric for column in result_columns(1)] == [False] * 3 + [True] + [False] * 3


def test_a_column_from_outside(project, tmp_path, monkeypatch):
    """One entry of the table, and results, exports, lists of terms and replies have it."""
    monkeypatch.setattr(columns, "COLUMNS", (*COLUMNS, MARGIN))
    expected = [MARGIN.value(mapping) for mapping in project.mappings()]
    assert expected[0] == 0.989

    def of_text(path):
        with path.open(encoding="utf-8", newline="") as stream:
            return [float(row["margin"]) for row in csv.DictReader(stream)]

    assert of_text(write_results(project)) == expected
    export(project, "csv", tmp_path / "x.csv")
    assert of_text(tmp_path / "x.csv") == expected
    export(project, "parquet", tmp_path / "x.parquet")
    assert parquet.read_table(tmp_path / "x.parquet")["margin"].to_pylist() == expected
    export(project, "xlsx", tmp_path / "x.xlsx")
    header, *rows = openpyxl.load_workbook(tmp_path / "x.xlsx").active.values
    assert [row[header.index("margin")] for row in rows] == expected
    shown = medcoder("map", "show", project.path, "--by", "row").stdout
    assert "margin" in shown
    assert "0.989" in shown


def test_the_service_has_a_column_from_outside(project, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "COLUMNS", (*COLUMNS, MARGIN))
    app = make_app(lambda: None, folder=tmp_path / "service", projects={"ward": project.path})
    rest = TestClient(app, base_url="http://localhost")
    found = rest.get("/v1/projects/ward/terms", params={"sort": "row"}).json()
    assert found["terms"][0]["columns"] == {"margin": 0.989}
    monkeypatch.undo()
    found = rest.get("/v1/projects/ward/terms", params={"sort": "row"}).json()
    assert "columns" not in found["terms"][0]
    assert json.dumps(found)


def test_names_that_are_taken():
    taken = ["status", "mapped_name"]
    assert unique_names(["concept", "name", "status"], taken)[0] == "mapped_mapped_concept"
