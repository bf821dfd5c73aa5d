"""How sure to be: what weights reached, and the queries drawn from a graph to fit them to."""

import json
import math
from collections import Counter
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medcoder import Normalizer
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.masks import named_terms
from medcoder.normalize import calibrate, calibration_queries
from medcoder.normalize.batch import Candidate, Fusion, Search
from medcoder.normalize.build import build
from medcoder.normalize.calibrate import Asked, Calibration, judge
from medcoder.normalize.calibration_queries import SHARES, Query, draw, misspell, scramble
from medcoder.normalize.choices import choices, relatives
from medcoder.normalize.fitting import Example, fit
from medcoder.normalize.interpretations import Interpretation
from medcoder.normalize.stages import STAGES
from medcoder.text import fold, spoken
from support.chosen import chosen, found, weights
from support.many import small_source
from support.plain import edits

# Few distinct confidences, so that some are equal, and the ends of bins.
CONFIDENCE = st.sampled_from(
    [0.0, 0.05, 0.1, 0.3, 0.30000001, 0.5, 0.95, 0.999999, 1.0]
) | st.floats(0, 1)
JUDGED = st.lists(st.tuples(CONFIDENCE, st.booleans()), max_size=30)


def columns(judged):
    return np.array([c for c, _ in judged], float), np.array([r for _, r in judged], bool)


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

    least = calibrate._threshold(*columns(judged), answerable)
    every = {confidence: harmonic(confidence) for confidence, _ in judged}
    best = max(every.values())
    chosen = max(one for one, value in every.items() if value == pytest.approx(best))
    if chosen < 0.5:
        assert least == 0.5  # what is more likely wrong than right is no answer
        return
    assert harmonic(least) == pytest.approx(best)
    below = max((confidence for confidence, _ in judged if confidence < least), default=0.0)
    above = min(confidence for confidence, _ in judged if confidence >= least)
    assert least == pytest.approx(max((above + below) / 2, 0.5))


def test_nothing_to_judge_has_the_threshold_of_more_likely_than_not():
    assert calibrate._threshold(np.zeros(0), np.zeros(0, bool), 9) == 0.5


def test_the_confidence_that_gives_a_precision():
    curve = ((0.9, 0.1, 1.0), (0.8, 0.3, 0.96), (0.7, 0.4, 0.85), (0.6, 0.5, 0.91), (0.1, 1.0, 0.7))
    fitted = Calibration(
        weights=weights(), threshold=0.5, error=0.0, curve=curve,
        reliability=((0.2, 0.3, 100), (0.8, 0.9, 200)),
    )  # fmt: skip
    assert [fitted.threshold_for(least) for least in (0.5, 0.9, 0.95, 0.97, 1.0)] == [
        0.1, 0.6, 0.8, 0.9, 0.9,
    ]  # fmt: skip
    few = Calibration(**vars(fitted) | {"reliability": ((0.2, 0.3, 100), (0.8, 0.9, 199))})
    assert [few.threshold_for(least) for least in (0.96, 0.97)] == [0.8, None]  # 29 show no more


# What weights reached


def example(rng, kind="synonym", answerable=True):
    """A string whose best candidate is right as often as its cosine says."""
    score = float(rng.uniform(0.25, 1.0))
    right = np.array([answerable and rng.random() < score, False])
    some = chosen(found(1, cosine=score), found(2, cosine=score / 2))
    return Example(some, right, kind, answerable=answerable)


def measured(fitted, kept_out, **more):
    return Calibration.measured(fitted, kept_out, *judge(fitted, kept_out), **more)


