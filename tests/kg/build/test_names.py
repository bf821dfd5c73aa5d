"""Names that are no terms: counted, left out, and kept for a vocabulary that is asked for."""

import pytest

from medcoder.errors import UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.sources import open_source

ROWS = """concept,term,source,code
A,low inhibin B,HP,HP:1
A,277000,HP,HP:1
B,x,HP,HP:2
C,milligram per decilitre,UCUM,mg/dL
C,mg/dL,UCUM,mg/dL
"""


def graph(folder, **options):
    (folder / "t.csv").write_text(ROWS, encoding="utf-8")
    report = build_kg([open_source(f"table={folder / 't.csv'}")], folder / "t.kg", **options)
    return KG.open(folder / "t.kg"), report["graph"]["terms"]


def test_numbers_and_letters_are_left_out_and_counted(tmp_path):
    kg, terms = graph(tmp_path)
    assert terms == {"read": 5, "kept": 2, "left_out": {"not a term": 3}}
    assert list(kg) == ["A", "C"]
    assert [term.text for term in kg.terms_of("A")] == ["low inhibin B"]
    assert kg.find("277000") == []


def test_a_vocabulary_may_have_them(tmp_path):
    kg, terms = graph(tmp_path, any_names=["ucum"])
    assert terms["left_out"] == {"not a term": 2}
    assert kg.find("mg/dl") == ["C"]


def test_a_vocabulary_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(UsageError, match=r"vocabulary: NOPE\. There are: HP, UCUM"):
        graph(tmp_path, any_names=["NOPE"])
