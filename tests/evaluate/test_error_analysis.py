"""What a model got wrong, and how two differ."""

import json
from itertools import product

import pytest

from medcoder.errors import InputError
from medcoder.evaluate.error_analysis import (
    difference,
    difference_table,
    errors,
    errors_table,
    sign_test,
    to_jsonl,
)
from medcoder.evaluate.report import FORMATS, write
from medcoder.evaluate.results import Prediction, right_at


def made(query, gold, *answers, split="test", language="en", seen=False):
    """Answers are (concept, score)."""
    return Prediction(
        query=query,
        language=language,
        split=split,
        gold=gold,
        gold_names=f"name of {gold}",
        concepts=tuple(concept for concept, _ in answers),
        names=tuple(f"name of {concept}" for concept, _ in answers),
        scores=tuple(score for _, score in answers),
        seen=seen,
    )


@pytest.fixture
def save(tmp_path):
    def write_file(name, predictions):
        path = tmp_path / name
        lines = [json.dumps(prediction._asdict(), ensure_ascii=False) for prediction in predictions]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return write_file


FIRST = [
    made("right", "A", ("A", 0.9)),
    made("unsure", "A", ("B", 0.3), ("A", 0.2), seen=True),
    made("sure", "A|C", ("B", 0.8), ("D", 0.7), ("C|X", 0.6), language="de", split="x"),
    made("silent", "A"),
]


def test_the_surest_mistakes_come_first_with_where_the_right_one_was(save):
    wrong = errors(save("a", FIRST))
    assert [(w.query, w.predicted, w.score, w.rank, w.right_score) for w in wrong] == [
        ("sure", "B", 0.8, 3, 0.6),
        ("unsure", "B", 0.3, 2, 0.2),
        ("silent", "", None, None, None),
    ]
    assert (wrong[0].gold, wrong[0].gold_names) == ("A|C", "name of A|C")


def test_errors_of_a_part(save):
    file = save("a", FIRST)
    assert [w.query for w in errors(file, language="de")] == ["sure"]
    assert [w.query for w in errors(file, split="test")] == ["unsure", "silent"]
    assert [w.query for w in errors(file, unseen=True)] == ["sure", "silent"]


def test_a_hit_is_any_overlap_of_ids():
    assert right_at(made("q", "A|B", ("C|B", 1.0))) == 1
    assert right_at(made("q", "A", ("AB", 1.0))) is None


def test_what_two_models_got_differently(save):
    second = [
        made("right", "A", ("B", 0.5)),
        made("unsure", "A", ("A", 0.9), seen=True),
        made("sure", "A|C", ("A", 0.4), language="de", split="x"),
        made("silent", "A"),
    ]
    found = difference(save("a", FIRST), save("b", second))
    assert [c.query for c in found.fixed] == ["unsure", "sure"]
    assert [(c.query, c.first, c.second, c.fixed) for c in found.broken] == [
        ("right", "name of A", "name of B", False)
    ]
    assert (found.both_right, found.both_wrong, found.p) == (0, 1, 1.0)
    same = difference(save("a", FIRST), save("b", FIRST))
    assert (same.fixed, same.broken, same.both_right, same.both_wrong) == ((), (), 1, 3)


def test_the_sign_test_counts_all_outcomes():
    for wins, losses in product(range(5), repeat=2):
        n = wins + losses
        uneven = abs(wins - losses)
        outcomes = [sum(tosses) for tosses in product((0, 1), repeat=n)]
        naive = sum(abs(2 * heads - n) >= uneven for heads in outcomes) / 2**n
        assert sign_test(wins, losses) == pytest.approx(naive)
    assert sign_test(1500, 1500) == 1.0


def test_predictions_of_other_data_cannot_be_compared(save):
    one = save("a", FIRST)
    with pytest.raises(InputError, match=r"row 1: .*: 'other' of") as error:
        difference(one, save("b", [made("other", "A")]))
    assert error.value.row == 1
    with pytest.raises(InputError, match=r"do not have as many queries: 3, 4"):
        difference(one, save("b", FIRST[:3]))


def test_a_line_that_is_no_prediction_is_named(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_text(json.dumps(FIRST[0]._asdict()) + "\n{}\n")
    with pytest.raises(InputError, match="it is not a prediction") as error:
        errors(file)
    assert (error.value.file, error.value.row) == (str(file), 2)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="there are no predictions"):
        errors(tmp_path / "none.jsonl")


def test_jsonl_has_a_line_for_each(save):
    wrong = errors(save("a", FIRST))
    lines = [json.loads(line) for line in to_jsonl(wrong).splitlines()]
    assert [line["query"] for line in lines] == ["sure", "unsure", "silent"]
    assert lines[2]["score"] is None


def test_tables_say_what_is_in_them(save):
    second = [FIRST[0], made("unsure", "A", ("A", 0.9), seen=True), *FIRST[2:]]
    wrong = errors_table(errors(save("a", FIRST)))
    assert [cell.shown for cell in wrong.rows[0].cells] == [
        "de",
        "x",
        "name of A|C (A|C)",
        "name of B (B)",
        "0.800",
        "3 (0.600)",
    ]
    assert wrong.notes == ("3 queries, the surest mistakes first.",)
    changed = difference_table(
        difference(save("a", FIRST), save("b", second)), first="m", second="n"
    )
    assert [cell.shown for cell in changed.rows[0].cells][3:] == [
        "name of B",
        "0.300",
        "name of A",
        "0.900",
        "n",
    ]
    assert changed.notes == (
        "Right in n only: 1; in m only: 0; in both: 1; in neither: 2. Sign test: p = 1.",
    )
    for form in FORMATS:
        assert "unsure" in write([wrong, changed], format=form)
