"""The answer of a string: its readings, what decides it, what shares its name."""

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder import Normalizer
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.answers import Answers, Asked
from medcoder.normalize.batch import Candidate
from medcoder.normalize.calibrate import Calibration
from medcoder.normalize.custom_terms import CustomTerm, CustomTerms, add_terms
from medcoder.normalize.filters import Filter
from medcoder.normalize.interpretations import Interpretation, Understood
from medcoder.normalize.weights import CONFIDENCE, stated
from medcoder.types import Attribute
from support.chosen import found as measured
from support.chosen import weights
from support.many import small_source

LEAST = 0.4
AS_WRITTEN = ("code", "exact", "slip", "dense", "ngram")
LOWEST = {some.feature: some.knots[0] for some in CONFIDENCE}


def by(**times):
    """Weights by which features add to the log-odds as they are, as many times as is given."""
    return weights(times, times, sum(count * LOWEST[name] for name, count in times.items()))


AS_GIVEN = by(length=1.0)  # candidates are as sure as is given: see `candidate`


def odds(confidence):
    """The log-odds."""
    return math.log(confidence / (1 - confidence))


def sure(confidence, more=0.0):
    """The confidence with more log-odds, as an answer states it: features have 32 bits."""
    return pytest.approx(float(stated(odds(confidence) + more)), abs=1e-6)


def candidate(kg, concept, confidence):
    """None as its confidence: it was not measured."""
    number = kg.index(concept)
    term = int(kg.terms.first[number])
    if confidence is None:
        return Candidate(number, term, "dense")
    return measured(number, term=term, length=odds(confidence))


def asker(kg):
    """Answers what was understood, of candidates that are given as concept and confidence."""
    maker = Answers(kg, CustomTerms(kg, None, None))

    def answer(
        understood,
        ranked,
        *,
        top=5,
        threshold=None,
        unread=lambda *_: False,
        fitted=AS_GIVEN,
        allows=lambda _: True,
    ):
        calibration = Calibration(
            weights=fitted, threshold=LEAST, error=0.0, curve=(), reliability=()
        )
        asked = Asked(
            top=top, threshold=threshold, wanted=Filter(), allows=allows, unread=unread,
            ranked={
                text: [candidate(kg, *entry) for entry in some] for text, some in ranked.items()
            },
            calibration=lambda settled: calibration,
        )  # fmt: skip
        return maker.answer("query", understood, asked)

    return answer


@pytest.fixture(scope="module")
def answers(ward):
    return asker(ward.kg)


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    """Answers of a graph with codes of a category, and with a term of what is lacking."""
    names = {
        "infarction": ("Myocardial infarction", "I21.9"), "stemi": ("ST elevation", "I21.3"),
        "angina": ("Angina pectoris", "I20.9"), "sclerosis": ("Multiple sclerosis", "G35"),
        "tired": ("Lack of energy", "R53.83"), "tireless": ("Plenty of energy", "R46.3"),
    }  # fmt: skip
    rows = [(concept, text, "en", "ICD10CM", code, "PT", 0)
            for concept, (text, code) in names.items()]  # fmt: skip
    path = tmp_path_factory.mktemp("coded") / "coded.kg"
    build_kg([small_source(rows)], path)
    return asker(KG.open(path))


def senses(*pairs, **said):
    return Understood(tuple(Interpretation(*pair, True) for pair in pairs), **said)


def confidences(answer):
    return {match.concept: match.confidence for match in answer.candidates}


def in_order(answer):
    return [match.concept for match in answer.candidates]


# Readings


def test_one_reading_is_answered_as_it_is_found(answers):
    found = answers(senses(("a", 1.0)), {"a": [("gout", 0.2), ("ms", 0.9)]})
    assert confidences(found) == {"ms": sure(0.9), "gout": sure(0.2)}
    assert in_order(found) == ["ms", "gout"]
    assert [match.stage for match in found] == ["abbreviation"] * 2
    assert (found.status, found.threshold, found.reason) == ("match", LEAST, "")
    plain = answers(Understood((Interpretation("a"),)), {"a": [("ms", 0.9)]})
    assert [match.stage for match in plain] == ["dense"]


SOME = st.lists(
    st.tuples(st.sampled_from(["ms", "gout", "tia"]), st.sampled_from([0.1, 0.3, 0.6, 0.9])),
    max_size=3, unique_by=lambda pair: pair[0],
)  # fmt: skip


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abc"), SOME, min_size=1), st.permutations("abc"))
def test_a_concept_of_several_readings_is_as_sure_as_by_the_best_of_them(answers, ranked, order):
    best = {}
    for some in ranked.values():
        for concept, confidence in some:
            best[concept] = max(confidence, best.get(concept, 0.0))
    found = answers(senses(*((text, 0.3) for text in order)), ranked)
    assert confidences(found) == {concept: sure(value) for concept, value in best.items()}
    assert len(found.candidates) == len(best)
    values = [best[concept] for concept in in_order(found)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("written", "stage"), [(0.9, "abbreviation"), (0.5, "dense")])
