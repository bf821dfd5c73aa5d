"""CSV, XLSX and Parquet of a project."""

import openpyxl
import pyarrow.parquet as pq

from medcoder.mapping.formats import export
from medcoder.tables.write import plain
from support.mapped import (
    ROWS,
    make,
    read_csv,
)


def test_csv_has_every_row_in_order(project, tmp_path):
    export(project, "csv", tmp_path / "x.csv")
    rows = read_csv(tmp_path / "x.csv")
    fields = [
        tuple(plain(row[name]) for name in ("id", "term", "n", "lang", "unit")) for row in rows
    ]
    assert fields == ROWS
    assert [row["status"] for row in rows] == [
        "approved", "auto", "approved", "review", "approved", "approved", "approved", "auto",
        "approved", "approved",
    ]  # fmt: skip
    assert rows[0]["concept"] == "HP:0001658"
    assert rows[0]["code"] == "HP:0001658"
    assert rows[2]["equivalence"] == "related"
    assert rows[2]["note"] == "'=2+2"
    assert rows[1]["confidence"] == "0.995"
    assert rows[3]["other_1"] == "R50.9 Fever, unspecified (0.30)"
    assert rows[6]["note"] == 'no such "thing",\nreally'


def test_no_cell_of_csv_or_xlsx_is_a_formula(project, tmp_path):
    notes = export(project, "csv", tmp_path / "x.csv")
    text = (tmp_path / "x.csv").read_text(encoding="utf-8")
    assert ",'=1+1," in text
    assert ",=" not in text
    assert notes[-1].endswith("apostrophe before them: 2")
    export(project, "xlsx", tmp_path / "x.xlsx")
    cells = [cell for row in openpyxl.load_workbook(tmp_path / "x.xlsx")["mapping"] for cell in row]
    assert "f" not in {cell.data_type for cell in cells}
    assert "'=1+1" in {cell.value for cell in cells}


def test_xlsx_has_the_rows_of_csv(project, tmp_path):
    export(project, "csv", tmp_path / "x.csv")
    export(project, "xlsx", tmp_path / "x.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "x.xlsx")["mapping"]
    header, *rows = sheet.iter_rows(values_only=True)
    made = [{k: "" if v is None else str(v) for k, v in zip(header, row, strict=True)}
            for row in rows]  # fmt: skip
    assert made == read_csv(tmp_path / "x.csv")


def test_what_a_workbook_cannot_hold_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("medcoder.tables.xlsx.ROWS", 3)
    monkeypatch.setattr("medcoder.tables.xlsx.LONGEST", 20)
    rows = [("1", "x" * 30, "1", "", ""), ("2", "fever", "1", "", "a\x01b"), ROWS[0]]
    with make(tmp_path, rows=rows) as made:
        notes = export(made, "xlsx", tmp_path / "x.xlsx")
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    assert [sheet.max_row for sheet in book] == [3, 2]
    assert book["mapping"]["B2"].value == "x" * 20
    assert book["mapping"]["E3"].value == "ab"
    assert any("spread over 2 sheets" in note for note in notes)
    assert any("longer than 20 characters: cut" in note for note in notes)
    assert any("control characters" in note for note in notes)


def test_parquet_has_candidates_and_codes(project, tmp_path):
    export(project, "parquet", tmp_path / "x.parquet")
    table = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [
        tuple(row[name] for name in ("id", "term", "n", "lang", "unit")) for row in table
    ] == ROWS
    assert table[3]["concept"] == "J00"
    assert [one["concept"] for one in table[3]["candidates"]] == ["J00", "R50.9"]
    assert table[3]["candidates"][1] == {
        "concept": "R50.9", "name": "Fever, unspecified", "term": "cold", "cosine": 0.3,
        "codes": [{"vocabulary": "ICD10CM", "code": "R50.9"}], "score": 0.3, "confidence": 0.3,
        "stage": "ngram", "attributes": [], "span": None, "twins": [],
    }  # fmt: skip
    assert table[0]["codes"] == [{"vocabulary": "HP", "code": "HP:0001658"}]


def test_columns_of_the_input_that_are_called_as_ours_stay(tmp_path):
    header = ("id", "term", "status", "note")
    options = {"count": "", "language": "", "context": {}}
    with make(tmp_path, header=header, rows=[("1", "fever", "s", "n")], **options) as made:
        export(made, "csv", tmp_path / "x.csv")
        export(made, "parquet", tmp_path / "x.parquet")
    [row] = read_csv(tmp_path / "x.csv")
    assert (row["status"], row["note"], row["mapped_status"]) == ("s", "n", "auto")
    assert pq.read_table(tmp_path / "x.parquet").to_pylist()[0]["mapped_status"] == "auto"