def test_a_fit_gives_the_probabilities_that_were_there():
    rng = np.random.default_rng(0)
    some = [example(rng) for _ in range(2000)]
    fitted = fit(some[:1000])
    reached = measured(fitted, some[1000:])
    assert reached.error < 0.05
    for one in some[1000:1100]:
        score = one.choices.candidates[0].score
        assert fitted.rank(one.choices).confidences[0] == pytest.approx(score, abs=0.15)
    # What is told of it was measured on the second half alone.
    confidence = np.array([fitted.rank(one.choices).confidences[0] for one in some[1000:]])
    right = np.array([one.right[0] for one in some[1000:]])
    assert reached.weights == fitted == fit(some[:1000])
    assert reached.error == pytest.approx(calibrate.calibration_error(confidence, right))
    assert reached.threshold == calibrate._threshold(confidence, right, 1000)
    for kept, made in (
        (reached.curve, calibrate.risk_coverage(confidence, right)),
        (reached.reliability, calibrate.reliability(confidence, right)),
    ):
        assert [list(row) for row in kept] == [pytest.approx(row) for row in map(list, made)]


def test_the_best_is_judged_by_what_comes_first_then():
    one, other = found(1, cosine=0.5, name=1.0), found(2, cosine=0.9)
    some = [
        Example(chosen(one, other), np.array(right)) for right in ([True, False], [False, True])
    ]
    for order, right in (({"cosine": 1.0}, [False, True]), ({"name": 1.0}, [True, False])):
        confidence, correct = judge(weights(order, {"name": 1.0}), some)
        assert correct.tolist() == right
        assert (confidence > 0.5).tolist() == [order == {"name": 1.0}] * 2
    confidence, correct = judge(weights(), [])
    assert (len(confidence), len(correct)) == (0, 0)


QUERY = {"text": "x", "row": -1, "concept": 1, "hidden": frozenset()}


def test_what_cannot_be_answered_is_not_missed_and_what_is_not_found_is():
    rng = np.random.default_rng(2)
    some = [example(rng) for _ in range(40)] + [example(rng, "absent", False) for _ in range(9)]
    nothing = [Query(kind=kind, **QUERY) for kind in ("synonym", "misspelt", "absent", "nonsense")]
    with mock.patch.object(calibrate, "_threshold", return_value=0.25) as made:
        assert measured(weights(), some, nothing=nothing).threshold == 0.25
    [(confidence, correct, answerable)] = [call.args for call in made.call_args_list]
    assert (len(confidence), correct.sum(), answerable) == (49, sum(s.right[0] for s in some), 42)


def test_kinds_are_counted():
    def of(kind, right, answerable=True):
        return Example(chosen(found(1)), np.array([right]), kind, answerable=answerable)

    some = [of("synonym", True), of("synonym", False), of("absent", False, False)]
    nothing = [Query(kind=kind, **QUERY) for kind in ("synonym", "nonsense", "misspelt")]
    reached = measured(weights(), some, nothing=nothing)
    assert reached.queries == {"absent": 1, "misspelt": 1, "nonsense": 1, "synonym": 3}
    # Of what cannot be answered there is none; what was not found is not right.
    assert reached.accuracy == {"misspelt": 0.0, "synonym": 0.3333}
    empty = measured(weights(), [])
    assert (empty.queries, empty.accuracy, empty.threshold, empty.error) == ({}, {}, 0.5, 0.0)
    assert (empty.curve, empty.reliability) == ((), ())


def test_a_calibration_survives_being_stored():
    rng = np.random.default_rng(1)
    some = [example(rng, kind) for kind in ("synonym", "absent") for _ in range(50)]
    reached = measured(fit(some[::2]), some[1::2])
    again = Calibration.from_dict(json.loads(json.dumps(reached.as_dict())))
    assert again == reached
    ranked = [one.weights.rank(some[0].choices).confidences.tolist() for one in (reached, again)]
    assert ranked[0] == ranked[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"curve": [[0.5, 1.0]]}, "rows of three numbers"),
        ({"reliability": [[0.5, 0.5, 1, 1]]}, "rows of three numbers"),
        ({"threshold": None}, "finite numbers"),
        ({"threshold": math.nan}, "finite numbers"),
        ({"error": "0"}, "finite numbers"),
        ({"curve": [[0.5, 1.0, math.inf]]}, "finite numbers"),
        ({"queries": {"synonym": "many"}}, "finite numbers"),
        ({"accuracy": {"synonym": math.nan}}, "finite numbers"),
        ({"weights": weights().as_dict() | {"base": math.nan}}, "not all numbers"),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_a_calibration_that_is_none_is_refused(changes, said):
    stored = measured(weights(), [Example(chosen(found(1)), np.array([True]))]).as_dict()
    Calibration.from_dict(stored)
    with pytest.raises(ValueError, match=said):
        Calibration.from_dict(stored | changes)


