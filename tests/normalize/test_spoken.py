"""What encoders read of a string: `medcoder.text.spoken`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.text import fold, spoken


@pytest.mark.parametrize(
    ("texts", "read"),
    [
        (["asthma"], "asthma"),
        (["heart attack", " heart  attack ", "heart attack.", "(heart attack)", "heart-attack",
          '"heart attack"', "heart/attack", "heart \u2013 attack", "heart_attack", "heart: attack",
          "heart attack;"], "heart attack"),
        (["A.B.P.A.", "A B P A"], "A B P A"),
        (["headache, left", "headache , left", "headache,left", "headache,, left", "headache,left.",
          "headache\uff0c left"], "headache, left"),
        (["Crohn's disease", "Crohn\u2019s disease", "Crohn`s disease"], "Crohn's disease"),
        (["2.5 cm"], "2.5 cm"),
        (["L4/5"], "L4/5"),
        (["45:55"], "45:55"),
        (["\uff28\uff29\uff36 1", "HIV 1"], "HIV 1"),
        (["50%", "50% "], "50%"),
        (["K+"], "K+"),
        (["???"], "???"),  # nothing else to read
        ([""], ""),
    ],
)  # fmt: skip
def test_ways_of_typing_are_read_as_one(texts, read):
    assert [spoken(text) for text in texts] == [read] * len(texts)


@pytest.mark.parametrize(
    ("text", "read"), [("Crohn\u00b4s disease", "Crohn's disease"), ("\uff28\uff29\uff36", "HIV")]
)
def test_an_acute_accent_and_wide_letters(text, read):
    assert spoken(text) == read


def test_a_comma_and_capitals_are_read():
    assert spoken("headache, left") != spoken("headache left")
    assert spoken("HIV") != spoken("hiv")


@given(st.text(max_size=40) | st.text("aB1.,/-:()' é", max_size=30))
def test_what_is_read_is_read_the_same_again(text):
    read = spoken(text)
    assert spoken(read) == read
    assert (read == "") == (text == "")


@given(st.text("aB1.,/-:() é", max_size=30))
def test_no_word_is_lost(text):
    letters = [char for char in fold(text) if char.isalnum()]
    assert [char for char in fold(spoken(text)) if char.isalnum()] == letters
