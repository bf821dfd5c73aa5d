"""Strings are looked up once, within their context."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from medcoder.errors import UnknownName, UsageError
from medcoder.mapping.project import rows as project_rows
from medcoder.mapping.report import summarise
from support.maps import ANSWERS, TEXTS, FakeMapper, mapped, write_rows


def test_each_string_is_looked_up_once(tmp_path):
    rows = [(number, TEXTS[number % 5] + " " * (number % 3)) for number in range(1000)]
    path = write_rows(tmp_path / "t.csv", ["id", "text"], rows)
    mapper = FakeMapper()
    mapped(path, tmp_path / "out", mapper, code="id")
    assert sorted(mapper.asked) == sorted(TEXTS[:5])


def test_context_restricts_row_by_row(tmp_path):
    rows = [("cold", ""), ("cold", "symptom"), ("cold", "disease|symptom"), ("cold", "specimen"),
            ("cold", "symptom"), ("MI", "specimen"), ("cold", "specimen;symptom")]  # fmt: skip
    path = write_rows(tmp_path / "t.csv", ["text", "kind"], rows)
    mapper = FakeMapper()
    made = mapped(path, tmp_path / "out", mapper, context={"kind": "type"})
    assert made.to_polars()["concept"].to_list() == ["C3", "C4", "C3", "C3", "C4", "C1", "C4"]
    with made.project() as project:
        assert project.meta["unknown_context"] == {"kind": {"specimen": 2}}
    assert Counter(mapper.asked) == {"cold": 3, "MI": 1}  # once for each restriction


def test_unknown_values_are_counted_and_not_all_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(project_rows, "_VALUES", 2)
    source = pa.table({"text": ["cold"] * 5, "v": ["A", "B", "C", "A", "D"]})
    made = mapped(source, tmp_path / "out", context={"v": "vocabulary"})
    with made.project() as project:
        assert project.meta["unknown_context"] == {"v": {"A": 2, "B": 1, "(others)": 2}}


def test_vocabularies_restrict_the_codes_and_a_row_may_say_otherwise(tmp_path):
    source = pa.table({"text": ["fever", "fever"], "v": ["", "MSH"]})
    made = mapped(source, tmp_path / "out", context={"v": "vocabulary"}, vocabularies=["ICD10CM"])
    assert made.to_polars()["code"].to_list() == ["ICD10CM:I2", "MSH:D2"]
    with pytest.raises(UnknownName, match="no vocabulary 'X'"):
        mapped(source, tmp_path / "other", vocabularies=["X"])
    assert not (tmp_path / "other").exists()


def test_a_hint_ranks_anew_and_is_never_automatic_alone(tmp_path):
    answers = ANSWERS | {"mi feeling": [("C3", 0.99)], "fever feeling": [("C2", 0.7)]}
    source = pa.table({"text": ["cold", "cold", "fever", "MI"], "how": ["", "feeling"] + [
        "feeling"] * 2})  # fmt: skip
    made = mapped(
        source, tmp_path / "out", FakeMapper(answers=answers), context={"how": "hint"},
        precision=0.95,
    )  # fmt: skip
    found = made.to_polars()
    assert found["concept"].to_list() == ["C3", "C4", "C2", "C3"]
    assert found["status"].to_list() == ["review", "review", "auto", "review"]
    assert found["confidence"].to_list() == [0.55, 0.45, 0.99, 0.2]  # those of the string alone


class Namesakes(FakeMapper):
    """The first two candidates of each string bear the same name."""

    def normalize_many(self, texts, **options):
        for answer in super().normalize_many(texts, **options):
            yield replace(answer, namesakes=2)


def test_concepts_of_one_name_share_its_confidence(tmp_path):
    answers = {"flu": [("C3", 0.98), ("C4", 0.98), ("C2", 0.1)], "flu feeling": [("C4", 0.5)]}
    source = pa.table({"text": ["flu", "flu"], "how": ["", "feeling"]})
    made = mapped(
        source, tmp_path / "out", Namesakes(answers=answers), context={"how": "hint"}, precision=0.9
    )
    found = made.to_polars()
    assert found["concept"].to_list() == ["C3", "C4"]
    assert found["status"].to_list() == ["review", "review"]  # though the name is all but certain
    assert found["confidence"].to_list() == [0.49, 0.49]
    with made.project() as project:
        shares = [[one.confidence for one in mapping.candidates] for mapping in project.terms()]
        assert shares == [[0.49, 0.49, 0.1]] * 2
        expected = summarise(project)["threshold"]  # the report has them on the same side
        assert (expected["above"]["terms"], expected["below"]["terms"]) == (0, 2)


def test_roles_that_there_are_not(ward, tmp_path):
    with pytest.raises(
        UsageError, match=r"context column: id=unit\. A column can be type, vocabulary"
    ):
        mapped(ward, tmp_path / "out", context={"id": "unit"})