def test_a_name_is_right_if_one_of_its_concepts_is_meant():
    some = [found(n, called="abacb"[n]) for n in range(5)]
    asked = [Asked(Query(**QUERY | {"kind": "synonym", "concept": n}), some) for n in range(5)]
    assert [one.right for one in asked] == [True, False, True, False, False]
    assert not Asked(Query(kind="absent", **QUERY), some).right
    assert not Asked(Query(kind="synonym", **QUERY), []).right


def test_all_that_bear_a_name_that_is_meant_are_right_to_learn_from(normalizer):
    some = [found(n, called="abacb"[n]) for n in range(5)]
    asked = [
        Asked(Query(**QUERY | {"kind": kind, "concept": concept}), some)
        for kind, concept in (("synonym", 4), ("verbatim", 2), ("absent", 2))
    ]
    made = calibrate._examples(normalizer._ranker, [*asked, asked[0]._replace(candidates=[])])
    assert [one and one.right.tolist() for one in made] == [
        [False, True, False, False, True], [True, False, True, False, False], [False] * 5, None,
    ]  # fmt: skip
    assert [one.kind for one in made[:3]] == ["synonym", "verbatim", "absent"]
    assert [one.answerable for one in made[:3]] == [True, True, False]


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
    found_by = normalizer._ranker
    queries = draw(found_by, len(normalizer.kg))
    vectors = bag.encode([spoken(query.text) for query in queries])
    half = len(queries) // 2
    certain, kin = ("exact", "slip"), relatives(normalizer.kg)
    for name, stages in (
        ("dense+ngram", (*certain, "dense", "ngram")), ("dense", (*certain, "dense")),
        ("ngram", (*certain, "ngram")), ("exact", certain),
    ):  # fmt: skip
        fitted = normalizer.calibration(stages)
        assert fitted == normalizer._calibrations[name]
        search = Search(top=5, stages=stages, fusion=normalizer._fusion)
        judged, hits = [], Counter()
        for place, query in list(enumerate(queries))[half:]:
            embed = vectors[[place]].__getitem__ if "dense" in stages else None
            [some] = found_by.find([query.text], embed, search, without=[query.hidden])
            among = choices(query.text, [Interpretation(query.text)], {query.text: some}, kin)
            if among is None:
                continue
            ranked = fitted.weights.rank(among)
            best = among.candidates[ranked.order[0]].name
            right = query.meant in [one.concept for one in some if one.name == best]
            hits[query.kind] += right
            judged.append((float(ranked.confidences[0]), right))
        expected = sum(
            abs(sum(c - r for c, r in some)) for some in bins_of(judged)
        ) / len(judged)  # fmt: skip
        assert fitted.error == pytest.approx(expected, abs=2e-3)  # stored vectors have 16 bits
        assert fitted.queries == Counter(query.kind for query in queries[half:])
        assert fitted.accuracy == {
            kind: pytest.approx(hits[kind] / fitted.queries[kind], abs=1e-4)
            for kind in ("synonym", "verbatim", "misspelt")
        }
        assert sum(count for *_, count in fitted.reliability) == len(judged)
        assert fitted.threshold >= 0.5


