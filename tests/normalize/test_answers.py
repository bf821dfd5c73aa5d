"""The answer of a string: senses weighed, what decides it, what shares its name."""

import numpy as np
import pytest

from medcoder import Normalizer
from medcoder.normalize.answers import Answers, Asked
from medcoder.normalize.batch import Candidate
from medcoder.normalize.custom_terms import CustomTerm, CustomTerms, add_terms
from medcoder.normalize.filters import Filter
from medcoder.normalize.interpretations import Interpretation, Understood
from medcoder.types import Attribute

LEAST = 0.4
AS_WRITTEN = ("code", "exact", "slip", "dense", "ngram")


class AsScored:
    """A calibration whose confidences are the scores."""

    threshold = LEAST

    def confidences(self, candidates, first=None):

        return np.array([candidate.score for candidate in candidates[:first]], float)


@pytest.fixture(scope="module")
def answers(ward):
    """Answers what was understood, of candidates that are given as concept and confidence."""
    kg = ward.kg
    maker = Answers(kg, CustomTerms(kg, None, None))

    def answer(understood, ranked, *, top=5, threshold=None, unread=()):
        def candidates(some):
            return [
                Candidate(kg.index(concept), int(kg.terms.first[kg.index(concept)]), "dense",
                          score=score, name=name)
                for concept, score, name in some
            ]  # fmt: skip

        def padded(some):
            return [(*entry, None)[:3] for entry in some]

        asked = Asked(
            top=top, threshold=threshold, wanted=Filter(), calibration=lambda settled: AsScored(),
            ranked={text: candidates(padded(some)) for text, some in ranked.items()},
            unread=lambda text, *_: text in unread,
        )  # fmt: skip
        return maker.answer("query", understood, asked)

    return answer


def senses(*pairs, **said):
    return Understood(tuple(Interpretation(*pair, True) for pair in pairs), **said)


def confidences(answer):
    return {match.concept: match.confidence for match in answer.candidates}


# Weighing


def weighed(ranked):
    """The rules as plain loops. ranked: of each sense its weight and (concept, confidence)."""
    likely = [weight * (some[0][1] if some else 0.0) for weight, some in ranked]
    listed = sum(weight for weight, _ in ranked)
    # What nobody listed fits half as well as what was listed does on average.
    unlisted = (1 - listed) * 0.5 * sum(likely) / listed
    sums = {}
    for share, (_, some) in zip(likely, ranked, strict=True):
        for concept, confidence in some:
            part = share / (sum(likely) + unlisted) * confidence
            sums[concept] = sums.get(concept, 0.0) + part
    return sums


def test_one_sense_is_answered_as_it_is_found(answers):
    found = answers(senses(("a", 1.0)), {"a": [("ms", 0.9), ("gout", 0.2)]})
    assert confidences(found) == {"ms": 0.9, "gout": 0.2}
    assert [match.stage for match in found] == ["abbreviation"] * 2
    assert found.status == "match"


def test_a_concept_of_several_senses_has_their_sum(answers):
    ranked = {"a": [("ms", 0.9), ("gout", 0.2)], "b": [("mitral", 0.8), ("ms", 0.5)]}
    found = answers(senses(("a", 0.5), ("b", 0.5)), ranked)
    total = 0.5 * 0.9 + 0.5 * 0.8
    assert confidences(found) == {
        "ms": pytest.approx((0.45 * 0.9 + 0.4 * 0.5) / total),
        "mitral": pytest.approx(0.4 * 0.8 / total),
        "gout": pytest.approx(0.45 * 0.2 / total),
    }
    assert confidences(found) == pytest.approx(weighed([(0.5, ranked["a"]), (0.5, ranked["b"])]))


@pytest.mark.parametrize("first", [0.1, 0.3, 0.5, 0.69])
def test_senses_that_nobody_listed_take_their_share(answers, first):
    ranked = {"a": [("ms", 0.9)], "b": [("mitral", 0.8), ("gout", 0.1)]}
    found = answers(senses(("a", first), ("b", 0.3)), ranked)
    expected = weighed([(first, ranked["a"]), (0.3, ranked["b"])])
    assert confidences(found) == pytest.approx(expected)
    less = sum(confidences(found).values())
    whole = first / (first + 0.3)
    every = answers(senses(("a", whole), ("b", 1 - whole)), ranked)
    assert less < sum(confidences(every).values())


