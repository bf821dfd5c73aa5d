"""Tables of strings whose concepts are known."""

import csv

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medcoder.errors import MedcoderError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.labelled_strings import LabelledString, read_labelled
from support.many import small_source

# Id, name, vocabulary, code.
TERMS = [("C1", "cold", "MSH", "77"), ("C2", "rash", "ICD10CM", "77"), ("C3", "fever", "MSH", "X9"),
         ("C3", "pyrexia", "ICD10CM", "R50.9"), ("C4", "cough", "ICD10CM", "R50.9")]  # fmt: skip


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    path = tmp_path_factory.mktemp("labelled") / "a.kg"
    rows = [(concept, text, "en", vocabulary, code, "PT", rank)
            for rank, (concept, text, vocabulary, code) in enumerate(TERMS)]  # fmt: skip
    build_kg([small_source(rows, xrefs=[("C4", "LNC", "1-8", "xref")])], path)
    return KG.open(path)


CELLS = {
    "C1": ["C1"],
    " C1 | C2 ": ["C1", "C2"],
    "MSH:77": ["C1"],
    "msh:77|ICD10CM:77": ["C1", "C2"],
    "X9": ["C3"],
    "ICD10CM:R50.9": ["C3", "C4"],  # both have it
    "LNC:1-8": ["C4"],  # it has no such code, but the release says that it matches
    "": [],
    " | ": [],
}


@pytest.mark.parametrize(("cell", "concepts"), CELLS.items(), ids=map(repr, CELLS))
def test_what_a_concept_may_be(kg, tmp_path, cell, concepts):
    file = tmp_path / "a.tsv"
    file.write_text(f"string\tconcept\nunwell\t{cell}\n")
    expected = LabelledString("unwell", frozenset(map(kg.index, concepts)))
    assert read_labelled(file, kg) == [expected]


ROWS = [("cold, wet", "C1"), ("Fieber", "X9|C4"), ("", ""), ("letter", "")]


def write_xlsx(file, names):
    book = openpyxl.Workbook()
    for row in (names, *ROWS):
        book.active.append(row)
    book.save(file)


def write_parquet(file, names):
    pq.write_table(pa.table(dict(zip(names, zip(*ROWS, strict=True), strict=True))), file)


def write_text(file, names):
    with file.open("w", newline="") as stream:
        delimiter = "\t" if file.suffix == ".tsv" else ","
        csv.writer(stream, delimiter=delimiter).writerows([names, *ROWS])


@pytest.mark.parametrize("names", [("string", "concept"), ("String ", "CONCEPT")])
@pytest.mark.parametrize(
    "ending, write",
    [
        (".csv", write_text),
        (".tsv", write_text),
        (".xlsx", write_xlsx),
        (".parquet", write_parquet),
    ],
)
def test_every_table_reads_the_same(kg, tmp_path, ending, write, names):
    file = tmp_path / f"a{ending}"
    write(file, names)
    c1, c3, c4 = map(kg.index, ("C1", "C3", "C4"))
    expected = [("cold, wet", {c1}), ("Fieber", {c3, c4}), ("letter", set())]
    assert [(text, set(concepts)) for text, concepts in read_labelled(file, kg)] == expected


def test_a_frame_and_other_columns(kg):
    frame = pd.DataFrame({"note": ["x"], "concept": ["C2"], "string": ["red skin"]})
    assert read_labelled(frame, kg) == [LabelledString("red skin", frozenset({kg.index("C2")}))]


BAD = {
    "an unknown id": ("a.csv", b"string,concept\ncold,C1\nrash,C9\n",
                      "a.csv, row 3: no such concept in the graph: 'C9'"),
    "an unknown code": ("a.csv", b"string,concept\ncold,MSH:78\n",
                        "row 2: no such concept in the graph: 'MSH:78'"),
    "one of several": ("a.csv", b"string,concept\ncold,C1|C9\n", "row 2: no such .*: 'C9'"),
    "a code of two vocabularies": (
        "a.csv", b"string,concept\ncold,77\n",
        "row 2: several concepts have the code: '77' is ICD10CM:77, MSH:77. Give it with its"),
    "a code of two concepts": ("a.csv", b"string,concept\ncold,R50.9\n",
                               "row 2: several concepts have the code: 'R50.9' is ICD10CM:R50.9"),
    "no string": ("a.csv", b"string,concept\ncold,C1\n ,C2\n", "row 3: no string. Fill it in"),
    "no such column": ("a.csv", b"text,concept\ncold,C1\n",
                       "row 1: no such column: string; there are: text, concept"),
    "another delimiter": ("a.csv", b"string;concept\ncold;C1\n",
                          "row 1: no such column: .*with commas between fields"),
    "another encoding": ("a.csv", "string,concept\nkält,C1\n".encode("cp1252"),
                         "row 2: byte 0xe4 is not UTF-8. Save it as .csv in UTF-8"),
    "too many fields": ("a.csv", b"string,concept\ncold,wet,C1\n",
                        "row 2: 3 fields, not 2 .*. Save it as .csv"),
    "no ending": ("a", b"string,concept\ncold,C1\n", "a: no table has a name.*Save it as .csv"),
    "empty": ("a.csv", b"", "a.csv: it is empty"),
    "no workbook": ("a.xlsx", b"string,concept\n", "a.xlsx"),
    "no file": ("a.csv", None, "a.csv: does not exist"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), BAD.values(), ids=BAD)
def test_a_table_that_is_none(kg, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(MedcoderError, match=said) as caught:
        read_labelled(tmp_path / name, kg)
    assert "--" not in str(caught.value)  # the command has no such options
