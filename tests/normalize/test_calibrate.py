"""Probabilities from scores: the fit, its figures, and the queries drawn from a graph."""

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from medcoder import Normalizer
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.masks import named_terms
from medcoder.normalize import calibrate, calibration_queries
from medcoder.normalize.batch import Candidate, Fusion, Search
from medcoder.normalize.build import build
from medcoder.normalize.calibrate import FEATURES, Asked, Calibration, features, fit
from medcoder.normalize.calibration_queries import SHARES, draw, misspell, scramble
from medcoder.text import fold, spoken
from support.many import small_source
from support.plain import edits

# Few distinct confidences, so that some are equal, and the ends of bins.
CONFIDENCE = st.sampled_from(
    [0.0, 0.05, 0.1, 0.3, 0.30000001, 0.5, 0.95, 0.999999, 1.0]
) | st.floats(0, 1)
JUDGED = st.lists(st.tuples(CONFIDENCE, st.booleans()), max_size=30)


def columns(judged):
    return np.array([c for c, _ in judged], float), np.array([r for _, r in judged], bool)


# The fit


def sigmoid(value):
    return 1 / (1 + math.exp(-value)) if value > 0 else math.exp(value) / (1 + math.exp(value))


def slope(rows, right, weights, ridge):
    """Of the mean log-likelihood with a ridge, term by term."""
    found = [ridge * weight for weight in weights]
    for row, truth in zip(rows, right, strict=True):
        off = sigmoid(sum(a * b for a, b in zip(row, weights, strict=True))) - truth
        for place, value in enumerate(row):
            found[place] += off * value / len(rows)
    return found


def test_the_fit_equals_slow_descent(monkeypatch):
    monkeypatch.setattr(calibrate, "_RIDGE", 0.05)
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(30, 2)), np.ones(30)])
    right = rng.random(30) < 1 / (1 + np.exp(-rows @ [2.0, -1.0, 0.5]))
    weights = [0.0, 0.0, 0.0]
    for _ in range(1500):
        step = slope(rows.tolist(), right.tolist(), weights, 0.05)
        weights = [weight - part for weight, part in zip(weights, step, strict=True)]
    found = calibrate._logistic(rows, right)
    assert found.tolist() == pytest.approx(weights, abs=1e-6)
    assert found[0] > 0.3 > -0.2 > found[1]


@settings(max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 11),
    st.sampled_from([0.01, 1, 5, 50]),
    st.sampled_from(["random", "separable", "all", "none"]),
)
@example(61, 22, 7, 5, "random")  # whole steps of Newton's method lead away for ever
def test_the_fit_is_where_the_slope_is_level(seed, count, width, scale, truth):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, width)) * scale
    rows[:, -1] = 1
    right = {
        "random": rng.random(count) < 0.7,
        "separable": rows[:, 0] > 0,
        "all": np.ones(count, bool),
        "none": np.zeros(count, bool),
    }[truth]
    weights = calibrate._logistic(rows, right)
    level = slope(rows.tolist(), right.tolist(), weights.tolist(), calibrate._RIDGE)
    assert max(map(abs, level)) < 1e-6 * max(scale, 1)


def test_nothing_to_fit():
    assert calibrate._logistic(np.zeros((0, 3)), np.zeros(0, bool)).tolist() == [0, 0, 0]
    empty = fit([], [])
    assert (empty.threshold, empty.error, empty.curve, empty.reliability) == (0.5, 0.0, (), ())
    assert empty.confidences([Candidate(1, 2, "dense", 0.5, None, 0.5)]).tolist() == [0.5]
    assert (empty.queries, empty.accuracy) == ({}, {})


# Figures, against plain loops


def bins_of(judged):
    bins = [[] for _ in range(10)]
    for confidence, right in judged:
        bins[min(int(confidence * 10), 9)].append((confidence, right))
    return [some for some in bins if some]


