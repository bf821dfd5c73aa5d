"""The order of candidates and how sure to be of each: by ramps, signs and rivals."""

import copy
import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from medcoder.normalize.choices import COLUMNS, OF_TEXT, choices
from medcoder.normalize.features import FEATURES
from medcoder.normalize.interpretations import Interpretation
from medcoder.normalize.reasons import BASE
from medcoder.normalize.weights import (
    AMONG,
    CONFIDENCE,
    CONFIDENCE_RAMPS,
    ORDER,
    ORDER_RAMPS,
    Weights,
    stated,
)
from support.chosen import chosen, found, kin, weights

PLACES = {name: place for place, name in enumerate((*COLUMNS, *AMONG, *OF_TEXT))}
SIGNS = {some.feature: some.sign for some in (*ORDER, *CONFIDENCE)}


def in_order(fitted, some):
    return [some.candidates[place].concept for place in fitted.rank(some).order.tolist()]


def confidences(fitted, some):
    return fitted.rank(some).confidences.tolist()


# Any weights and candidates

VALUES = st.floats(-5, 5, allow_subnormal=False)
SHARE = st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]) | st.floats(0, 1, width=32)


@st.composite
def any_weights(draw, signed=True):
    """Of the signs that the ramps have; where a feature may count either way, not at all."""

    def listed(used):
        ramps = [some for some in used for _ in some.knots[1:]]
        seed = draw(st.integers(0, 2**32 - 1))
        sizes = np.random.default_rng(seed).normal(scale=draw(st.sampled_from([0.1, 1, 10])),
                                                   size=len(ramps))  # fmt: skip
        if not signed:
            return tuple(sizes.tolist())
        return tuple(abs(s) * ramp.sign for s, ramp in zip(sizes.tolist(), ramps, strict=True))

    return Weights(order=listed(ORDER), confidence=listed(CONFIDENCE), base=draw(VALUES))


CANDIDATES = st.lists(
    st.fixed_dictionaries(
        {"cosine": SHARE, "name": SHARE, "spelling": SHARE, "said": SHARE, "letters": SHARE},
        optional={"certain": st.just(1), "side_other": st.just(1), "support": SHARE},
    ),
    min_size=1,
    max_size=5,
)
NAMED = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=5, max_size=5)


@settings(max_examples=60)
@given(any_weights(), any_weights(), st.floats(-3, 3))
def test_weights_survive_being_stored(one, other, base):
    usual = tuple(abs(value) for value in other.confidence)
    for some in (one, Weights(**vars(one) | {"usual": usual, "base": base})):
        assert Weights.from_dict(json.loads(json.dumps(some.as_dict()))) == some


def stored():
    return weights(
        {"cosine": 2.0}, {"cosine": 1.0}, 0.5, [0.0] * len(CONFIDENCE_RAMPS.sign)
    ).as_dict()


def changed(part, change):
    some = copy.deepcopy(stored())
    change(some[part] if part else some)
    return some


@pytest.mark.parametrize("part", ["order", "confidence"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda some: some["cosine"][0].pop(), "cosine has other knots"),
        (lambda some: some["cosine"][0].append(2.0), "cosine has other knots"),
        (lambda some: some["name"][0].__setitem__(0, 0.25), "name has other knots"),
        (lambda some: some["said"][1].pop(), "said has other knots"),
        (lambda some: some["said"][1].append(1.0), "said has other knots"),
        (lambda some: some.update(more=[[0, 1], [1.0]]), "it has other features"),
        (lambda some: some["said"][1].__setitem__(0, math.nan), "not all numbers"),
        (lambda some: some["said"][1].__setitem__(0, math.inf), "not all numbers"),
        (lambda some: some["said"][1].__setitem__(0, "1"), "not all numbers"),
        (lambda some: some["said"][1].__setitem__(0, True), "not all numbers"),
        (lambda some: some["said"][1].__setitem__(0, None), "not all numbers"),
    ],
)
def test_weights_for_other_ramps_are_refused(part, change, said):
    with pytest.raises(ValueError, match=said):
        Weights.from_dict(changed(part, change))


def test_weights_that_lack_something_are_refused():
    for part in (*("order", "confidence", "base", "usual"),):
        with pytest.raises(KeyError):
            Weights.from_dict(changed("", lambda some, part=part: some.pop(part)))
    with pytest.raises(KeyError, match="said"):
        Weights.from_dict(changed("order", lambda some: some.pop("said")))
    for usual in ([0.0], [0.0] * (len(CONFIDENCE_RAMPS.sign) + 1)):
        with pytest.raises(ValueError, match="its usual values are not one for each weight"):
            Weights.from_dict(stored() | {"usual": usual})
    for base in (math.nan, "0", None):
        with pytest.raises(ValueError, match="not all numbers"):
            Weights.from_dict(stored() | {"base": base})