def test_a_single_sense_that_is_not_sure_is_not_taken_for_sure(answers):
    [found] = answers(senses(("a", 0.5)), {"a": [("ms", 0.9)]})
    assert found.confidence == pytest.approx(0.9 * 0.45 / (0.45 + 0.5 * 0.5 * 0.9))
    assert found.confidence < 0.9


def test_a_sense_that_the_terminology_does_not_know_counts_less(answers):
    ranked = {"a": [("gout", 0.01)], "b": [("mitral", 0.95)]}
    found = answers(senses(("a", 0.7), ("b", 0.3)), ranked)
    assert found[0].concept == "mitral"
    assert found[0].confidence > 0.9
    nothing = answers(senses(("a", 0.7), ("b", 0.3)), {"b": [("mitral", 0.95)]})
    assert confidences(nothing) == {"mitral": pytest.approx(0.95)}
    neither = answers(senses(("a", 0.7), ("b", 0.3)), {})
    assert (neither.candidates, neither.status) == ((), "none")


def test_the_first_are_the_best_of_all_senses(answers):
    ranked = {"a": [("ms", 0.6), ("gout", 0.5), ("tia", 0.4)], "b": [("mitral", 0.9), ("ms", 0.1)]}
    meant = senses(("a", 0.5), ("b", 0.5))
    every = answers(meant, ranked, top=9)
    values = [match.confidence for match in every]
    assert values == sorted(values, reverse=True)
    assert [match.concept for match in answers(meant, ranked, top=2)] == ["mitral", "ms"]


def test_what_no_word_is_known_of_is_nothing(answers):
    found = answers(senses(("a", 1.0)), {"a": [("ms", 0.9)]}, unread={"a"})
    assert (found.status, found.reason) == ("none", "not a term: it has no word that is known")
    assert confidences(found) == {"ms": 0.0}
    other = answers(senses(("a", 0.5), ("b", 0.5)), {"a": [("ms", 0.9)], "b": [("gout", 0.9)]},
                    unread={"a"})  # fmt: skip
    assert confidences(other) == {"gout": pytest.approx(0.9), "ms": 0.0}


def test_a_confidence_does_not_hang_on_the_threshold_asked_for(ward):
    for query in ("zzqx qqzw", "TIA", "gout", "knee tenderness", "MS"):
        given = [ward.normalize(query, threshold=least) for least in (None, 0, 0.5, 1)]
        assert len({tuple(map(str, confidences(some).items())) for some in given}) == 1


# What decides


def decided(kind, **more):
    return Understood((Interpretation("gout"),), kind, "CUE", **more)


def test_what_is_negated_is_no_match_and_says_so(answers):
    found = answers(decided("negated"), {"gout": [("gout", 0.9), ("tia", 0.1)]})
    assert (found.matches, found.status, found.review) == ((), "none", "")
    assert [match.concept for match in found.rejected] == ["gout", "tia"]
    assert found.reason == "negated (CUE)"


def test_what_is_in_doubt_is_a_match_to_be_looked_at(answers):
    found = answers(decided("doubt"), {"gout": [("gout", 0.9)]})
    assert [match.concept for match in found.matches] == ["gout"]
    assert (found.status, found.review, found.reason) == ("review", "in doubt (CUE)", "")
    unlikely = answers(decided("doubt"), {"gout": [("gout", 0.1)]})
    assert (unlikely.matches, unlikely.status) == ((), "review")


PAST = {"history": "personal history of gout", "family": "family history of gout"}
SAID = {"history": "testis-past", "family": "asthma-family"}