@given(JUDGED)
@example([(1.0, True), (1.0, False), (0.0, False)])
def test_reliability_and_its_error(judged):
    found = calibrate.reliability(*columns(judged))
    expected = [
        (sum(c for c, _ in some) / len(some), sum(r for _, r in some) / len(some), len(some))
        for some in bins_of(judged)
    ]
    assert list(map(list, found)) == [pytest.approx(row) for row in expected]
    error = sum(abs(mean - share) * count for mean, share, count in expected)
    assert calibrate.calibration_error(*columns(judged)) == pytest.approx(
        error / max(len(judged), 1)
    )


def answered_at(judged, least):
    return [right for confidence, right in judged if confidence >= least]


@given(JUDGED)
def test_risk_and_coverage(judged):
    found = calibrate.risk_coverage(*columns(judged))
    expected = []
    for least in sorted({confidence for confidence, _ in judged}, reverse=True):
        some = answered_at(judged, least)
        expected.append((least, len(some) / len(judged), sum(some) / len(some)))
    assert list(map(list, found)) == [pytest.approx(row) for row in expected]


def test_a_long_curve_is_thinned_out():
    rng = np.random.default_rng(0)
    confidence = rng.random(3000)
    correct = rng.random(3000) < confidence
    found = calibrate.risk_coverage(confidence, correct)
    assert len(found) == 200
    judged = list(zip(confidence.tolist(), correct.tolist(), strict=True))
    assert found[0][0] == confidence.max()
    assert found[-1] == (confidence.min(), 1.0, pytest.approx(correct.mean()))
    for least, share, precision in found[::20]:
        some = answered_at(judged, least)
        assert (share, precision) == pytest.approx((len(some) / 3000, sum(some) / len(some)))
    assert max(b[1] - a[1] for a, b in pairwise(found)) < 0.006


@given(JUDGED.filter(bool), st.integers(0, 10))
@example(
    [(0.9, True), (0.9, False), (0.9, False), (0.2, True)], 0
)  # equal ones stand or fall together
@example([(0.0, False), (5e-324, True)], 0)  # nothing lies between them
def test_the_threshold_balances_precision_and_recall(judged, unanswered):
    answerable = sum(right for _, right in judged) + unanswered

    def harmonic(least):
        some = answered_at(judged, least)
        precision, recall = sum(some) / len(some), sum(some) / max(answerable, 1)
        return 2 * precision * recall / (precision + recall) if sum(some) else 0.0

    found = calibrate._threshold(*columns(judged), answerable)
    best = max(harmonic(confidence) for confidence, _ in judged)
    assert harmonic(found) == pytest.approx(best)
    above = min(confidence for confidence, _ in judged if confidence >= found)
    below = max((confidence for confidence, _ in judged if confidence < found), default=0.0)
    assert found == pytest.approx((above + below) / 2)


def test_the_confidence_that_gives_a_precision():
    curve = ((0.9, 0.1, 1.0), (0.8, 0.3, 0.96), (0.7, 0.4, 0.85), (0.6, 0.5, 0.91), (0.1, 1.0, 0.7))
    fitted = Calibration(
        best=(), others=(), threshold=0.5, error=0.0, curve=curve,
        reliability=((0.2, 0.3, 100), (0.8, 0.9, 200)),
    )  # fmt: skip
    assert [fitted.threshold_for(least) for least in (0.5, 0.9, 0.95, 0.97, 1.0)] == [
        0.1, 0.6, 0.8, 0.9, 0.9,
    ]  # fmt: skip
    few = Calibration(**vars(fitted) | {"reliability": ((0.2, 0.3, 100), (0.8, 0.9, 199))})
    assert [few.threshold_for(least) for least in (0.96, 0.97)] == [0.8, None]  # 29 show no more


# Features and confidences


def candidates():
    return [
        Candidate(4, 9, "exact", 0.9, 1.0, 1.0, name="cold", hit=True),
        Candidate(5, 11, "exact", None, None, 1.0, name="cold", hit=True),
        Candidate(6, 13, "dense", 0.8, 0.25, 0.8, False, True),
        Candidate(7, 15, "ngram", -0.1, 0.5, -0.1, False),
    ]


