"""What a string says: read whole, with as little taken off as can be, written out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.normalize.abbreviations import Abbreviations, Sense
from medcoder.normalize.interpretations import Interpretation, says, understand
from medcoder.normalize.words import bundled_words
from medcoder.text import fold
from medcoder.types import Attribute


def sense(abbreviation, expansion, share):
    return Sense(abbreviation, expansion, expansion, "en", "general", share)


SHORT = Abbreviations(
    [
        sense("MS", "multiple sclerosis", 0.6),
        sense("MS", "mitral stenosis", 0.2),
        sense("HTN", "hypertension", 0.9),
        sense("NAD", "no abnormality detected", 0.9),
        sense("Ca", "cancer", 0.8),
        sense("AFX", "atrial fibrillation", 0.5),
        sense("AFX", "Atrial Fibrillation", 0.3),
    ],
    bundled_words(),
)


class Named:
    """Names that are given, some of which may not be answered with; codes; own terms."""

    def __init__(self, *names, others=(), certain=()):
        self._names, self._others = set(map(fold, names)), set(map(fold, others))
        self._certain = set(certain)

    def is_certain(self, text):
        return text in self._certain

    def is_name(self, text):
        return fold(text) in self._names

    def is_known(self, text):
        return fold(text) in self._names | self._others


def read(text, *names, short=SHORT, **others):
    return understand(text, Named(*names, **others), short)


def meant(text, *names, **others):
    return [some.text for some in read(text, *names, **others).meant]


# The whole first


def test_a_name_is_read_whole():
    found = read("acute pancreatitis", "acute pancreatitis", "pancreatitis")
    assert found.meant == (Interpretation("acute pancreatitis"),)
    assert (found.attributes, found.steps, found.decides, found.named) == ((), (), "", True)


@pytest.mark.parametrize("text", ["family history of asthma", "no fever", "possible gout", "MS"])
def test_a_name_that_looks_like_more_is_a_name(text):
    found = read(text, text, short=None)
    assert (found.meant, found.decides, found.named) == ((Interpretation(text),), "", True)


def test_nothing_is_taken_off_a_name_that_may_not_be_answered_with():
    """A filter or a heading leaves it out: what is left of it would be another thing."""
    found = read("chronic pain", "pain", others=["chronic pain"])
    assert (found.meant, found.attributes) == ((Interpretation("chronic pain"),), ())
    assert not found.named


def test_codes_and_own_terms_are_not_read():
    for text in ("no fever", "MS", "277", "n/a"):
        found = read(text, "fever", certain=[text])
        assert found.meant == (Interpretation(text),)
        assert (found.decides, found.attributes, found.steps, found.named) == ("", (), (), True)


# The least is taken off


@pytest.mark.parametrize(
    ("text", "names", "form", "attributes"),
    [
        ("severe acute pancreatitis", ["acute pancreatitis", "pancreatitis"],
         "acute pancreatitis", [("severity", "severe", "severe")]),
        ("severe acute pancreatitis", ["pancreatitis"],
         "pancreatitis", [("severity", "severe", "severe"), ("course", "acute", "acute")]),
        ("left hip pain", ["hip pain"], "hip pain", [("side", "left", "left")]),
        ("asthma since 2014", ["asthma"], "asthma", [("date", "2014", "since 2014")]),
        ("known asthma", ["asthma"], "asthma", []),  # context says nothing of it
        ("asthma", [], "asthma", []),
        ("left qqzz", [], "left qqzz", []),  # no form is a name: the side stays
        ("chronic qqzz", [], "chronic qqzz", []),
        ("severe chronic qqzz", [], "chronic qqzz", [("severity", "severe", "severe")]),
        ("qqzz since 2014", [], "qqzz", [("date", "2014", "since 2014")]),
    ],
)  # fmt: skip
def test_the_least_is_taken_off(text, names, form, attributes):
    found = read(text, *names)
    assert [some.text for some in found.meant] == [form]
    assert found.attributes == tuple(Attribute(*some) for some in attributes)
    assert found.named == bool(names)


def test_the_steps_say_what_was_done():
    found = read("known HTN, severe", "hypertension")
    assert found.steps == (
        "took off 'known': context",
        "took off 'severe': severity (severe)",
        "read 'HTN' as 'hypertension' (90 in 100)",
    )
    assert read("Oesophageal varices", "esophageal varices").steps == (
        "read 'Oesophageal varices' as 'Esophageal varices'",
    )


@pytest.mark.parametrize(
    ("text", "name", "form"),
    [
        ("oesophageal varices", "Esophageal varices", "esophageal varices"),
        ("left renal stones", "renal stone", "renal stone"),
        ("Ca oesophagus", "cancer esophagus", "cancer esophagus"),
        ("oesophageal stones", "something else", "oesophageal stones"),
    ],
)
def test_other_spellings_are_read_where_they_are_names(text, name, form):
    assert meant(text, name)[0] == form


# What decides


@pytest.mark.parametrize(
    ("text", "decides", "cue"),
    [
        ("no asthma", "negated", "no"),
        ("denies asthma", "negated", "denies"),
        ("h/o asthma", "history", "h/o"),
        ("family history of asthma", "family", "family history"),
        ("mother has asthma", "family", "mother has"),
        ("possible asthma", "doubt", "possible"),
        ("no h/o asthma", "negated", "no"),
        ("possible h/o asthma", "history", "h/o"),
        ("severe asthma", "", ""),
        ("asthma", "", ""),
    ],
)
def test_what_decides(text, decides, cue):
    found = read(text, "asthma")
    assert [some.text for some in found.meant] == ["asthma"]
    assert (found.decides, found.cue[: len(cue)]) == (decides, cue)
    assert bool(found.cue) == bool(decides)


@pytest.mark.parametrize("text", ["?gout", "? gout", "gout?", "gout (?)", "??gout", "left gout ?",
                                  "? HTN", "HTN ?", "?MS"])  # fmt: skip
def test_a_question_mark_is_doubt_though_names_are_compared_without_it(text):
    found = read(text, "gout", "MS", "hypertension")
    assert found.decides == "doubt"
    assert "?" in found.cue
    assert not any("?" in some.text for some in found.meant)
    assert found.named or text == "?MS"


@pytest.mark.parametrize(
    "text", ["http://www.ms.net/a?id=4285756463", "SN:ACCD4D83-974945595", "ms?@example.org"]
)
def test_what_identifies_is_not_read(text):
    found = read(text)
    assert [some.text for some in found.meant] == [text]
    assert (found.decides, found.steps, found.attributes) == ("", (), ())


def test_history_and_family_are_said_as_names_say_them():
    assert read("h/o MS").said == (
        "personal history of multiple sclerosis", "personal history of mitral stenosis",
        "multiple sclerosis status", "mitral stenosis status",
        "old multiple sclerosis", "old mitral stenosis",
    )  # fmt: skip
    assert read("mother has asthma", "asthma").said == ("family history of asthma",)
    for text in ("denies asthma", "possible asthma", "asthma"):
        assert read(text, "asthma").said == ()
    found = read("h/o asthma", "asthma")
    assert found.asked == [
        "asthma", "personal history of asthma", "asthma status", "old asthma",
    ]  # fmt: skip


def test_an_expansion_that_denies_is_a_denial():
    found = read("NAD")
    assert (found.decides, found.cue) == ("negated", "NAD")
    assert found.meant[0].text == "no abnormality detected"
    assert read("possible NAD").decides == "negated"  # which says more


@pytest.mark.parametrize(
    ("decides", "term", "truth"),
    [
        ("history", "Personal history of gout", True),
        ("history", "History of gout", True),
        ("history", "Old myocardial infarction", True),
        ("history", "Acquired absence of kidney", True),
        ("history", "Renal transplant status", True),
        ("history", "Gout", False),
        ("history", "Family history of gout", False),
        ("history", "Gold poisoning", False),
        ("family", "Family history of gout", True),
        ("family", "FAMILY HISTORY of gout", True),
        ("family", "Personal history of gout", False),
        ("family", "Familial gout", False),
    ],
)
def test_what_terms_say(decides, term, truth):
    assert says(decides, term) is truth


# Several senses


def test_senses_have_weights():
    found = read("MS")
    assert found.meant == (
        Interpretation("multiple sclerosis", pytest.approx(0.6), True),
        Interpretation("mitral stenosis", pytest.approx(0.2), True),
    )  # the rest is for what nobody listed
    assert not found.named
    assert read("MS", "multiple sclerosis", "mitral stenosis").named
    assert not read("MS", "multiple sclerosis").named


def test_what_the_graph_itself_calls_so_is_one_of_them():
    first, own, second = read("MS", "MS").meant
    assert (first.text, own.text, second.text) == ("multiple sclerosis", "MS", "mitral stenosis")
    weights = [some.weight for some in (first, own, second)]
    assert weights == pytest.approx([0.6 / 1.3, 0.3 / 1.3, 0.2 / 1.3])
    assert [some.written_out for some in (first, own, second)] == [True, False, True]
    assert sum(some.weight for some in read("MS", "MS").meant) < 1


def test_senses_that_are_spelt_alike_are_one():
    [one] = read("AFX", "atrial fibrillation").meant
    assert (fold(one.text), one.weight) == ("atrial fibrillation", pytest.approx(0.8))


def test_without_the_dictionary_an_abbreviation_is_what_it_is():
    assert read("MS", short=None).meant == (Interpretation("MS"),)
    assert read("MS", "MS", short=None) == read("MS", "MS", certain=["MS"])


def test_abbreviations_are_written_out_in_what_is_left():
    found = read("left MS since 2014", "mitral stenosis")
    assert [some.text for some in found.meant] == ["multiple sclerosis", "mitral stenosis"]
    assert {some.kind for some in found.attributes} == {"side", "date"}


@pytest.mark.parametrize(
    "text", ["MS pain", "MS PAIN", "left MS pain", "LEFT MS PAIN", "left MS pains since 2014"]
)
def test_a_name_is_not_written_out_whatever_is_taken_off(text):
    [one] = read(text, "MS pain").meant
    assert (fold(one.text), one.weight, one.written_out) == ("ms pain", 1.0, False)


def test_what_the_graph_calls_so_is_meant_too_whatever_is_taken_off():
    assert read("left MS", "MS").meant == read("MS", "MS").meant


# Nothing


@pytest.mark.parametrize("text", ["n/a", "N.A.", "see letter", "k.A.", "nil"])
def test_placeholders_mean_nothing(text):
    found = read(text)
    assert (found.meant, found.asked) == ((), [])
    assert meant(text, text) == [text]  # unless it is a name


@pytest.mark.parametrize(
    "text", ["277", "12/03/2019", "5 mg", "x", "MRN 0048213", "2014", "3 weeks"]
)
def test_numbers_and_dates_are_not_read(text):
    assert read(text).meant == (Interpretation(text),)
    assert read(text).attributes == ()


@given(st.text(max_size=60) | st.lists(st.sampled_from(
    ["no", "h/o", "?", "MS", "left", "severe", "asthma", "2014", ",", "(", ")", "NAD", "of", "/"]
), max_size=9).map(" ".join))  # fmt: skip
def test_any_string_is_understood(text):
    found = read(text, "asthma", "MS")
    assert sum(some.weight for some in found.meant) <= 1 + 1e-9
    assert all(some.weight > 0 for some in found.meant)
    weights = [some.weight for some in found.meant]
    assert weights == sorted(weights, reverse=True)
    assert len({some.text for some in found.meant}) == len(found.meant) <= 5
    assert bool(found.said) <= (found.decides in ("history", "family", "negated"))
    assert bool(found.decides) == bool(found.cue)
    for attribute in found.attributes:
        assert all(word in text for word in attribute.text.split())
