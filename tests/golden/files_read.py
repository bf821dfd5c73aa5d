"""Exports and tables of results, read back into values that can be compared."""

import csv
import json
import sqlite3
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq


def table(path, delimiter=","):
    with Path(path).open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream, delimiter=delimiter))


def workbook(path):
    book = openpyxl.load_workbook(path)
    return {
        sheet.title: [[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in book
    }


def parquet(path):
    found = pq.read_table(path)
    columns = [[field.name, str(field.type)] for field in found.schema]
    return {"columns": columns, "rows": [list(row.values()) for row in found.to_pylist()]}


def sssom(path):
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    head = [line for line in lines if line.startswith("#")]
    rows = csv.reader([line for line in lines if line and line[0] != "#"], delimiter="\t")
    return {"head": head, "rows": list(rows)}


def exported():
    """What `map export` wrote, and the results and the report of the project."""
    report = Path("p/report.html").read_text(encoding="utf-8")
    return {
        "export csv": table("p.csv"),
        "export xlsx": workbook("p.xlsx"),
        "export parquet": parquet("p.parquet"),
        "export sssom": sssom("p.sssom"),
        "export fhir": json.loads(Path("p.fhir").read_text(encoding="utf-8")),
        "export omop": table("p.omop"),
        "export usagi": table("p.usagi"),
        "report.json": json.loads(Path("p/report.json").read_text(encoding="utf-8")),
        "report.json of q": json.loads(Path("q/report.json").read_text(encoding="utf-8")),
        "report.html has": [word in report for word in ("heart attack", "<svg", "approved")],
        "results": table("p/mapped.csv"),
        "files of a project": sorted(path.name for path in Path("p").iterdir()),
        "tables of a project": _schema(Path("p/project.sqlite")),
    }


def made_from_python():
    """`map_table` of a text, a workbook and a Parquet file."""
    from medcoder import Normalizer, map_table

    normalizer = Normalizer.load("toy.index")
    header, *rows = table("ward.csv")
    with Path("ward.tsv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter="\t").writerows([header, *rows])
    book = openpyxl.Workbook()
    for row in [header, *rows]:
        book.active.append([text if text != "=1+1" else "'=1+1" for text in row])
    book.save("ward.xlsx")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    pq.write_table(pa.table(columns), "ward.parquet")
    options = {"column": "text", "code": "id", "count": "n", "top": 2}
    for ending in ("tsv", "xlsx", "parquet"):
        map_table(f"ward.{ending}", out=f"py-{ending}", normalizer=normalizer, **options)
    return {
        "map_table of tsv": table("py-tsv/mapped.tsv", "\t"),
        "map_table of xlsx": workbook("py-xlsx/mapped.xlsx"),
        "map_table of parquet": parquet("py-parquet/mapped.parquet"),
    }


def _schema(path):
    found = sqlite3.connect(path)
    try:
        rows = found.execute("select name, sql from sqlite_master where sql is not null order by 1")
        return {name: " ".join(sql.split()) for name, sql in rows}
    finally:
        found.close()