# Ramps


def test_every_ramp_is_of_a_feature_and_goes_up():
    for used, known in ((ORDER, COLUMNS), (CONFIDENCE, PLACES)):
        names = [some.feature for some in used]
        assert len(set(names)) == len(names)
        assert set(names) <= set(known)
        for some in used:
            assert len(some.knots) > 1
            assert all(low < high for low, high in pairwise(some.knots))
            assert some.sign in (-1, 0, 1)
    assert set(FEATURES) <= {some.feature for some in (*ORDER, *CONFIDENCE)}  # each says something
    both = {some.feature for some in ORDER} & {some.feature for some in CONFIDENCE}
    signs = [{some.feature: some.sign for some in used} for used in (ORDER, CONFIDENCE)]
    assert [name for name in both if signs[0][name] != signs[1][name]] == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-1.0, 0.0), (0.2, 0.0), (0.35, 0.15), (0.5, 0.3), (0.55, 0.4), (0.75, 1.0), (1.0, 2.3),
     (7.0, 2.3)],
)  # fmt: skip
def test_a_feature_counts_by_the_ramps_that_it_is_up(value, expected):
    """Between 0.2, 0.5, 0.6, 0.7, 0.8, 0.9 and 1, each ramp counts one more than the last."""
    fitted = weights({"cosine": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    [score] = ORDER_RAMPS.up(chosen(found(1, cosine=value)).table) @ np.array(fitted.order)
    assert score == pytest.approx(expected, abs=1e-6)


# The order


def test_the_highest_score_comes_first():
    some = chosen(found(1, cosine=0.5), found(2, cosine=0.9), found(3, cosine=0.7))
    assert in_order(weights({"cosine": 1.0}), some) == [2, 3, 1]
    assert in_order(weights({"cosine_behind": -1.0}), some) == [2, 3, 1]


def test_equal_scores_stay_in_the_order_in_which_they_were_found():
    some = chosen(*(found(concept, cosine=0.5) for concept in (3, 1, 4, 5, 2)))
    assert in_order(weights({"cosine": 1.0}), some) == [3, 1, 4, 5, 2]
    assert in_order(weights(), chosen(found(9, cosine=0.1), found(1, cosine=0.9))) == [9, 1]


def test_what_is_certain_comes_first_and_stays_in_its_order():
    some = chosen(
        found(1, certain=1), found(2, certain=1, cosine=0.9), found(3, cosine=1.0), found(4)
    )
    assert in_order(weights({"cosine": 5.0}), some) == [1, 2, 3, 4]


def test_a_concept_that_two_readings_lead_to_is_there_once_by_the_better():
    meant = [Interpretation("a", 0.5), Interpretation("b", 0.5, True)]
    ranked = {"a": [found(1, cosine=0.6), found(2, cosine=0.7)],
              "b": [found(1, cosine=0.9), found(3, cosine=0.5)]}  # fmt: skip
    some = choices("x", meant, ranked, kin())
    ranked = weights({"cosine": 1.0}).rank(some)
    assert [some.candidates[place].concept for place in ranked.order] == [1, 2, 3]
    assert [some.readings[place] for place in ranked.order] == [1, 0, 1]
    assert ranked.columns[:, PLACES["cosine"]].tolist() == pytest.approx([0.9, 0.7, 0.5])


def test_concepts_of_one_name_stand_together():
    some = chosen(
        found(1, cosine=0.9, called="a"), found(2, cosine=0.8, called="b"),
        found(3, cosine=0.7, called="a"), found(4, cosine=0.6), found(5, cosine=0.5, called="b"),
    )  # fmt: skip
    fitted = weights({"cosine": 1.0}, {"cosine": 1.0})
    assert in_order(fitted, some) == [1, 3, 2, 5, 4]
    sure = confidences(fitted, some)
    assert sure[0] == sure[1] > sure[2] == sure[3] > sure[4]


# How sure to be


def test_concepts_of_one_name_have_its_confidence():
    """The name is right if any of them is meant; what else they are called does not matter."""
    fitted = weights({"cosine": 1.0}, {"name": 3.0, "side_other": -2.0}, -1.0)
    first = found(1, cosine=0.9, name=1.0, called="a")
    other = found(2, cosine=0.5, called="a", side_other=1)
    sure = confidences(fitted, chosen(first, other, found(3)))
    assert sure[0] == sure[1] == pytest.approx(float(stated(0.8 * 3.0 - 1.0)))
    assert sure[2] == pytest.approx(1 / (1 + math.e))


@settings(max_examples=80)
@given(any_weights(signed=False), CANDIDATES, NAMED)
def test_confidences_are_probabilities_that_never_rise(fitted, many, names):
    some = chosen(*(found(n, called=names[n], **one) for n, one in enumerate(many)))
    ranked = fitted.rank(some)
    assert sorted(ranked.order.tolist()) == list(range(len(many)))
    values = ranked.confidences.tolist()
    assert all(0 <= value <= 1 for value in values)
    assert all(one >= other for one, other in pairwise(values))
    certain = some.certain[ranked.order].tolist()
    bearing = [some.candidates[place].name for place in ranked.order.tolist()]
    for value, name in zip(values, bearing, strict=True):
        assert name is None or value == values[bearing.index(name)]
    if len(set(names)) == len(names):
        assert certain == sorted(certain, reverse=True)


@settings(max_examples=80)
@given(any_weights(), CANDIDATES, st.integers(0, 4), st.floats(0.01, 1))
@example(weights({"cosine": 1.0}, {"ahead": 1.0}), [{"cosine": 0.5}, {"cosine": 0.6}], 0, 0.5)
def test_to_be_nearer_in_meaning_is_never_worse(fitted, many, which, more):
    """Every other feature as it is: the score never falls, nor the place, nor how sure it is."""
    which %= len(many)

    def ranked(nearer):
        some = chosen(*(
            found(n, **one | ({"cosine": min(one.get("cosine", 0.0) + nearer, 1.0)}
                              if n == which else {}))
            for n, one in enumerate(many)
        ))  # fmt: skip
        scores = ORDER_RAMPS.up(some.table) @ np.array(fitted.order)
        result = fitted.rank(some)
        place = result.order.tolist().index(which)
        own = CONFIDENCE_RAMPS.up(result.columns[[place]]) @ np.array(fitted.confidence)
        return float(scores[which]), place, float(own[0])

    (score, place, sure), (score_then, place_then, sure_then) = ranked(0.0), ranked(more)
    slack = 1e-9 * (1 + abs(score)) + 1e-9 * (1 + abs(sure))
    assert score_then >= score - slack
    assert place_then <= place
    assert sure_then >= sure - slack - 1e-6


@settings(max_examples=60)
@given(any_weights(signed=False), CANDIDATES, st.booleans())
def test_what_each_feature_adds_makes_the_confidence(fitted, many, with_usual):
    if with_usual:
        usual = tuple(np.random.default_rng(0).random(len(fitted.confidence)).tolist())
        fitted = Weights(**vars(fitted) | {"usual": usual})
    ranked = fitted.rank(chosen(*(found(n, **one) for n, one in enumerate(many))))
    parts = fitted.contributions(ranked.columns[0])
    assert set(parts) == {some.feature for some in CONFIDENCE} | {BASE}
    odds = sum(parts.values())
    assert ranked.confidences[0] == pytest.approx(float(stated(odds)), abs=2e-9)


def test_what_a_feature_adds_is_more_or_less_than_is_usual():
    usual = [0.0] * len(CONFIDENCE_RAMPS.sign)
    [place] = [n for n, column in enumerate(CONFIDENCE_RAMPS.column) if column == PLACES["near"]]
    usual[place] = 0.25
    fitted = weights({}, {"near": 4.0, "slip": 2.0}, -1.0, usual)
    for near, adds in ((0, -1.0), (1, 3.0)):
        parts = fitted.contributions(fitted.rank(chosen(found(1, near=near))).columns[0])
        assert (parts["near"], parts["slip"], parts[BASE]) == pytest.approx((adds, 0.0, 0.0))


def test_what_is_likely_is_stated_with_caution():
    """Up to 0.8 as it is, then less, and never more; what is more likely is never stated lower."""
    for odds in (-30.0, -19.0, -1.0, 0.0, 1.386):
        assert stated(odds) == pytest.approx(1 / (1 + math.exp(-max(odds, -20))), rel=1e-9)
    for odds, expected in ((math.log(0.93 / 0.07), 0.9), (math.log(99), 0.988)):
        assert stated(odds) == pytest.approx(expected, abs=1e-3)
    many = np.linspace(1.4, 19.9, 500)
    assert (stated(many) < 1 / (1 + np.exp(-many))).all()
    assert (np.diff(stated(many)) > 0).all()


def test_nothing_is_ever_quite_certain():
    for base in (-1e6, 1e6):
        [sure] = confidences(weights(base=base), chosen(found(1)))
        assert sure == pytest.approx(float(base > 0), abs=1e-8)
    assert 0.0 < confidences(weights(base=-19.0), chosen(found(1)))[0] < 1e-8


# Among the others


def among(fitted, some):
    """What candidates are among each other, in order: a dictionary for each."""
    columns = fitted.rank(some).columns
    return [{name: row[PLACES[name]] for name in AMONG} for row in columns.tolist()]


def test_how_far_a_candidate_is_ahead():
    fitted = weights({"cosine": 10.0})  # above 0.2
    some = chosen(
        found(1, cosine=0.9, centre=0.5), found(2, cosine=0.8, centre=0.75), found(3, cosine=0.6),
        category={1: "I21", 2: "I21"}, few=0.5,
    )  # fmt: skip
    first, second, third = among(fitted, some)
    parts = [math.exp(7), math.exp(6), math.exp(4)]
    shares = [part / sum(parts) for part in parts]
    assert (first["ahead"], first["ahead_of_all"]) == pytest.approx((3.0, 1.0), abs=1e-5)
    assert (second["ahead"], second["ahead_of_all"]) == pytest.approx((2.0, -1.0), abs=1e-5)
    assert (third["ahead"], third["ahead_of_all"]) == pytest.approx((-3.0, -3.0), abs=1e-5)
    assert [one["share"] for one in (first, second, third)] == pytest.approx(shares, abs=1e-5)
    together = [shares[0] + shares[1]] * 2 + [shares[2]]
    assert [one["share_alike"] for one in (first, second, third)] == pytest.approx(together)
    assert [one["cosine_ahead"] for one in (first, second, third)] == pytest.approx(
        [0.3, 0.2, -0.3]
    )
    assert [one["centre_ahead"] for one in (first, second, third)] == [0.5, 0.75, -0.75]
    assert first["share_in_few"] == pytest.approx(together[0] / 2)
    assert first["alone"] == 0.5  # among so few, what is not spelt so may be what is left


def test_what_has_no_rival_is_ahead_by_a_little():
    [only] = among(weights({"cosine": 10.0}), chosen(found(1, cosine=0.9, spelling=1.0), few=1.0))
    assert (only["ahead"], only["ahead_of_all"], only["share"]) == (3.0, 3.0, 1.0)
    assert only["cosine_ahead"] == pytest.approx(0.9)
    assert (only["alone"], only["share_in_few"]) == (0.0, 0.0)  # it is spelt so


def test_nobody_is_ahead_by_more_than_counts():
    first, last = among(weights({"cosine": 100.0}), chosen(found(1, cosine=1.0), found(2)))
    assert (first["ahead"], last["ahead"]) == (8.0, -8.0)


@pytest.mark.parametrize(
    ("neighbours", "kin"), [({}, 0.0), ({1: {2}}, 1.0), ({1: {3}}, 0.0), ({1: {4}}, 0.0)]
)
def test_whether_the_next_is_a_parent_or_a_child(neighbours, kin):
    """The next is the best of another name and category: 4 has the category of the best."""
    some = chosen(
        found(1, cosine=0.9), found(4, cosine=0.8), found(2, cosine=0.7), found(3, cosine=0.6),
        category={1: "I21", 4: "I21"}, neighbours=neighbours,
    )  # fmt: skip
    assert [one["kin"] for one in among(weights({"cosine": 1.0}), some)] == [kin] * 4


@settings(max_examples=40)
@given(any_weights(signed=False), CANDIDATES, st.lists(st.sampled_from("xyz"), min_size=5,
                                                       max_size=5))  # fmt: skip
def test_among_equals_plain_loops(fitted, many, groups):
    some = chosen(*(found(n, **one) for n, one in enumerate(many)),
                  category=dict(enumerate(groups)))  # fmt: skip
    scores = (ORDER_RAMPS.up(some.table) @ np.array(fitted.order)).tolist()
    places = fitted.rank(some).order.tolist()
    total = sum(math.exp(score - max(scores)) for score in scores)
    for place, one in zip(places, among(fitted, some), strict=True):
        rivals = [scores[n] for n in range(len(many)) if groups[n] != groups[place]]
        best = max(rivals, default=min(scores) - 3)
        assert one["ahead"] == pytest.approx(min(max(scores[place] - best, -8), 8))
        share = sum(math.exp(scores[n] - max(scores)) for n in range(len(many))
                    if groups[n] == groups[place]) / total  # fmt: skip
        assert one["share_alike"] == pytest.approx(share)