def test_features():
    rows = [dict(zip(FEATURES, row, strict=True)) for row in features(candidates()).tolist()]
    assert rows[0] == pytest.approx({
        "score": 1, "square": 1, "cosine": 0.9, "similarity": 1, "margin": 0.2,
        "lead": math.sqrt(0.2), "both": 0.2, "exact": 1, "rivals": 0, "known": 1,
        "spelt": 0, "one": 1,
    })  # fmt: skip
    assert rows[1] == rows[0] | {"cosine": 0, "similarity": 0}  # the same name, so as far ahead
    assert rows[2] == pytest.approx({
        "score": 0.8, "square": 0.64, "cosine": 0.8, "similarity": 0.25, "margin": -0.2, "lead": 0,
        "both": -0.16, "exact": 0, "rivals": 0, "known": 0, "spelt": 1, "one": 1,
    })  # fmt: skip
    ahead = dict(zip(FEATURES, features(candidates()[2:])[0].tolist(), strict=True))
    assert ahead == pytest.approx(rows[2] | {"margin": 0.9, "lead": math.sqrt(0.9), "both": 0.72})
    alone = dict(zip(FEATURES, features(candidates()[2:3])[0].tolist(), strict=True))
    assert (alone["margin"], alone["lead"]) == pytest.approx((0.8, math.sqrt(0.8)))
    assert features(candidates(), 2).tolist() == features(candidates())[:2].tolist()
    other = [replace(one, name=name) for one, name in zip(candidates(), "abcd", strict=True)]
    for some in (other, [replace(one, name=None) for one in other]):  # two names as near
        tied = dict(zip(FEATURES, features(some)[0].tolist(), strict=True))
        assert tied == rows[0] | {"margin": 0, "lead": 0, "both": 0, "rivals": math.log(2)}
    assert features([]).shape == (0, len(FEATURES))


def test_concepts_of_one_name_have_its_confidence():
    def fitted(best, other):
        weights = (
            [logit if name == "one" else 0.0 for name in FEATURES] for logit in (best, other)
        )
        made = dict(zip(("best", "others"), map(tuple, weights), strict=True))
        return Calibration(**made, threshold=0.5, error=0.0, curve=(), reliability=())

    calibration = fitted(math.log(0.4 / 0.6), math.log(0.3 / 0.7))
    found = calibration.confidences(candidates()).tolist()
    assert found == pytest.approx([0.4, 0.4, 0.3, 0.3])  # the two exact ones
    some = [Candidate(n, n, "dense", 0.9 - n / 9, name="abacb"[n]) for n in range(5)]
    some[1].cosine, some[4].cosine = 0.5, 0.4  # of one name, the first decides
    some[3].cosine = -0.5
    weights = tuple(float(name == "cosine") for name in FEATURES)
    calibration = Calibration(**vars(calibration) | {"others": weights})
    found = calibration.confidences(some).tolist()
    assert found == pytest.approx([0.4, sigmoid(0.5), 0.4, sigmoid(-0.5), sigmoid(0.5)])
    assert calibration.confidences(some, 3).tolist() == found[:3]


def test_a_name_is_right_if_one_of_its_concepts_is_meant():
    some = [Candidate(n, n, "dense", 0.9 - n / 9, name="abacb"[n]) for n in range(5)]
    assert [Asked("synonym", some, meant).right for meant in (0, 1, 2, 3, 4, None)] == [
        True, False, True, False, False, False,
    ]  # fmt: skip
    rows, right, first = calibrate._table([Asked("synonym", some, 4), Asked("verbatim", some, 2)])
    assert rows.tolist() == features(some)[[0, 1, 3, 0, 1, 3]].tolist()  # a name teaches once
    assert right.tolist() == [False, True, False, True, False, False]
    assert first.tolist() == [True, False, False, True, False, False]