@pytest.mark.parametrize("kind", PAST)
def test_what_was_is_answered_with_what_says_so(answers, kind):
    understood = decided(kind, said=(PAST[kind],), steps=("first",))
    ranked = {"gout": [("gout", 0.99)], PAST[kind]: [(SAID[kind], 0.8), ("tia", 0.3)]}
    found = answers(understood, ranked)
    assert [match.concept for match in found] == [SAID[kind], "gout"]
    assert (found.status, found.reason, found.review) == ("match", "", "")
    assert found.steps == ("first", f"asked for {PAST[kind]!r}")


@pytest.mark.parametrize("kind", PAST)
@pytest.mark.parametrize(
    "past", [[], [("tia", 0.9)], [("tia", 0.9), ("SAID", 0.8)], [("OTHER", 0.9)], [("SAID", 0.39)]]
)  # fmt: skip
def test_what_was_and_nothing_says_so_is_for_a_person(answers, kind, past):
    [other] = set(SAID.values()) - {SAID[kind]}
    names = {"SAID": SAID[kind], "OTHER": other}
    past = [(names.get(concept, concept), score) for concept, score in past]
    found = answers(decided(kind, said=(PAST[kind],)), {"gout": [("gout", 0.99)], PAST[kind]: past})
    assert (found.matches, found.status) == ((), "review")
    assert "(CUE), and nothing here surely says so" in found.review
    # What is most likely comes first: a poor fit does not hide what was found.
    assert found.rejected[0].concept == "gout"
    assert found.confidence == 0.99


def test_the_likeliest_sense_that_says_so_is_answered_with(answers):
    understood = senses(
        ("a", 0.5), ("b", 0.5), decides="history", cue="h/o", said=("past a", "past b")
    )
    ranked = {"a": [("gout", 0.9)], "b": [("tia", 0.9)],
              "past a": [("tia", 0.9)], "past b": [("testis-past", 0.7)]}  # fmt: skip
    found = answers(understood, ranked)
    assert (found[0].concept, found.status, found.threshold) == ("testis-past", "match", LEAST)


@pytest.mark.parametrize(
    ("query", "concept", "status"),
    [
        ("h/o testicular cancer", "testis-past", "match"),
        ("PMH: malignant neoplasm of testis", "testis-past", "match"),
        ("h/o gout", "gout", "review"),
        ("mother has asthma", "asthma-family", "match"),
        ("FH gout", "gout", "review"),
        ("family history of asthma", "asthma-family", "match"),
        ("no fever", "fever", "none"),
        ("fever - denied", "fever", "none"),
        ("?gout", "gout", "review"),
        ("gout?", "gout", "review"),
        ("? TIA", "tia", "review"),
        ("possible gout", "gout", "review"),
        ("severe gout, left", "gout", "match"),
    ],
)
def test_on_a_ward(ward, query, concept, status):
    found = ward.normalize(query)
    assert (found.candidates[0].concept, found.status) == (concept, status)
    assert (found.reason == "") == (status != "none")


def test_what_was_taken_off_is_with_every_match(ward):
    found = ward.normalize("severe left hip pain since 2014", threshold=0)
    assert found[0].concept == "hip"
    assert {match.attributes for match in found} == {
        (
            Attribute("severity", "severe", "severe"),
            Attribute("side", "left", "left"),
            Attribute("date", "2014", "since 2014"),
        )
    }


@pytest.mark.parametrize("query", ["n/a", "see letter", "k.A.", "nil", ""])
def test_a_placeholder_is_nothing(ward, encoded_texts, query):
    found = ward.normalize(query, threshold=0)
    assert (found.candidates, found.status, encoded_texts) == ((), "none", [])
    assert (found.reason == "not a term: it stands for nothing") == bool(query)


# What shares a name


@pytest.mark.parametrize("top", [1, 2, 5])
def test_twins_are_one_match_with_all_codes(ward, top):
    found = ward.normalize("asthma", top=top)
    assert (found[0].concept, found[0].twins, found.namesakes) == ("asthma", ("asthma-icd",), 1)
    assert {code.vocabulary for code in found[0].codes} == {"HP", "ICD10CM"}
    assert "asthma-icd" not in {match.concept for match in found}
    assert len(found) == top
    assert all(match.twins == () for match in found[1:])


