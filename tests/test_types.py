"""The records that rooms exchange."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.types import MATCH_KEYS, Answer, Code, Match, Term


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


FEVER = Match(
    concept="HP:0001945",
    name="Fever",
    codes=(Code("HP", "HP:0001945"), Code("ICD10CM", "R50.9")),
    term="Pyrexia",
    language="en",
    vocabulary="HP",
    cosine=0.87654321,
    similarity=None,
    score=0.87654321,
    confidence=0.91234567,
    stage="dense",
)


def test_a_match_in_json_names_the_vocabulary_of_its_term_source():
    entry = FEVER.as_dict()
    assert tuple(entry) == MATCH_KEYS
    assert entry["source"] == "HP" and "vocabulary" not in entry
    assert entry["codes"][1] == {"vocabulary": "ICD10CM", "code": "R50.9"}


def test_a_match_comes_back_from_json():
    assert Match.from_dict(json.loads(json.dumps(FEVER.as_dict()))) == FEVER


def test_a_stored_candidate_has_fewer_keys_and_is_a_match_all_the_same():
    keys = ("concept", "name", "codes", "term", "cosine", "score", "confidence", "stage")
    match = Match.from_dict({"rank": 1} | FEVER.as_dict(keys))
    assert (match.language, match.vocabulary, match.similarity) == ("", "", None)
    assert match.as_dict(keys) == FEVER.as_dict(keys)


def test_numbers_are_rounded_on_request_and_keys_keep_the_order_asked_for():
    entry = FEVER.as_dict(("stage", "confidence", "similarity"), digits=3)
    assert list(entry.items()) == [("stage", "dense"), ("confidence", 0.912), ("similarity", None)]


def test_an_answer_in_json():
    answer = Answer(query="pyrexia", matches=(), rejected=(FEVER,), threshold=0.123456789)
    assert answer.as_dict(("concept",), digits=2) == {
        "query": "pyrexia",
        "status": "none",
        "matches": [],
        "rejected": [{"concept": "HP:0001945"}],
        "threshold": 0.12,
        "reason": "",
        "review": "",
        "steps": [],
        "parts": [],
        "span": None,
    }
    assert answer.as_dict()["rejected"] == [FEVER.as_dict()]


def test_the_old_name_of_the_vocabulary_warns():
    with pytest.warns(DeprecationWarning, match="vocabulary"):
        assert FEVER.source == "HP"
    term = Term("Fever", "en", "HP", "HP:0001945", "name")
    with pytest.warns(DeprecationWarning, match="vocabulary"):
        assert term.source == "HP"
    assert list(term.as_dict()) == ["text", "language", "source", "code", "kind"]
