"""The candidates of all that a string may mean, side by side."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.batch import Candidate
from medcoder.normalize.choices import BEHIND, COLUMNS, OF_TEXT, choices, leaders, relatives
from medcoder.normalize.interpretations import Interpretation
from support.chosen import chosen, found, kin
from support.many import small_source


def rows(some):
    """The table by columns."""
    return {name: some.table[:, place].tolist() for place, name in enumerate(COLUMNS)}


def said(some):
    """What is of the string alone."""
    return dict(zip(OF_TEXT, some.of_text.tolist(), strict=True))


# Who are rivals


CODES = {
    "infarction": ("ICD10CM", "I21.9"), "inferior": ("ICD10CM", "I21.11"),
    "category": ("ICD10CM", "I21"), "angina": ("ICD10CM", "I20.9"), "covid": ("ICD10CM", "C7A.0"),
    "neoplasm": ("ICD10CM", "C79.9"), "old": ("ICD9CM", "410.9"), "older": ("ICD9CM", "410.01"),
    "other": ("ICD10", "I21.9"), "seizure": ("HP", "HP:0001250"), "spasm": ("HP", "HP:0001251"),
    "fever": ("SNOMEDCT_US", "386661006"), "febrile": ("SNOMEDCT_US", "386661007"),
    "mesh": ("MSH", "D003139"), "meshed": ("MSH", "D003138"), "none": ("MSH", ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def kg(tmp_path_factory):
    path = tmp_path_factory.mktemp("codes") / "codes.kg"
    terms = [
        (concept, concept, "en", vocabulary, code, "PT", 0)
        for concept, (vocabulary, code) in CODES.items()
    ]
    edges = [("inferior", "is_a", "infarction"), ("infarction", "is_a", "category")]
    build_kg([small_source(terms, edges=edges)], path)
    return KG.open(path)


def test_codes_of_an_icd_are_of_a_category(kg):
    category = relatives(kg).category
    groups = {}
    for concept in CODES:
        groups.setdefault(category(kg.index(concept)), set()).add(concept)
    several = [some for some in groups.values() if len(some) > 1]
    assert sorted(map(sorted, several)) == [
        ["category", "infarction", "inferior"],
        ["old", "older"],
    ]
    assert len(groups) == len(CODES) - 3  # every other concept is one of its own


def test_neighbours_are_those_of_the_graph(kg):
    near = relatives(kg).neighbours
    names = {one: {kg.terms.id(other) for other in near(kg.index(one))} for one in CODES}
    assert names["infarction"] == {"infarction", "inferior", "category"}
    assert names["inferior"] >= {"infarction"}
    assert "category" not in names["inferior"]
    assert names["fever"] == set()


@pytest.mark.parametrize(("size", "few"), [(1, 1.0), (10, 0.75), (100, 0.5), (100_000, 0.0)])
def test_how_few_concepts_there_are(size, few):
    class Sized:
        def __len__(self):
            return size

    assert relatives(Sized()).few == pytest.approx(few)


def test_candidates_of_one_name_or_category_are_no_rivals():
    some = chosen(
        found(1, called="cold"), found(2, called="COLD"), found(3, called="cold"), found(4),
        found(5), found(6, called="fever"), category={4: "I21", 6: "I21"},
    )  # fmt: skip
    alike = [{place for place in range(6) if some.alike[row, place]} for row in range(6)]
    assert alike == [{0, 2}, {1}, {0, 2}, {3, 5}, {4}, {3, 5}]
    assert (some.alike == some.alike.T).all()


def test_without_a_name_a_candidate_leads_itself():
    some = [found(n, called=name) for n, name in enumerate(["a", None, "b", "a", None, "b"])]
    assert leaders(some) == [0, 1, 2, 0, 4, 2]
    assert leaders([]) == []


def test_whether_one_is_above_the_other():
    some = chosen(found(7), found(8), found(9), neighbours={7: {8}})
    assert some.related(0, 1)
    assert not some.related(0, 2)


# How far each is behind


def test_how_far_a_candidate_is_behind_the_best():
    first = found(1, cosine=0.9, spelling=0.25, said=1.0)
    second = found(2, cosine=0.5, spelling=0.75, covered=0.5)
    table = rows(chosen(first, second))
    assert table["cosine_behind"] == pytest.approx([0.0, 0.4])
    assert table["spelling_behind"] == pytest.approx([0.5, 0.0])
    assert table["said_behind"] == pytest.approx([0.0, 1.0])
    assert table["covered_behind"] == pytest.approx([0.5, 0.0])
    assert table["name_behind"] == table["centre_behind"] == [0.0, 0.0]
    alone = rows(chosen(second))
    assert all(alone[f"{name}_behind"] == [0.0] for name in BEHIND)


@given(st.lists(st.tuples(st.floats(-1, 1, width=32), st.floats(0, 1, width=32)), min_size=1,
                max_size=6))  # fmt: skip
def test_the_best_is_not_behind_and_nobody_is_ahead_of_it(pairs):
    table = rows(chosen(*(found(n, cosine=c, said=s) for n, (c, s) in enumerate(pairs))))
    for place, name in enumerate(("cosine", "said")):
        behind = table[f"{name}_behind"]
        best = max(pair[place] for pair in pairs)
        assert min(behind) == 0
        assert behind == pytest.approx([best - pair[place] for pair in pairs])


def test_of_a_string_of_known_words_some_count_otherwise():
    of = {"cosine": 0.5, "said": 0.25, "covered": 0.75, "spelling": 0.125, "letters": 0.625}
    table = rows(chosen(found(1, known=True, **of), found(2, known=False, **of)))
    for name, value in of.items():
        assert table[f"{name}_known"] == [value, 0.0]
        assert table[name] == [value, value]
    assert table["known"] == [1.0, 0.0]


# What a string may mean


def test_two_readings_are_pooled_with_their_weights():
    meant = [Interpretation("multiple sclerosis", 0.8, True), Interpretation("MS", 0.2)]
    ranked = {"multiple sclerosis": [found(1), found(2)], "MS": [found(3), found(4)]}
    some = choices("MS", meant, ranked, kin())
    assert [one.concept for one in some.candidates] == [1, 2, 3, 4]
    assert some.readings == [0, 0, 1, 1]
    table = rows(some)
    assert table["weight"] == pytest.approx([math.log(0.8)] * 2 + [math.log(0.2)] * 2)
    assert table["written"] == [1.0, 1.0, 0.0, 0.0]
    assert said(some)["readings"] == 2


def test_readings_that_lead_to_one_thing_count_together():
    """A concept, or a category: I21.0 and I21.9."""
    meant = [Interpretation("a", 0.5), Interpretation("b", 0.25), Interpretation("c", 0.125)]
    ranked = {"a": [found(1), found(2)], "b": [found(1)], "c": [found(3), found(1)]}
    shares = rows(choices("x", meant, ranked, kin()))["weight"]
    assert np.exp(shares) == pytest.approx([0.75, 0.5, 0.75, 0.125, 0.875])
    shares = rows(choices("x", meant, ranked, kin(category={1: "I21", 3: "I21"})))["weight"]
    assert np.exp(shares) == pytest.approx([0.875, 0.5, 0.875, 0.875, 0.875])
    alone = rows(choices("x", meant, {"b": [found(1), found(4)]}, kin()))["weight"]
    assert np.exp(alone) == pytest.approx([0.25, 0.25])


def test_a_reading_of_hardly_any_weight_counts_something():
    for weight in (0.0, 1e-9):
        some = choices("x", [Interpretation("y", weight)], {"y": [found(1)]}, kin())
        assert rows(some)["weight"] == [pytest.approx(math.log(1e-3))]


def test_readings_are_behind_those_of_the_whole_string():
    """Whatever the reading, all are candidates for one string."""
    meant = [Interpretation("a", 0.5), Interpretation("b", 0.5)]
    ranked = {"a": [found(1, cosine=0.5)], "b": [found(2, cosine=0.875)]}
    assert rows(choices("x", meant, ranked, kin()))["cosine_behind"] == [0.375, 0.0]


def test_what_was_not_measured_is_not_chosen_from():
    more = Candidate(3, 3, "dense", 0.5, None, 0.5)
    some = choices("x", [Interpretation("x")], {"x": [found(1), found(2), more]}, kin())
    assert [one.concept for one in some.candidates] == [1, 2]


@pytest.mark.parametrize("ranked", [{}, {"x": []}, {"y": [found(1)]}])
def test_nothing_is_found(ranked):
    assert choices("x", [Interpretation("x")], ranked, kin()) is None


def test_what_is_certain():
    some = chosen(found(1, certain=1), found(2), found(3, certain=1))
    assert some.certain.tolist() == [True, False, True]


# What a string looks like


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("acute MI", {"words": 2, "signs": 7, "capitals": pytest.approx(2 / 7), "digits": 0}),
        ("T2DM", {"words": 1, "signs": 3, "capitals": 1, "digits": 1}),
        ("", {"words": 0, "signs": 0, "capitals": 0, "digits": 0, "other_script": 0}),
        ("12", {"words": 1, "signs": 0, "digits": 1, "other_script": 0, "ideographs": 0}),
        ("心筋梗塞", {"words": 1, "signs": 4, "ideographs": 1, "other_script": 0}),
        ("инфаркт миокарда", {"words": 2, "ideographs": 0, "other_script": 1}),
        ("심근경색", {"ideographs": 1, "other_script": 0}),
        ("Épilepsie", {"words": 1, "signs": 9, "other_script": 0}),
    ],
)
def test_what_a_string_looks_like(text, expected):
    told = said(chosen(found(1), text=text))
    assert {name: told[name] for name in expected} == expected


@pytest.mark.parametrize(
    "typed", ["gout of foot", " gout  of foot.", "- gout of foot", "\u2022 gout of foot \u200b",
              "(gout of foot)", '"gout" of foot;', "gout-of-foot"],
)  # fmt: skip
def test_signs_around_a_string_are_none_of_it(typed):
    plain = chosen(found(1), text="gout of foot")
    assert said(chosen(found(1), text=typed)) == said(plain)


def test_a_name_is_what_it_says_in_capitals_too():
    told = [said(chosen(found(1, certain=1), text=text)) for text in ("gout", "Gout", "GOUT")]
    assert told[0] == told[1] == told[2]
    told = [said(chosen(found(1), text=text))["capitals"] for text in ("gout", "Gout", "GOUT")]
    assert told == [0, 0.25, 1]


@given(st.text(max_size=12))
def test_any_string_is_told_of(text):
    some = chosen(found(1), text=text)
    assert np.isfinite(some.of_text).all()
    assert 0 <= said(some)["capitals"] <= 1
    assert some.table.shape == (1, len(COLUMNS))
