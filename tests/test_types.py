"""The records that rooms exchange."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.types import Code


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("ICD10CM:R51.9", ("ICD10CM", "R51.9")),
        (" HP:0001250 ", ("HP", "0001250")),
        ("A:b:c", ("A", "b:c")),
        ("R51.9", None),
        (":R51", None),
        ("HP:", None),
        ("", None),
    ],
)
def test_a_code_is_read_from_a_curie(text, pair):
    assert Code.parse(text) == pair


@pytest.mark.parametrize(
    ("code", "curie"),
    [
        (Code("ICD10CM", "I21"), "ICD10CM:I21"),
        (Code("HP", "HP:0001658"), "HP:0001658"),
        (Code("HP", "hp:1"), "HP:hp:1"),
        (Code("", "x"), ":x"),
    ],
)
def test_a_code_is_printed_with_its_vocabulary_once(code, curie):
    assert code.curie == curie


@given(st.text("AB:", min_size=1), st.text("ab:1", min_size=1))
def test_what_is_printed_is_what_was_read(vocabulary, code):
    parsed = Code.parse(f"{vocabulary}:{code}")
    assert parsed is None or parsed.curie in (f"{vocabulary}:{code}", parsed.code)