def test_a_concept_is_found_by_the_reading_that_speaks_most_for_it(answers, written, stage):
    meant = (Interpretation("a", 0.5, True), Interpretation("b", 0.5))
    found = answers(Understood(meant), {"a": [("ms", written)], "b": [("ms", 0.7)]})
    assert [(match.concept, match.stage) for match in found] == [("ms", stage)]


@pytest.mark.parametrize(
    ("other", "first"), [(0.85, "gout"), (0.9, "gout"), (0.97, "mitral"), (0.99, "mitral")]
)
def test_a_reading_speaks_by_its_weight(answers, other, first):
    """A thing of what is rarely meant comes first if it fits better by more."""
    ranked = {"a": [("gout", 0.9)], "b": [("mitral", other)]}
    found = answers(
        senses(("a", 0.6), ("b", 0.3)), ranked, fitted=by(length=1.0, weight=1.0), threshold=0
    )
    assert confidences(found) == {
        "gout": sure(0.9, math.log(0.6)),
        "mitral": sure(other, math.log(0.3)),
    }
    assert found[0].concept == first


def test_a_reading_of_which_nothing_is_found_takes_its_weight_along(answers):
    fitted, meant = by(length=1.0, weight=1.0), senses(("one", 0.7), ("other", 0.3))
    found = answers(meant, {"one": [], "other": [("mitral", 0.95)]}, fitted=fitted)
    assert confidences(found) == {"mitral": sure(0.95, math.log(0.3))}
    neither = answers(meant, {"one": []}, fitted=fitted)
    assert (neither.candidates, neither.status, neither.reason) == ((), "none", "")


@pytest.mark.parametrize(
    ("third", "order", "shares"),
    [
        ("infarction", ["infarction", "sclerosis"], [0.6, 0.4]),
        ("stemi", ["infarction", "stemi", "sclerosis"], [0.6, 0.6, 0.4]),
        ("angina", ["sclerosis", "infarction", "angina"], [0.4, 0.3, 0.3]),
    ],
)
def test_readings_that_lead_to_one_category_outdo_a_likelier_one(coded, third, order, shares):
    """I21.9 and I21.3 are infarctions: which of them is meant, the readings do not agree on."""
    ranked = {"a": [("sclerosis", 0.9)], "b": [("infarction", 0.9)], "c": [(third, 0.9)]}
    for pairs in permutations([("a", 0.4), ("b", 0.3), ("c", 0.3)]):
        found = coded(senses(*pairs), ranked, fitted=by(length=1.0, weight=1.0))
        assert confidences(found) == {
            concept: sure(0.9, math.log(share))
            for concept, share in zip(order, shares, strict=True)
        }
        assert (found[0].concept == "sclerosis") == (order[0] == "sclerosis")


def test_what_was_written_out_may_count_less(answers):
    """What the terminology itself calls so has the same weight here."""
    meant = (Interpretation("a", 0.5, True), Interpretation("b", 0.5))
    ranked = {"a": [("ms", 0.9)], "b": [("gout", 0.8)]}
    plain = answers(Understood(meant), ranked)
    assert in_order(plain) == ["ms", "gout"]
    found = answers(Understood(meant), ranked, fitted=by(length=1.0, written=-2.0))
    assert in_order(found) == ["gout", "ms"]
    assert confidences(found) == {"gout": sure(0.8), "ms": sure(0.9, -2.0)}


def test_the_first_are_the_best_of_all_readings(answers):
    ranked = {"a": [("ms", 0.6), ("gout", 0.5), ("tia", 0.4)], "b": [("mitral", 0.9), ("ms", 0.1)]}
    meant = senses(("a", 0.5), ("b", 0.5))
    every = answers(meant, ranked, top=9)
    assert in_order(every) == ["mitral", "ms", "gout", "tia"]
    for top in (1, 2, 3):
        assert answers(meant, ranked, top=top).matches == every.matches[:top]


def test_what_speaks_for_the_best_two_is_told(answers):
    found = answers(senses(("a", 1.0)), {"a": [("ms", 0.9), ("gout", 0.6), ("tia", 0.5)]})
    first, second, third = (match.weighed for match in found)
    assert [sum(some.values()) for some in (first, second)] == [
        pytest.approx(odds(0.9), abs=1e-5), pytest.approx(odds(0.6), abs=1e-5)
    ]  # fmt: skip
    assert first["length"] - second["length"] == pytest.approx(odds(0.9) - odds(0.6), abs=1e-5)
    assert third == {}


# Beyond the measured