def test_the_best_candidate_has_weights_of_its_own():
    weight = {"score": 2.0, "one": -1.0}
    best = tuple(weight.get(name, 0.0) for name in FEATURES)
    others = tuple(-3.0 * (name == "cosine") for name in FEATURES)
    fitted = Calibration(
        best=best, others=others, threshold=0.5, error=0.0, curve=(), reliability=()
    )
    expected = [sigmoid(1), sigmoid(1), sigmoid(-2.4), sigmoid(0.3)]
    assert fitted.confidences(candidates()).tolist() == pytest.approx(expected)
    assert fitted.confidences(candidates(), 1).tolist() == pytest.approx(expected[:1])
    assert fitted.confidences([]).shape == (0,)
    extreme = Calibration(**vars(fitted) | {"best": tuple(1e6 for _ in FEATURES)})
    assert 0.999 < extreme.confidences(candidates())[0] < 1  # never quite certain


def asked(rng, kind="synonym"):
    """A query whose best candidate is right as often as its score says, of ten concepts."""
    score = float(rng.random())
    other = float(rng.random() * score)
    meant = 1 if rng.random() < score else 2 if rng.random() < other else 3
    found = [
        Candidate(1, 1, "dense", score, None, score),
        Candidate(2, 2, "dense", other, None, other),
    ]
    return Asked(kind, found, meant)


def test_a_fit_gives_the_probabilities_that_were_there():
    rng = np.random.default_rng(0)
    some = [asked(rng) for _ in range(2000)]
    fitted = fit(some[:1000], some[1000:])
    assert fitted.error < 0.05
    for one in some[1000:1100]:
        assert fitted.confidences(one.candidates)[0] == pytest.approx(
            one.candidates[0].score, abs=0.15
        )
    # What is told of it was measured on the second half alone.
    confidence = np.array([fitted.confidences(one.candidates)[0] for one in some[1000:]])
    right = np.array([one.concept == 1 for one in some[1000:]])
    assert fitted.error == pytest.approx(calibrate.calibration_error(confidence, right))
    for kept, made in (
        (fitted.curve, calibrate.risk_coverage(confidence, right)),
        (fitted.reliability, calibrate.reliability(confidence, right)),
    ):
        assert [list(row) for row in kept] == [pytest.approx(row) for row in map(list, made)]
    # The threshold is of the first.
    confidence = np.array([fitted.confidences(one.candidates)[0] for one in some[:1000]])
    right = np.array([one.concept == 1 for one in some[:1000]])
    assert fitted.threshold == pytest.approx(calibrate._threshold(confidence, right, 1000))
    assert fitted == fit(some[:1000], some[1000:])


def test_what_cannot_be_answered_is_not_missed():
    rng = np.random.default_rng(2)
    some = [asked(rng) for _ in range(40)] + [asked(rng)._replace(concept=None) for _ in range(9)]
    with mock.patch.object(calibrate, "_threshold", return_value=0.25) as made:
        assert fit(some, []).threshold == 0.25
    [(confidence, correct, answerable)] = [call.args for call in made.call_args_list]
    assert (len(confidence), correct.sum(), answerable) == (49, sum(one.right for one in some), 40)


def test_kinds_are_counted():
    one, other = Candidate(1, 1, "dense", 0.9, None, 0.9), Candidate(2, 2, "dense", 0.5, None, 0.5)
    some = [
        Asked("synonym", [one, other], 1), Asked("synonym", [other, one], 1),
        Asked("synonym", [], 1), Asked("absent", [one], None), Asked("nonsense", [], None),
    ]  # fmt: skip
    assert [entry.right for entry in some] == [True, False, False, False, False]
    fitted = fit(some[:3], some[3:])
    assert fitted.queries == {"absent": 1, "nonsense": 1, "synonym": 3}
    assert fitted.accuracy == {"synonym": 0.3333}  # of what cannot be answered, there is none


def test_candidates_beyond_the_first_few_teach_nothing():
    many = [Candidate(n, n, "dense", 0.5, None, 0.5) for n in range(50)]
    rows, right, first = calibrate._table([Asked("synonym", many, 3), Asked("synonym", [], 1)])
    assert (len(rows), right.tolist()) == (5, [False, False, False, True, False])
    assert first.tolist() == [True, False, False, False, False]