def test_twins_are_those_that_a_filter_leaves(ward):
    found = ward.normalize("asthma", vocabularies="ICD10CM")
    assert (found[0].concept, found[0].twins) == ("asthma-icd", ())
    assert {code.vocabulary for code in found[0].codes} == {"ICD10CM"}


@pytest.mark.parametrize("top", [1, 5])
@pytest.mark.parametrize("query", ["mumps", "digitalis"])
def test_namesakes_are_several_things(ward, query, top):
    """Two of a vocabulary, or of two kinds: nobody can tell which of them is meant."""
    found = ward.normalize(query, top=top)
    assert (found.namesakes, found[0].twins) == (2, ())
    others = {"mumps": "mumps-other", "digitalis": "digitalis-poisoning"}
    assert [match.concept for match in found[:2]] == [query, others[query]][:top]


@pytest.mark.parametrize("top", [1, 5])
def test_a_code_and_the_one_below_it_are_one_thing(ward, top):
    found = ward.normalize("Pneumonia", top=top)
    assert (found[0].concept, found.namesakes) == ("pneumonia", 1)


def test_a_term_of_ones_own_has_no_twins(ward, ward_index, tmp_path):
    file = tmp_path / "own.tsv"
    add_terms(file, ward.kg, [CustomTerm("asthma", "asthma-icd")])
    found = Normalizer.load(ward_index, terms=file).normalize("asthma")
    assert (found[0].concept, found[0].twins, found.namesakes) == ("asthma-icd", (), 1)
    assert found[1].concept == "asthma"


def test_a_heading_is_no_answer(ward):
    query = "Diseases of the joints"
    assert "diseases" in ward.kg
    found = ward.normalize(query, threshold=0, top=50)
    assert found.matches
    assert "diseases" not in {match.concept for match in found}
    assert ward.normalize(query).status == "none"


# Names that once answered what they are not


@pytest.mark.parametrize(
    ("query", "wrong"),
    [("JIA", "tia"), ("jia", "tia"), ("CML", "aml"), ("cml", "aml"), ("ITP", "ptp"), ("TTP", "ptp"),
     ("DMD", "tmd"), ("drowsy", "dropsy"), ("Drowsy", "dropsy"), ("micosis", "miosis"),
     ("Micosis", "miosis"), ("hernia", "anemia")],
)  # fmt: skip
@pytest.mark.parametrize("wanted", [{}, {"stages": AS_WRITTEN}], ids=["all", "as-written"])
def test_another_name_by_a_letter_is_no_answer(ward, query, wrong, wanted):
    found = ward.normalize(query, **wanted)
    assert wrong not in {match.concept for match in found}
    letters = ward.normalize(query, stages=["exact", "slip", "ngram"], threshold=0)
    assert {match.stage for match in letters} <= {"ngram"}  # alike, and no slip of it


@pytest.mark.parametrize("query", ["TIA", "AML", "PTP", "TMD", "dropsy", "miosis"])
def test_what_they_are_is_answered(ward, query):
    found = ward.normalize(query)
    assert (found[0].concept, found.status) == (query.lower(), "match")


def test_utn_is_not_hypertension_after_a_term_of_ones_own(ward, ward_index, tmp_path):
    file = tmp_path / "own.tsv"
    add_terms(file, ward.kg, [CustomTerm("htn", "hypertension")])
    normalizer = Normalizer.load(ward_index, terms=file)
    for query in ("htn", "HTN", "Htn."):
        found = normalizer.normalize(query)
        assert (found[0].concept, found[0].stage, found.status) == (
            "hypertension",
            "exact",
            "match",
        )
    for query in ("UTN", "utn", "htm", "hfn"):
        found = normalizer.normalize(query)
        assert "hypertension" not in {match.concept for match in found}


def test_a_slip_in_a_long_word_is_one(ward):
    slips = {"headachee": "headache", "hedache": "headache", "epilpesy": "epilepsy"}
    for query, concept in slips.items():
        found = ward.normalize(query)
        assert (found[0].concept, found[0].stage, found.status) == (concept, "slip", "match")
        without = ward.normalize(query, stages=["exact", "dense", "ngram"], threshold=0)
        assert "slip" not in {match.stage for match in without}