BEYOND = {
    "a": [("ms", 0.9), ("gout", 0.6), ("tia", None), ("fever", None)],
    "b": [("mitral", 0.7), ("tia", 0.3), ("fever", None), ("cough", None), ("ms", None)],
}


@pytest.mark.parametrize("top", range(1, 9))
def test_what_was_not_measured_comes_last_and_is_no_surer(answers, top):
    """Each concept once; what is asked for more changes nothing of what comes first."""
    meant = (Interpretation("a", 0.5, True), Interpretation("b", 0.5))
    found = answers(Understood(meant), BEYOND, top=top)
    expected = [
        ("ms", sure(0.9), "abbreviation"), ("mitral", sure(0.7), "dense"),
        ("gout", sure(0.6), "abbreviation"), ("tia", sure(0.3), "dense"),
        ("fever", sure(0.3), "abbreviation"), ("cough", sure(0.3), "dense"),
    ]  # fmt: skip
    told = [(match.concept, match.confidence, match.stage) for match in found]
    assert told == expected[:top]


# What has no word that is known


def test_what_no_word_is_known_of_is_nothing(answers):
    found = answers(
        senses(("a", 1.0)), {"a": [("ms", 0.9), ("gout", 0.5), ("tia", None)]},
        unread=lambda *_: True,
    )  # fmt: skip
    assert (found.matches, found.status) == ((), "none")
    assert found.reason == "not a term: it has no word that is known"
    assert confidences(found) == {"ms": 0.0, "gout": 0.0, "tia": 0.0}


def test_the_best_candidate_and_its_reading_are_asked_about(answers):
    asked = []

    def unread(text, best, term, *least):
        asked.append((text, best.stage, term(), *least))
        return text == "b"

    meant, some = senses(("a", 0.5), ("b", 0.5)), {"a": [("ms", 0.8)], "b": [("gout", 0.7)]}
    found = answers(meant, some, unread=unread, threshold=0.9)
    assert confidences(found) == {"ms": sure(0.8), "gout": sure(0.7)}
    none = answers(meant, some | {"b": [("gout", 0.9)]}, unread=unread, threshold=0.1)
    assert confidences(none) == {"gout": 0.0, "ms": 0.0}
    # By the threshold that was fitted, whatever is asked for.
    assert asked == [
        ("a", "dense", "Multiple sclerosis", sure(0.8), LEAST),
        ("b", "dense", "Gout", sure(0.9), LEAST),
    ]


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
    assert in_order(found) == ["gout", "tia"]
    assert found.reason == "negated (CUE)"
    assert confidences(found) == {"gout": sure(0.9), "tia": sure(0.1)}


PHRASE = Understood((Interpretation("energy"),), "negated", "no", said=("no energy",))


def test_a_phrase_of_what_is_lacking_is_a_finding(coded):
    """Energy is nothing that is found, and lack of it is."""
    ranked = {"energy": [("tireless", 0.05)], "no energy": [("tired", 0.8), ("tireless", 0.5)]}
    found = coded(PHRASE, ranked)
    assert (found.status, found.reason, found.query) == ("match", "", "query")
    assert confidences(found) == {"tired": sure(0.8), "tireless": sure(0.5)}
    assert in_order(found) == ["tired", "tireless"]


@pytest.mark.parametrize(
    ("thing", "phrase"),
    [
        ([("tireless", 0.12)], [("tired", 0.8)]),  # the thing itself is known
        ([], [("tireless", 0.8), ("tired", 0.7)]),  # nothing lacks
        ([], [("tired", 0.39)]),  # not surely
        ([("tireless", 0.05)], []),
    ],
    ids=["known", "nothing lacks", "unsure", "not found"],
)
def test_what_is_negated_and_no_phrase_is_no_match(coded, thing, phrase):
    found = coded(PHRASE, {"energy": [*thing, ("angina", 0.04)], "no energy": phrase})
    assert (found.matches, found.status, found.reason) == ((), "none", "negated (no)")
    assert confidences(found) == {
        concept: sure(value) for concept, value in (*thing, ("angina", 0.04))
    }


def test_what_is_in_doubt_is_a_match_to_be_looked_at(answers):
    found = answers(decided("doubt"), {"gout": [("gout", 0.9)]})
    assert [match.concept for match in found.matches] == ["gout"]
    assert (found.status, found.review, found.reason) == ("review", "in doubt (CUE)", "")
    assert confidences(found) == {"gout": sure(0.9)}
    unlikely = answers(decided("doubt"), {"gout": [("gout", 0.1)]})
    assert (unlikely.matches, unlikely.status) == ((), "review")
    assert confidences(unlikely) == {"gout": sure(0.1)}


PAST = {"history": "personal history of gout", "family": "family history of gout"}
SAID = {"history": "testis-past", "family": "asthma-family"}