def test_queries_are_asked_some_at_a_time(normalizer, monkeypatch):
    ranker = normalizer._ranker
    queries = draw(ranker, 60)
    search = Search(top=5, stages=("exact", "dense"), fusion=Fusion())
    vectors = ranker.vectors.take(np.array([max(query.row, 0) for query in queries]))
    whole = calibrate._ask(ranker, queries, vectors, search)
    monkeypatch.setattr(calibrate, "_BATCH", 7)
    assert calibrate._ask(ranker, queries, vectors, search) == whole
    assert [one.query for one in whole] == queries


def test_drawn_examples_are_those_that_a_graph_is_fitted_to(normalizer, monkeypatch):
    learnt = []
    monkeypatch.setattr(
        calibrate, "fit", lambda some, start: learnt.append((some, start)) or weights()
    )
    fusion, fitted = calibrate.calibrate(normalizer._ranker, normalizer.encoder, 60, {})
    assert sorted(fitted) == ["dense", "dense+ngram", "exact", "ngram"]
    assert {start for _, start in learnt} == {None}
    stages = tuple(name for name in STAGES if name not in ("dense", "ngram"))
    drawn = calibrate.drawn_examples(
        normalizer._ranker, normalizer.encoder, 60, [*stages, "dense", "ngram"], fusion
    )
    assert [query for query, _ in drawn] == draw(normalizer._ranker, 60)
    first, _ = learnt[0]  # of all stages
    assert [one.right.tolist() for _, one in drawn[:30] if one] == [o.right.tolist() for o in first]
    assert [one.kind for _, one in drawn[:30] if one] == [o.kind for o in first]


def test_what_comes_with_the_package_is_the_start(normalizer, monkeypatch):
    given, seen = {}, []
    for number, name in enumerate(("dense", "exact")):
        reached = measured(weights(base=float(number)), [])
        given[name] = reached
    monkeypatch.setattr(calibrate, "fit", lambda some, start: seen.append(start) or weights())
    calibrate.calibrate(normalizer._ranker, normalizer.encoder, 30, given)
    bases = {None if start is None else start.base for start in seen}
    assert (len(seen), bases) == (4, {None, 0.0, 1.0})


def test_the_fusion_is_that_which_finds_most(normalizer, monkeypatch):
    """Of equal ones, the letters count as little as can be."""

    def asked(kind, some, meant):
        kind = kind if meant is not None else "absent"
        return Asked(Query(**QUERY | {"kind": kind, "concept": meant}), some)

    near = Candidate(1, 1, "dense", 0.6, 0.1, 0.0, False)
    alike = Candidate(2, 2, "ngram", 0.5, 0.9, 0.0, False)
    exact = Candidate(3, 3, "exact", 0.5, 1.0, 1.0, hit=True)
    for meant, known, best in (
        (2, False, Fusion(0.5, 0.6)),  # the least gain by which letters win
        (1, False, Fusion(0.0, 0.6)),
        (2, True, Fusion(0.0, 0.6)),  # no gain makes any difference
        (None, False, Fusion(0.0, 0.6)),
    ):
        both = [Candidate(*(getattr(c, n) for n in c.__slots__[:6]), known) for c in (near, alike)]
        answers = [asked("misspelt", both, meant), asked("verbatim", [exact, *both], 3)]
        monkeypatch.setattr(calibrate, "_ask", lambda *_, found=answers: found)
        assert calibrate._best_fusion(normalizer._ranker, [], np.zeros((0, 1))) == best
    slip = Candidate(4, 4, "dense", 0.5, 0.2, 0.0, False, near=True)  # as if its letters were there
    assert calibrate._right(asked("misspelt", [near, slip], 4), Fusion(0.5, 0.6))
    nearer = Candidate(1, 1, "dense", 0.6, 0.1, 0.6)
    assert calibrate._right(asked("verbatim", [exact, nearer], 3), Fusion(4.0, 0.4))
    assert not calibrate._right(asked("verbatim", [], 3), Fusion())
