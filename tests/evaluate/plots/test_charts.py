"""Reliability, risk and languages: what charts are made from and what they say."""

import numpy as np
import pytest

from medcoder.errors import UsageError
from medcoder.evaluate.plots import heat_map, reliability, risk_coverage
from medcoder.evaluate.plots.charts import (
    Answers,
    area,
    binned,
    expected_error,
    read_answers,
    risks,
    wilson,
)
from medcoder.evaluate.results import Prediction, write_predictions
from support.evaluated import said, score


@pytest.fixture
def answers():
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 11, 200) / 10  # many ties, and both ends
    return Answers(scores, rng.random(200) < scores)


def test_bins_are_those_of_a_loop(answers):
    made = binned(answers, 4)
    groups = {}
    for score_of, right in zip(*answers, strict=True):
        groups.setdefault(min(int(score_of * 4), 3), []).append((score_of, right))
    expected = [np.mean(groups[place], axis=0) for place in sorted(groups)]
    assert made.score == pytest.approx([pair[0] for pair in expected])
    assert made.accuracy == pytest.approx([pair[1] for pair in expected])
    assert made.sizes.tolist() == [len(groups[place]) for place in sorted(groups)]
    naive = sum(len(g) / 200 * abs(np.mean(g, axis=0) @ [1, -1]) for g in groups.values())
    assert expected_error(made) == pytest.approx(naive)
    assert binned(Answers(np.array([1.0, 0.05]), np.array([True, False])), 10).sizes.tolist() == [
        1,
        1,
    ]


def test_wilson_intervals_by_hand():
    # 8 of 10: 0.490 to 0.943 (Newcombe 1998)
    below, above = wilson(np.array([0.8]), np.array([10]))[:, 0]
    assert (0.8 - below, 0.8 + above) == (
        pytest.approx(0.490, abs=5e-4),
        pytest.approx(0.943, abs=5e-4),
    )
    assert wilson(np.array([0.0, 1.0]), np.array([5, 5]))[[0, 1], [0, 1]].tolist() == [0, 0]


def test_risk_at_each_threshold_is_that_of_a_loop(answers):
    coverage, risk = risks(answers)
    thresholds = sorted(set(answers.scores.tolist()), reverse=True)
    given = [answers.scores >= threshold for threshold in thresholds]
    assert coverage == pytest.approx([some.mean() for some in given])
    assert risk == pytest.approx([(~answers.right[some]).mean() for some in given])
    perfect = Answers(np.array([0.9, 0.8, 0.1, 0.2]), np.array([True, True, False, False]))
    # risks 0, 0, 1/3, 1/2, a quarter of the queries each
    assert area(perfect) == pytest.approx((0 + 0 + 1 / 3 + 1 / 2) / 4)


@pytest.fixture
def files(tmp_path):
    made = {}
    for name, right in (("sure", "A"), ("un$ure", "B")):
        rows = [
            Prediction(f"q{n}", "en", "all", "A", "", (right,), (right,), (n / 10,), False)
            for n in range(10)
        ]
        rows.append(Prediction("q", "en", "all", "A", "", (), (), (), False))
        rows.append(Prediction("n", "en", "all", "A", "", ("A",), ("a",), (-0.5,), False))
        made[name] = tmp_path / f"{name}.jsonl"
        write_predictions(made[name], rows)
    return made


def test_answers_are_read_from_predictions(files):
    found = read_answers(files["sure"])
    assert found.scores.tolist() == [n / 10 for n in range(10)] + [0.0, 0.0]
    assert found.right.tolist() == [True] * 10 + [False, True]


def test_curves_say_their_figures(files, tmp_path):
    words = said(reliability(files, tmp_path / "reliability")[1])
    some = binned(read_answers(files["sure"]), 10)
    assert f"sure: calibration error {expected_error(some):.3f}" in words
    words = said(risk_coverage(files, tmp_path / "risk")[1])
    assert f"un$ure: area {area(read_answers(files['un$ure'])):.3f}" in words
    assert "% of the answers that are wrong" in words


def test_curves_of_nothing_are_an_error(tmp_path):
    (tmp_path / "empty.jsonl").touch()
    for draw in (reliability, risk_coverage):
        with pytest.raises(UsageError, match="there are no predictions to draw"):
            draw({}, tmp_path / "x")
        with pytest.raises(UsageError, match="no predictions of m to draw"):
            draw({"m": tmp_path / "empty.jsonl"}, tmp_path / "x")


def test_every_cell_has_its_number_or_a_dash(tmp_path):
    scores = [
        score("m", value, bench="mantra", metric="f1", split=split)
        for split, value in (
            ("de/EMEA", 0.5),
            ("fr/EMEA", 0.25),
            ("fr/Medline", 0.75),
            ("fr", 0.1),
            ("unseen/fr", 0.2),
        )
    ]
    words = said(heat_map(scores, tmp_path / "heat")[1])
    assert {"de", "fr", "EMEA", "Medline", "50.0", "25.0", "75.0", "–", "m"} <= set(words)
    assert not {"10.0", "20.0", "unseen"} & set(words)
    one = said(heat_map(scores[:1], tmp_path / "one")[1])
    assert "50.0" in one


def test_a_heat_map_of_nothing_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no scores 'f1' of 'mantra'"):
        heat_map([score("m", 0.5)], tmp_path / "heat")