def test_a_calibration_survives_being_stored():
    rng = np.random.default_rng(1)
    some = [asked(rng, kind) for kind in ("synonym", "absent") for _ in range(50)]
    fitted = fit(some[::2], some[1::2])
    again = Calibration.from_dict(json.loads(json.dumps(fitted.as_dict())))
    assert again == fitted
    assert (
        again.confidences(some[0].candidates).tolist()
        == fitted.confidences(some[0].candidates).tolist()
    )
    for broken in ({"best": [1.0]}, {"others": []}):
        with pytest.raises(ValueError, match=f"it needs {len(FEATURES)} weights"):
            Calibration.from_dict(fitted.as_dict() | broken)


# Queries drawn from a graph


@pytest.fixture(scope="module")
def normalizer(many_index):
    return Normalizer.load(many_index)


def of(kg, concept):
    """Numbers and texts of a concept's terms."""
    first = int(kg.terms.first[concept])
    return {first + place: text for place, (text, *_) in enumerate(kg.terms.of(concept))}


def test_queries_are_drawn_in_their_shares(normalizer):
    queries = draw(normalizer._ranker, 60)
    assert Counter(query.kind for query in queries) == {
        kind: round(60 * share) for kind, share in SHARES.items()
    }
    assert math.isclose(sum(SHARES.values()), 1)
    assert len({query.concept for query in queries}) == len(queries)
    assert draw(normalizer._ranker, 60) == queries
    kinds = [query.kind for query in queries]
    assert len(set(kinds[:30])) > 3  # shuffled, so that each half has all
    assert draw(normalizer._ranker, 0) == []


def test_added_terms_are_not_asked_for_and_hidden_with_a_synonym(bag, tmp_path, calibration):
    def terms(code, *names):
        return [(code, name, "en", "ICD10CM", code, "PT", n) for n, name in enumerate(names)]

    rows = [("A03", "hot head", "en", "ICD10CM", "A03", "includes", 2)]
    rows += terms("A03", "Fever, unspecified", "pyrexia NOS")
    rows += terms("A04", "Cough, unspecified") + terms("A05", "Heart attack", "cardiac infarction")
    build_kg([small_source(rows)], tmp_path / "kg")
    build(KG.open(tmp_path / "kg"), bag, tmp_path / "index", calibration=calibration)
    asked = Normalizer.load(tmp_path / "index")
    queries = [query for count in range(1, 30) for query in draw(asked._ranker, count)]
    kg = asked.kg
    added = {n for n, named in enumerate(named_terms(kg).tolist()) if not named}
    assert {kg.terms.text(n) for n in added} == {"hot head", "Fever", "pyrexia", "Cough"}
    told = [query for query in queries if query.kind in ("verbatim", "synonym", "absent")]
    assert told and not {q.text for q in told} & {kg.terms.text(n) for n in added}
    synonyms = [query for query in told if query.kind == "synonym"]
    assert synonyms
    for query in synonyms:
        assert query.hidden >= added & set(of(kg, query.concept))
        assert kg.ids([query.concept]) != ["A04"]  # its one name has nothing else to be found by


def test_what_is_hidden_is_as_said(normalizer):
    kg, rows = normalizer.kg, normalizer._vectors.term_row
    for query in draw(normalizer._ranker, len(kg)):
        terms = of(kg, query.concept)
        texts = set(terms.values())
        if query.kind in ("misspelt", "nonsense"):
            assert (query.row, query.hidden) == (-1, frozenset())
            assert not (kg.find(query.text) if query.kind == "nonsense" else query.text in texts)
        else:
            assert query.row in {int(rows[number]) for number in terms}
            assert query.text in [terms[number] for number in terms if rows[number] == query.row]
        if query.kind == "verbatim":
            assert query.hidden == frozenset()
        if query.kind == "absent":
            assert query.hidden == frozenset(terms)
        if query.kind == "synonym":
            alike = {n for n, text in terms.items() if fold(text) == fold(query.text)}
            assert query.hidden == alike
            assert alike < set(terms)
        answerable = query.kind not in ("absent", "nonsense")
        assert query.meant == (query.concept if answerable else None)
        assert kg.flags_of(kg.ids([query.concept])[0]) == []  # an extension is not asked for


