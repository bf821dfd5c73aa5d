"""Files of scores and predictions: what is replaced, what comes back, what is refused."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.errors import InputError
from medcoder.evaluate import Prediction, add_scores, read_scores
from medcoder.evaluate.results import predictions_file, read_predictions, write_predictions
from support.evaluated import score


def test_scores_of_a_bench_are_replaced_as_a_whole(tmp_path):
    one = score("letters", 0.5)
    file = tmp_path / "s" / "scores.jsonl"
    add_scores(file, [one, replace(one, split="old"), replace(one, bench="mcsm")])
    add_scores(file, [replace(one, value=0.75)])
    assert [(each.bench, each.split, each.value) for each in read_scores(file)] == [
        ("mcsm", "all", 0.5), ("cadec", "all", 0.75)
    ]  # fmt: skip
    assert [entry.name for entry in file.parent.iterdir() if entry.suffix == ".jsonl"] == [
        "scores.jsonl"
    ]


def test_a_bad_line_of_scores(tmp_path):
    file = tmp_path / "scores.jsonl"
    file.write_text('\n{"embedding": "x"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"scores\.jsonl, row 2: it is not a line of scores"):
        read_scores(file)
    assert read_scores(tmp_path / "none") == []


TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=6)


PREDICTIONS = st.builds(
    Prediction,
    query=TEXTS, language=TEXTS, split=TEXTS, gold=TEXTS, gold_names=TEXTS,
    concepts=st.lists(TEXTS, max_size=2).map(tuple), names=st.lists(TEXTS, max_size=2).map(tuple),
    scores=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=2).map(tuple),
    seen=st.booleans(),
)  # fmt: skip


@given(st.lists(PREDICTIONS, max_size=4))
def test_predictions_come_back_as_they_were(tmp_path_factory, predictions):
    file = tmp_path_factory.getbasetemp() / "predictions" / "x.jsonl"
    write_predictions(file, predictions)
    assert read_predictions(file) == predictions


def test_names_that_are_no_file_names(tmp_path):
    file = predictions_file(tmp_path, "../a/b: c?", "cadec")
    assert file.relative_to(tmp_path).parts == ("predictions", "_a_b_ c_", "cadec.jsonl")
    assert predictions_file(tmp_path, "..", "cadec").parent.name == "_"


def test_bad_predictions(tmp_path):
    file = tmp_path / "x.jsonl"
    with pytest.raises(InputError, match="no predictions"):
        read_predictions(file)
    file.write_text(json.dumps({"query": "a"}) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.jsonl, row 1: it is not a prediction"):
        read_predictions(file)
