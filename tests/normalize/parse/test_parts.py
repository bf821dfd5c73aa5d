"""Where a cell is split, and the signs around a string."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medcoder.normalize.parse.parts import bare, divisions
from medcoder.text import clean

TEXT = st.text("ab,;/ -+&.()?1é\u2022|\u0438y", max_size=40) | st.text(max_size=40)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("asthma", "asthma"),
        ("- asthma.", "asthma"),
        ("\u2022 asthma;", "asthma"),
        ('"asthma"', "asthma"),
        ("\u201easthma\u201c", "asthma"),
        ("(asthma)", "asthma"),
        ("[(asthma)]", "[(asthma)]"),  # brackets of brackets may mean something
        ("(asthma) (left)", "(asthma) (left)"),
        ("asthma (left)", "asthma (left)"),
        ("277.", "277"),
        ("\u2013 - (277).", "277"),
        ("K+", "K+"),
        ("?gout", "?gout"),  # that it is in doubt is not a sign around it
        ("??", "??"),
        ("...", "..."),
        ("", ""),
    ],
)
def test_signs_around_a_string(text, inside):
    start, end = bare(text)
    assert text[start:end] == inside


@given(TEXT)
def test_a_bare_string_is_inside_and_bare(text):
    start, end = bare(text)
    assert 0 <= start <= end <= len(text)
    inside = text[start:end]
    assert [char for char in inside if char.isalnum()] == [char for char in text if char.isalnum()]
    assert bare(inside) == (0, len(inside))


def parts(text):
    return [[text[start:end] for start, end in way] for way in divisions(text)]


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("asthma", []),
        ("asthma; gout", [["asthma", "gout"]]),
        ("asthma, gout", [["asthma", "gout"]]),
        ("asthma / gout", [["asthma", "gout"]]),
        ("asthma/gout", [["asthma", "gout"]]),
        ("asthma + gout", [["asthma", "gout"]]),
        ("asthma - gout", [["asthma", "gout"]]),
        ("asthma | gout |", [["asthma", "gout"]]),
        ("\u2022 asthma \u2022 gout", [["asthma", "gout"]]),
        ("1. asthma 2. gout", [["asthma", "gout"]]),
        ("1) asthma 2) gout", [["asthma", "gout"]]),
        ("asthma and gout", [["asthma", "gout"]]),
        ("Asthma und Gicht", [["Asthma", "Gicht"]]),
        ("asma y gota", [["asma", "gota"]]),
        ("asthme et goutte", [["asthme", "goutte"]]),
        ("asthma, fever and gout", [["asthma", "fever and gout"], ["asthma", "fever", "gout"]]),
        ("post-viral cough", []),
        ("s/p repair", []),
        ("L4/5 prolapse", []),
        ("2,5 cm", []),
        (", ;", []),
    ],
)
def test_ways_to_split(text, ways):
    assert parts(text) == ways


@pytest.mark.parametrize(("count", "ways"), [(2, 1), (12, 1), (13, 0), (40, 0)])
def test_at_most_twelve_parts(count, ways):
    assert len(divisions(", ".join(["gout"] * count))) == ways
    assert len(divisions(" and ".join(["gout"] * count))) == ways


def test_a_list_of_pairs_that_is_too_long_at_words_is_split_at_signs():
    text = "; ".join(["nausea and vomiting"] * 7)
    assert parts(text) == [["nausea and vomiting"] * 7]


def test_a_long_cell_is_not_split():
    assert divisions(f"gout, {'a' * 494}")
    assert divisions(f"gout, {'a' * 495}") == []


@given(TEXT.map(clean))
@example("a,b;; c and and d")
@example("- a - b -")
def test_spans_are_in_order_and_apart(text):
    for way in divisions(text):
        assert 1 < len(way) <= 12
        last = 0
        for start, end in way:
            assert last <= start < end <= len(text)
            part = text[start:end]
            assert part == part.strip()
            assert any(map(str.isalnum, part))
            last = end