@pytest.mark.parametrize("kind", PAST)
def test_what_was_is_answered_with_what_says_so(answers, kind):
    understood = decided(kind, said=(PAST[kind],), steps=("first",))
    ranked = {"gout": [("gout", 0.99)], PAST[kind]: [(SAID[kind], 0.8), ("tia", 0.3)]}
    found = answers(understood, ranked)
    assert in_order(found) == [SAID[kind], "gout"]
    assert confidences(found) == {SAID[kind]: sure(0.8), "gout": sure(0.99)}
    assert (found.status, found.reason, found.review) == ("match", "", "")
    assert found.steps == ("first", f"asked for {PAST[kind]!r}")
    assert answers(understood, ranked, top=1).matches == found.matches[:1]


@pytest.mark.parametrize("kind", PAST)
@pytest.mark.parametrize(
    "past", [[], [("tia", 0.9)], [("tia", 0.9), ("SAID", 0.8)], [("OTHER", 0.9)], [("SAID", 0.39)]],
    ids=["nothing", "another thing", "another thing first", "said of others", "unsure"],
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
    assert found.confidence == sure(0.99)


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """Answers of a graph with codes for what was, and for what is in the family."""
    names = {
        "diabetes": ("Type 2 diabetes mellitus", "E11.9"), "gout": ("Gout", "M10.9"),
        "polyp": ("Polyp of colon", "K63.5"), "cough": ("Cough", "R05.9"),
        "family": ("Family history of diabetes mellitus", "Z83.3"),
        "digestive": ("Personal history of diseases of the digestive system", "Z87.1"),
        "colonic": ("Personal history of colonic polyps", "Z86.010"),
        "joints": ("Personal history of diseases of the musculoskeletal system", "Z87.3"),
        "arthrosis": ("Personal history of gouty arthritis", "Z87.39"),
    }  # fmt: skip
    rows = [(concept, text, "en", "ICD10CM", code, "PT", 0)
            for concept, (text, code) in names.items()]  # fmt: skip
    path = tmp_path_factory.mktemp("classified") / "classified.kg"
    build_kg([small_source(rows)], path)
    return asker(KG.open(path))


@pytest.mark.parametrize(
    ("kind", "thing", "past", "expected"),
    [
        ("family", [("diabetes", 0.9)], [], ["family", "diabetes"]),
        ("family", [("diabetes", 0.9), ("family", 0.5)], [], ["family", "diabetes"]),
        ("family", [("diabetes", 0.9)], [("family", 0.2)], ["family", "diabetes"]),
        ("family", [("gout", 0.9)], [], None),  # a code that this graph does not have
        ("family", [("cough", 0.9)], [], None),  # a symptom has none
        ("family", [("diabetes", 0.39)], [], None),  # not known what is in the family
        ("history", [("gout", 0.9)], [], ["joints", "gout"]),
        ("history", [("gout", 0.9)], [("arthrosis", 0.2)], ["joints", "gout"]),  # below Z87.3
        ("history", [("polyp", 0.9)], [], ["digestive", "polyp"]),
        ("history", [("polyp", 0.9)], [("colonic", 0.2)], None),  # more likely of another kind
        ("history", [("polyp", 0.9)], [("colonic", 0.05)], ["digestive", "polyp"]),
    ],
)
def test_what_was_is_coded_as_its_kind_is(classified, kind, thing, past, expected):
    understood = Understood((Interpretation("a"),), kind, "CUE", said=("past a",))
    found = classified(understood, {"a": thing, "past a": past})
    if expected is None:
        assert (found.matches, found.status) == ((), "review")
        return
    assert ([match.concept for match in found], found.status) == (expected, "match")
    assert found.confidence == sure(thing[0][1])
    assert (found[0].term, found[0].cosine) == (found[0].name, None)
    assert found.steps[-1].startswith(f"{kind} of ")
    assert len(classified(understood, {"a": thing, "past a": past}, top=1)) == 1


def test_what_was_is_not_coded_as_what_is_left_out(classified):
    understood = Understood((Interpretation("a"),), "family", "CUE", said=("past a",))
    found = classified(understood, {"a": [("diabetes", 0.9)]}, allows=lambda _: False)
    assert (found.matches, found.status) == ((), "review")


def test_the_likeliest_reading_that_says_so_is_answered_with(answers):
    understood = senses(
        ("a", 0.5), ("b", 0.5), decides="history", cue="h/o", said=("past a", "past b")
    )
    ranked = {"a": [("gout", 0.9)], "b": [("tia", 0.9)],
              "past a": [("tia", 0.9)], "past b": [("testis-past", 0.7)]}  # fmt: skip
    found = answers(understood, ranked)
    assert (found[0].concept, found.status, found.threshold) == ("testis-past", "match", LEAST)
    assert found.confidence == sure(0.7)
    assert found.steps == ("asked for 'past b'",)


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
