"""Several things in a cell: answered as a whole, one by one, or left to a person."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from medcoder.normalize.cells import SEVERAL, divided, placed
from medcoder.text import clean
from medcoder.types import Answer, Match

WORDS = (
    "gout",
    "fever,",
    "no",
    "and",
    "TIA;",
    "asthma/gout",
    "h/o",
    "?",
    "MS",
    "2014",
    "qqzz",
    "-",
)
TEXT = st.text(max_size=60) | st.lists(
    st.sampled_from([*WORDS, " ", "\t", "\n", "\u200b", "+", "1."]), max_size=20
).map(" ".join)


def match(concept, confidence=0.95, *, term=None):
    return Match(
        concept=concept, name=term or concept, codes=(), term=term or concept,
        score=1.0, confidence=confidence, stage="exact",
    )  # fmt: skip


def answer(query, confidence=0.95, *, term=None, concept=None, **more):
    """A match, if it is sure enough."""
    found = match(concept or query, confidence, term=term)
    kept = {"matches": (found,)} if confidence >= 0.4 else {"matches": (), "rejected": (found,)}
    return Answer(**{"query": query, "threshold": 0.4} | kept | more)


def negated(query):
    return answer(query, 0.95, matches=(), rejected=(match(query),), reason="negated (no)")


def to_review(query):
    return answer(query, 0.95, matches=(), rejected=(match(query),), review="said to be past")


def nothing(query):
    return Answer(query=query, matches=(), threshold=0.4, reason="not a term")


UNSURE = answer("gout, fever", 0.2, concept="other")
GOUT, FEVER = answer("gout"), answer("fever")


# The rules


def test_a_whole_that_speaks_of_every_part_wins():
    whole = answer("nausea and vomiting", 0.9, term="Vomiting with nausea")
    assert divided(whole, [[answer("nausea"), answer("vomiting")]]) is whole
    # Of words that share how they begin, too.
    whole = answer("heart, kidneys", 0.9, term="Cardiac disease of heart and kidney")
    assert divided(whole, [[answer("heart"), answer("kidneys")]]) is whole


def test_a_whole_that_speaks_of_one_part_is_split():
    whole = answer("gout, fever", 0.99, term="gout")
    assert divided(whole, [[GOUT, FEVER]]).parts == (GOUT, FEVER)


def test_a_whole_that_is_no_match_covers_nothing():
    whole = answer("gout, fever", 0.2, term="gout with fever")
    assert divided(whole, [[GOUT, FEVER]]).parts == (GOUT, FEVER)


def test_a_split_has_the_best_of_every_part():
    several = answer("fever", matches=(match("fever"), match("heat")), namesakes=3)
    found = divided(UNSURE, [[GOUT, several]])
    assert [some.concept for some in found] == ["gout", "fever"]
    assert (found.status, found.rejected, found.reason, found.namesakes) == ("match", (), "", 3)
    assert found.steps == ("split into 2: gout | fever",)
    assert found.query == UNSURE.query


def test_the_first_way_that_can_be_answered_is_taken():
    both, one = [answer("gout"), answer("fever and rash", 0.1)], [GOUT, FEVER, answer("rash")]
    assert divided(UNSURE, [both, one]).parts == tuple(one)
    assert divided(UNSURE, [[GOUT, FEVER], one]).parts == (GOUT, FEVER)


def test_a_part_that_is_negated_is_no_match_and_no_obstacle():
    found = divided(UNSURE, [[negated("gout"), FEVER]])
    assert [some.concept for some in found] == ["fever"]
    assert (found.status, len(found.parts)) == ("match", 2)
    found = divided(UNSURE, [[negated("gout"), negated("fever")]])
    assert (found.matches, found.reason) == ((), "negated (no); negated (no)")
    assert [some.concept for some in found.rejected] == ["gout", "fever"]


def test_what_a_person_must_look_at_in_a_part_is_said_of_the_whole():
    found = divided(UNSURE, [[to_review("gout"), FEVER]])
    assert [some.concept for some in found] == ["fever"]
    assert (found.status, found.review) == ("review", "'gout': said to be past")


@pytest.mark.parametrize(
    "part", [nothing("qqzz"), answer("qqzz", 0.45), answer("qqzz", 0.1)], ids=["none", "less", "no"]
)
def test_a_cell_with_a_part_that_is_not_answered_well_is_not_split(part):
    assert divided(UNSURE, [[GOUT, part]]) is UNSURE
    found = divided(UNSURE, [[GOUT, FEVER, part]])  # two are things of their own
    assert (found.parts, found.review, found.status) == ((), SEVERAL, "review")
    assert found.candidates == UNSURE.candidates


def test_a_sure_whole_is_not_to_be_looked_at():
    ways = [[GOUT, FEVER, nothing("qqzz")]]
    for confidence, status in ((0.9, "match"), (0.89, "review")):
        assert divided(answer("all", confidence, term="other"), ways).status == status


def test_a_reason_to_look_that_is_there_stays():
    whole = answer("all", 0.2, review="in doubt (?)")
    assert divided(whole, [[GOUT, FEVER, nothing("qqzz")]]) is whole


def test_one_thing_said_twice_is_not_several():
    assert divided(UNSURE, [[GOUT, answer("gouty", concept="gout")]]) is UNSURE
    found = divided(UNSURE, [[GOUT, answer("gouty", concept="gout"), nothing("qqzz")]])
    assert found is UNSURE


# Where parts are


@pytest.mark.parametrize(
    ("query", "span", "part"),
    [
        ("VUR, OME", (5, 8), "OME"),
        ("VUR,  OME", (5, 8), "OME"),
        ("\t VUR,\u2028\u200bOME \n", (5, 8), "OME"),
        ("VUR,\t\tknee  pain", (5, 14), "knee  pain"),
        ("  gout", (0, 4), "gout"),
    ],
)
def test_spans_are_of_the_query_as_it_came(query, span, part):
    start, end = placed(query, clean(query), span)
    assert query[start:end] == part


@given(st.lists(st.sampled_from(["gout", "a", "\u00e9x", "b,"]), min_size=1, max_size=6), st.data())
def test_words_are_found_again_whatever_the_spaces(words, data):
    spaces = st.text(" \t\n\u200b", min_size=1, max_size=3)
    query = "".join(word + data.draw(spaces) for word in words)
    text = " ".join(words)
    assert clean(query) == text
    position = data.draw(st.integers(0, len(words) - 1))
    start = len(" ".join([*words[:position], ""]))
    first, last = placed(query, text, (start, start + len(words[position])))
    assert query[first:last] == words[position]


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("gout, fever", [("gout", "gout"), ("fever", "fever")]),
        ("gout,  knee   pain and TIA", [("gout", "gout"), ("knee   pain", "knee"), ("TIA", "tia")]),
        (" \tgout ;\n fever.", [("gout", "gout"), ("fever", "fever")]),
        ("(gout; fever)", [("gout", "gout"), ("fever", "fever")]),
        ("no fever, cough", [("no fever", "fever"), ("cough", "cough")]),
        ("left  hip pain/TIA", [("left  hip pain", "hip"), ("TIA", "tia")]),
        ("fever and cough", [("fever", "fever"), ("cough", "cough")]),
        ("h/o gout, fever", [("h/o gout", "gout"), ("fever", "fever")]),
    ],
)
def test_parts_with_spans(ward, query, parts):
    found = ward.normalize(query, split=True)
    spans = [part.span for part in found.parts]
    assert [query[start:end] for start, end in spans] == [text for text, _ in parts]
    assert [part.candidates[0].concept for part in found.parts] == [some for _, some in parts]
    matched = [part[0] for part in found.parts if part.matches]
    assert list(found.matches) == matched
    assert [some.span for some in matched] == [part.span for part in found.parts if part.matches]


def test_a_name_is_not_split(ward):
    found = ward.normalize("Nausea and vomiting", split=True)
    assert (found.parts, found[0].concept, found[0].span) == ((), "nausea-vomiting", None)


def test_nothing_is_split_unless_asked_for(ward):
    found = ward.normalize("gout, fever")
    assert (found.parts, found.span) == ((), None)


def test_at_most_twelve_parts(ward):
    names = ["gout", "fever", "cough", "knee pain", "hip pain", "headache", "epilepsy", "nausea",
             "vomiting", "TIA", "dropsy", "miosis", "pancreatitis"]  # fmt: skip
    assert len(ward.normalize("; ".join(names[:12]), split=True).parts) == 12
    assert ward.normalize("; ".join(names), split=True).parts == ()


@settings(max_examples=150)
@given(TEXT)
@example("  gout,\u200b\u200bfever ")
@example("gout,\x85fever")
@example("gout\u200d, fever")
@example("cafe\u0301, gout,  fever")
def test_any_cell_is_answered_and_spans_are_inside_and_in_order(ward, text):
    found = ward.normalize(text, split=True)
    assert found.query == text
    last = 0
    for part in found.parts:
        start, end = part.span
        assert last <= start < end <= len(text)
        assert not text[start].isspace() and not text[end - 1].isspace()
        last = end
    assert len(found.parts) <= 12
    assert len(found.parts) != 1
    whole = ward.normalize(text)
    assert whole.parts == ()
    for some in (found, whole):
        assert some.status in ("match", "review", "none")
        assert all(0 <= match.confidence <= 1 for match in some.candidates)