def test_what_few_concepts_can_be_asked_for_is_asked_of_them(tmp_path, bag, calibration):
    """Where hardly any concept has two terms, those that have are asked for a synonym."""
    rows = [(f"C{n:02}", f"term number {n}", "en", "MSH", str(n), "PT", 0) for n in range(30)]
    rows += [(f"C{n:02}", f"synonym {n}", "en", "MSH", str(n), "SY", 1) for n in (3, 14, 15)]
    rows += [(f"C{n:02}", f"TERM number {n}!", "en", "MSH", str(n), "SY", 1) for n in (9, 26)]
    build_kg([small_source(rows)], tmp_path / "s.kg")
    build(KG.open(tmp_path / "s.kg"), bag, tmp_path / "s.index", calibration=calibration)
    queries = draw(Normalizer.load(tmp_path / "s.index")._ranker, 30)
    drawn_from = {kind: {q.concept for q in queries if q.kind == kind} for kind in SHARES}
    assert drawn_from["synonym"] == {3, 14, 15}  # not those whose two terms fold alike
    sizes = {kind: len(some) for kind, some in drawn_from.items() if kind != "synonym"}
    assert sizes == {kind: round(30 * SHARES[kind]) for kind in sizes}


def test_nonsense_is_no_term(tmp_path, bag, calibration):
    """Of two letters, every second order of them is the right one, and some make another term."""
    rows = [
        (f"C{n:02}", chr(0x4E00 + n) + chr(0x4F00 + n), "zh", "MSH", "1", "PT", 0)
        for n in range(60)
    ]
    rows += [(f"D{n:02}", chr(0x5E00 + n), "zh", "MSH", "1", "PT", 0) for n in range(20)]
    rows += [(f"E{n:02}", text, "en", "MSH", "1", "PT", 0) for n, text in enumerate(("MI", "IM"))]
    build_kg([small_source(rows)], tmp_path / "s.kg")
    build(KG.open(tmp_path / "s.kg"), bag, tmp_path / "s.index", calibration=calibration)
    normalizer = Normalizer.load(tmp_path / "s.index")
    with mock.patch.object(calibration_queries, "SHARES", {"nonsense": 1.0}):
        queries = draw(normalizer._ranker, 80)
    assert 15 < len(queries) <= 60
    assert [query.text for query in queries if normalizer.kg.find(query.text)] == []


@given(st.text("abé心 -1", max_size=12) | st.text(max_size=8), st.integers(0, 99))
def test_a_misspelling_is_one_slip(text, seed):
    wrong = misspell(text, np.random.default_rng(seed))
    assert edits(text, wrong) <= 1
    letters = [letter for letter in text if letter.isalpha()]
    if len(letters) < 4:
        assert wrong == text


def test_slips_are_of_all_kinds():
    slips = Counter()
    for seed in range(300):
        wrong = misspell("diabetes", np.random.default_rng(seed))
        assert wrong[0] in "di"  # the first letter is seldom wrong
        slips[len(wrong) - 8, sorted(wrong) == sorted("diabetes"), wrong == "diabetes"] += 1
    dropped, doubled, swapped = (
        slips[-1, False, False],
        slips[1, False, False],
        slips[0, True, False],
    )
    replaced = slips[0, False, False]
    assert min(dropped, doubled, swapped, replaced) > 40


@given(st.text("abc dé心", max_size=20), st.integers(0, 99))
def test_scrambled_words_keep_their_letters(text, seed):
    mixed = scramble(text, np.random.default_rng(seed)).split()
    words = text.split()[:4]
    assert [sorted(word) for word in mixed] == [sorted(word) for word in words]


# Both together


def test_what_is_stored_is_what_was_measured(normalizer, bag):
    """Ask the queries again, one by one, and judge the answers by plain loops."""
    found = normalizer._ranker
    queries = draw(found, len(normalizer.kg))
    vectors = bag.encode([spoken(query.text) for query in queries])
    half = len(queries) // 2
    certain = ("exact", "slip")
    for name, stages in (
        ("dense+ngram", (*certain, "dense", "ngram")), ("dense", (*certain, "dense")),
        ("ngram", (*certain, "ngram")), ("exact", certain),
    ):  # fmt: skip
        fitted = normalizer.calibration(stages)
        assert fitted == normalizer._calibrations[name]
        search = Search(top=5, stages=stages, fusion=normalizer._fusion)
        judged, hits = [], Counter()
        for place, query in enumerate(queries):
            embed = vectors[[place]].__getitem__ if "dense" in stages else None
            [some] = found.find([query.text], embed, search, without=[query.hidden])
            right = query.meant in [one.concept for one in some if one.name == some[0].name]
            hits[query.kind] += right
            if place >= half and some:
                judged.append((float(fitted.confidences(some)[0]), right))
        expected = sum(
            abs(sum(c - r for c, r in some)) for some in bins_of(judged)
        ) / len(judged)  # fmt: skip
        assert fitted.error == pytest.approx(expected, abs=2e-3)  # stored vectors have 16 bits
        assert fitted.queries == Counter(query.kind for query in queries)
        assert fitted.accuracy == {
            kind: pytest.approx(hits[kind] / fitted.queries[kind], abs=1e-4)
            for kind in ("synonym", "verbatim", "misspelt")
        }
        assert sum(count for *_, count in fitted.reliability) == len(judged)


def test_queries_are_asked_some_at_a_time(normalizer, monkeypatch):
    found = normalizer._ranker
    queries = draw(found, 60)
    search = Search(top=5, stages=("exact", "dense"), fusion=Fusion())
    vectors = found.vectors.take(np.array([max(query.row, 0) for query in queries]))
    whole = calibrate._ask(found, queries, vectors, search)
    monkeypatch.setattr(calibrate, "_BATCH", 7)
    assert calibrate._ask(found, queries, vectors, search) == whole
    assert [(one.kind, one.concept) for one in whole] == [(q.kind, q.meant) for q in queries]


def test_the_fusion_is_that_which_finds_most(normalizer, monkeypatch):
    """Of equal ones, the letters count as little as can be."""
    near = Candidate(1, 1, "dense", 0.6, 0.1, 0.0, False)
    alike = Candidate(2, 2, "ngram", 0.5, 0.9, 0.0, False)
    exact = Candidate(3, 3, "exact", 0.5, 1.0, 1.0, hit=True)
    for meant, known, chosen in (
        (2, False, Fusion(0.5, 0.6)),  # the least gain by which letters win
        (1, False, Fusion(0.0, 0.6)),
        (2, True, Fusion(0.0, 0.6)),  # no gain makes any difference
        (None, False, Fusion(0.0, 0.6)),
    ):
        both = [Candidate(*(getattr(c, n) for n in c.__slots__[:6]), known) for c in (near, alike)]
        answers = [Asked("misspelt", both, meant), Asked("verbatim", [exact, *both], 3)]
        monkeypatch.setattr(calibrate, "_ask", lambda *_, found=answers: found)
        assert calibrate._best_fusion(normalizer._ranker, [], np.zeros((0, 1))) == chosen
    slip = Candidate(4, 4, "dense", 0.5, 0.2, 0.0, False, near=True)  # as if its letters were there
    assert calibrate._right(Asked("misspelt", [near, slip], 4), Fusion(0.5, 0.6))
    nearer = Candidate(1, 1, "dense", 0.6, 0.1, 0.6)
    assert calibrate._right(Asked("verbatim", [exact, nearer], 3), Fusion(4.0, 0.4))
    assert not calibrate._right(Asked("verbatim", [], 3), Fusion())
