"""What speaks for a candidate: every feature of given pairs, and what must not count."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Indel

from medcoder import Normalizer
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize import features
from medcoder.normalize.batch import Candidate, Fusion, Search
from medcoder.normalize.build import build
from medcoder.normalize.custom_terms import CustomTerm, add_terms
from medcoder.normalize.features import COLUMN, FEATURES, Absent, Rarity, spoken_words
from medcoder.normalize.stages import STAGES
from medcoder.text import fold
from support.bag import write_bag
from support.many import small_source

# Of each concept its names, the preferred one first. Words differ in how many names have them.
NAMES = {
    "gout": ("Gout", "Gouty arthritis", "Acute gout"),
    "foot": ("Burn of left foot", "Scald of foot"),
    "diabetes": ("Type 2 diabetes mellitus", "Diabetes type II"),
    "hepatitis": ("Hepatitis B", "Viral hepatitis"),
    "history": ("Family history of gout",),
    "past": ("Personal history of burn", "Old burn"),
    "fall": ("Fall from ladder",),
    "asthma": ("Asthma, unspecified", "Asthma"),
    "epilepsy": ("Épilepsie", "Epilepsy"),
    "cold": ("かぜ",),
    "digoxin": ("Digoxin poisoning",),
}
TYPES = [("fall", "T1", "External causes of morbidity"), ("gout", "T2", "Disease or Syndrome")]
WORDS = sorted({word for names in NAMES.values() for name in names for word in fold(name).split()})


@pytest.fixture(scope="module")
def made(tmp_path_factory, calibration):
    """Makes a normaliser of names, with an encoder that is the same for all."""
    encoder = write_bag(tmp_path_factory.mktemp("features") / "f.onnx", WORDS)

    def make(names=NAMES):
        folder = tmp_path_factory.mktemp("features")
        rows = [
            (concept, text, "en", "MSH", f"{number}", "PT", rank)
            for number, (concept, texts) in enumerate(names.items())
            for rank, text in enumerate(texts)
        ]
        types = [some for some in TYPES if some[0] in names]
        build_kg([small_source(rows, types=types)], folder / "f.kg")
        build(KG.open(folder / "f.kg"), encoder, folder / "f.index", calibration=calibration)
        return Normalizer.load(folder / "f.index")

    return make


@pytest.fixture(scope="module")
def normalizer(made):
    return made()


def numbers_of(kg, texts):
    """The numbers of terms by their texts."""
    every = {kg.terms.text(number): number for number in range(len(kg.terms))}
    return [every[text] for text in texts]


@pytest.fixture(scope="module")
def of(normalizer):
    """The features of a string and a name of the graph."""
    kg, measures = normalizer.kg, normalizer._ranker._measures

    def measured(text, name, *, known=(), vector=None, absent=None, **given):
        [term] = numbers_of(kg, [name])
        concept = int(np.searchsorted(kg.terms.first, term, "right")) - 1
        candidate = Candidate(concept, term, "dense", **given)
        measures.measure(text, [candidate], (), vector, absent or Absent(), known)
        return dict(zip(FEATURES, candidate.features.tolist(), strict=True))

    return measured


# Words


def rarity(word, names):
    """The logarithm of how many times as many rows there are as rows with the word."""
    texts = {name for some in names.values() for name in some}
    having = sum(word in fold(text).split() for text in texts)
    return math.log((len(texts) + 2) / (having + 1))


@pytest.mark.parametrize(
    ("text", "name", "shared"),
    [
        ("acute gout", "Gout", {"gout"}),
        ("gout", "Acute gout", {"gout"}),
        ("gout of foot", "Burn of left foot", {"of", "foot"}),
        ("ladder fall", "Fall from ladder", {"ladder", "fall"}),
        ("nothing alike", "Gout", set()),
    ],
)
def test_words_count_by_how_rare_they_are(of, text, name, shared):
    found = of(text, name)
    theirs = {word for word in fold(name).split() if word != "left"}  # a side is no word
    every = math.log(len({name for some in NAMES.values() for name in some}) + 2)
    for words, share, most in (
        (text.split(), "said", "said_most"),
        (theirs, "covered", "extra_most"),
    ):
        weights = {word: rarity(word, NAMES) for word in words}
        expected = sum(weights[word] for word in weights if word in shared) / sum(weights.values())
        assert found[share] == pytest.approx(expected, abs=1e-6)
        lacking = max((weights[word] for word in weights if word not in shared), default=0.0)
        assert found[most] == pytest.approx(lacking / every, abs=1e-6)


def test_a_rare_word_that_is_lacking_counts_more_than_a_common_one(of):
    rare, common = of("zymotic gout", "Gout"), of("burn gout", "Gout")
    assert rare["said"] < common["said"]
    assert rare["said_most"] > common["said_most"] > 0


@pytest.mark.parametrize(
    ("text", "name", "at_least", "at_most"),
    [
        ("hepat B", "Hepatitis B", 0.7, 0.7),  # shortened
        ("epilepsia", "Epilepsy", 0.05, 0.9),  # another form
        ("hepatitiss", "Viral hepatitis", 0.5, 0.9),
        ("gou", "Gout", 0.0, 0.0),  # three letters are no short form
        ("foto", "Scald of foot", 0.0, 0.0),  # nor is every word of the same letters
        ("goat", "Gout", 0.0, 0.0),
    ],
)
def test_forms_of_a_word_count_in_part(of, text, name, at_least, at_most):
    assert at_least - 1e-6 <= of(text, name)["said"] <= at_most + 1e-6


def test_two_words_of_the_string_may_be_of_one_word_of_the_term(of):
    found = of("hepat hepatitis", "Viral hepatitis")
    alone = of("hepatitis", "Viral hepatitis")
    assert found["covered"] == pytest.approx(alone["covered"])  # and it counts once


@pytest.mark.parametrize(
    ("text", "name"),
    [("EPILEPSIE", "Épilepsie"), ("e\u0301pilepsie", "Épilepsie"), ("ｅｐｉｌｅｐｓｙ", "Epilepsy"),
     ("かぜ", "かぜ"), ("Asthma - (unspecified).", "Asthma, unspecified")],
)  # fmt: skip
def test_letters_are_those_of_a_look_up(of, text, name):
    found = of(text, name)
    assert (found["spelling"], found["said"], found["covered"], found["length"]) == (1, 1, 1, 0)
    assert (found["said_most"], found["extra_most"]) == (0, 0)


@pytest.mark.parametrize("text", ["", " ", "...", "\u200b", "\ud800", "+", "12", "B", "左"])
def test_what_has_no_words_is_measured_all_the_same(of, text):
    found = of(text, "Gout")
    assert all(map(math.isfinite, found.values()))
    assert (found["said"], found["covered"]) == (0, 0)


def test_spelling_is_of_the_whole_string(of):
    expected = Indel.normalized_similarity("acute gaut", "acute gout")
    assert of("Acute gaut!", "Acute gout")["spelling"] == pytest.approx(expected)


def test_a_longer_name_is_longer(of):
    assert of("gout", "Family history of gout")["length"] == 3
    assert of("family history of gout", "Gout")["length"] == -3
    assert of("left foot", "Burn of left foot")["length"] == 2  # a side is no word of it
    assert of("gout " * 50, "Gout")["length"] == -11  # nothing counts beyond a dozen


# What must agree


@pytest.mark.parametrize(
    ("text", "name", "lacking", "extra"),
    [
        ("diabetes type 2", "Type 2 diabetes mellitus", 0, 0),
        ("diabetes type II", "Type 2 diabetes mellitus", 0, 0),
        ("diabetes type 02", "Diabetes type II", 0, 0),
        ("diabetes type 1", "Type 2 diabetes mellitus", 1, 1),
        ("diabetes", "Diabetes type II", 0, 1),
        ("gout 3 4", "Gout", 2, 0),
        ("gout 1 2 3 4 5", "Gout", 3, 0),  # more say no more
        ("gout L5", "Gout", 1, 0),
        ("type2 diabetes", "Type 2 diabetes mellitus", 0, 0),
    ],
)
def test_numbers(of, text, name, lacking, extra):
    found = of(text, name)
    assert (found["numbers_lacking"], found["numbers_extra"]) == (lacking, extra)


@pytest.mark.parametrize(
    ("text", "name", "lacking", "extra"),
    [
        ("hepatitis B", "Hepatitis B", 0, 0),
        ("hepatitis C", "Hepatitis B", 1, 1),
        ("hepatitis", "Hepatitis B", 0, 1),
        ("gout a b c d", "Gout", 2, 0),
    ],
)
def test_single_letters(of, text, name, lacking, extra):
    found = of(text, name)
    assert (found["marks_lacking"], found["marks_extra"]) == (lacking, extra)
    assert found["numbers_lacking"] == found["numbers_extra"] == 0


@pytest.mark.parametrize(
    ("text", "name", "other", "extra"),
    [
        ("burn of the left foot", "Burn of left foot", 0, 0),
        ("Verbrennung linker foot", "Burn of left foot", 0, 0),
        ("burn of right foot", "Burn of left foot", 1, 0),
        ("burn of foot, rechts", "Burn of left foot", 1, 0),
        ("bilateral burn of foot", "Burn of left foot", 1, 0),
        ("burn of left and right foot", "Burn of left foot", 1, 0),
        ("burn of foot", "Burn of left foot", 0, 1),
        ("scald of the left foot", "Scald of foot", 0, 0),  # the term says less, and nothing else
    ],
)
def test_sides(of, text, name, other, extra):
    found = of(text, name)
    assert (found["side_other"], found["side_extra"]) == (other, extra)


def test_circumstances_that_the_string_does_not_say(of):
    assert of("gout", "Family history of gout")["circumstance"] == 2
    assert of("gout in the family", "Family history of gout")["circumstance"] == 1
    assert of("history of family gout", "Family history of gout")["circumstance"] == 0
    assert of("burn", "Old burn")["circumstance"] == 0
    assert of("burn", "Old burn")["name_circumstance"] == 2  # it is a personal history
    assert of("burn", "Personal history of burn")["name_circumstance"] == 0  # counted already
    assert of("personal burn", "Old burn")["name_circumstance"] == 1


def test_what_is_left_open(of):
    assert of("asthma", "Asthma, unspecified")["open"] == 1
    assert of("asthma NOS", "Asthma, unspecified")["open"] == 0
    assert of("asthma", "Asthma")["open"] == 0


def test_a_word_that_is_another_word_is_no_misspelling(of):
    name = "Digoxin poisoning"
    like = Indel.normalized_similarity("dioxin", "digoxin")
    assert of("dioxin", name, known={"dioxin"})["lookalike"] == pytest.approx(like)
    assert of("dioxin", name)["lookalike"] == 0  # of which nobody knows that it is a word
    assert of("digoxin", name, known={"digoxin"})["lookalike"] == 0
    assert of("digox", name, known={"digox"})["lookalike"] == 0  # shortened
    assert of("gout", name, known={"gout"})["lookalike"] == 0


# What the graph and the ranking say


def test_what_the_ranking_found_is_taken_as_it_is(of):
    found = of("gout", "Gout", cosine=0.5, similarity=0.25, spelt=True, near=True, support=3)
    assert {name: found[name] for name in ("cosine", "letters", "slip", "near", "certain")} == {
        "cosine": 0.5, "letters": 0.25, "slip": 1, "near": 1, "certain": 0,
    }  # fmt: skip
    assert found["support"] == pytest.approx(math.log(3))
    assert of("gout", "Gout", hit=True)["certain"] == 1
    assert of("gout", "Gout", support=0)["support"] == 0


def test_what_kind_of_name_it_is(of):
    assert of("x", "Gout")["preferred"] == 1
    assert of("x", "Acute gout")["preferred"] == 0
    assert of("x", "Gout")["names"] == pytest.approx(math.log(3))
    assert of("x", "Fall from ladder")["names"] == 0
    assert of("x", "Asthma, unspecified")["derived"] == 0


def test_derived_names_and_notes_on_what_is_included(tmp_path, bag, calibration):
    rows = [("A03", "Heart failure, unspecified", "en", "ICD10CM", "A03", "PT", 0),
            ("A03", "hot head", "en", "ICD10CM", "A03", "includes", 2)]  # fmt: skip
    build_kg([small_source(rows)], tmp_path / "a.kg")
    build(KG.open(tmp_path / "a.kg"), bag, tmp_path / "a.index", calibration=calibration)
    found = {}
    normalizer = Normalizer.load(tmp_path / "a.index")
    for number in range(len(normalizer.kg.terms)):
        candidate = Candidate(0, number, "dense")
        normalizer._ranker._measures.measure("heart", [candidate], (), None)
        kinds = [candidate.features[COLUMN[name]] for name in ("preferred", "derived", "includes")]
        found[normalizer.kg.terms.text(number)] = kinds
    assert found == {
        "Heart failure, unspecified": [1, 0, 0], "Heart failure": [0, 1, 0], "hot head": [0, 0, 1],
    }  # fmt: skip


def test_what_is_no_thing_of_its_own(of):
    assert of("fall", "Fall from ladder")["aside"] == 1
    assert of("gout", "Gout")["aside"] == 0
    assert of("asthma", "Asthma")["aside"] == 0  # of no type


def test_cosines_of_all_names(of, normalizer):
    encoder = normalizer.encoder
    [query] = encoder.encode(["acute gouty foot"])
    names = encoder.encode(list(NAMES["gout"])) @ query
    found = of("acute gouty foot", "Acute gout", vector=query, cosine=0.5)
    assert found["cosine"] == 0.5
    assert found["name"] == pytest.approx(names[0], abs=2e-3)  # vectors are kept in 16 bits
    assert found["centre"] == pytest.approx(names.mean(), abs=2e-3)
    assert found["second"] == pytest.approx(np.sort(names)[-2], abs=2e-3)
    single = of("acute gouty foot", "Fall from ladder", vector=query)
    assert single["cosine"] == single["name"] == single["centre"] == single["second"]


def test_without_vectors_nothing_is_near_in_meaning(of):
    for vector in (None, np.zeros(24, np.float32)):
        found = of("gout", "Gout", vector=vector)
        assert [found[name] for name in ("cosine", "name", "centre", "second")] == [0] * 4


# What does not exist


def found_by(normalizer, text, hidden=()):
    """The features of all candidates of a string, by the texts of their terms."""
    search = Search(top=50, stages=tuple(STAGES), fusion=Fusion())
    embed = normalizer.encoder.encode([text]).__getitem__
    [ranked] = normalizer._ranker.find([text], embed, search, without=[frozenset(hidden)])
    return {
        normalizer.kg.terms.text(one.term): dict(zip(FEATURES, one.features.tolist(), strict=True))
        for one in ranked
        if one.features is not None
    }


@pytest.mark.parametrize("text", ["gout", "family gout", "burn of foot", "burns", "diabetes 2"])
@pytest.mark.parametrize(
    "gone",
    [{"Gouty arthritis"}, {"Family history of gout"}, {"Scald of foot"}, {"Old burn"},
     {"Diabetes type II", "Acute gout"}],
    ids=lambda gone: "+".join(sorted(gone)),
)  # fmt: skip
def test_hidden_names_count_as_if_they_did_not_exist(made, normalizer, text, gone):
    left = {concept: tuple(name for name in names if name not in gone)
            for concept, names in NAMES.items()}  # fmt: skip
    without = made({concept: names for concept, names in left.items() if names})
    found = found_by(normalizer, text, numbers_of(normalizer.kg, gone))
    expected = found_by(without, text)
    assert not gone & set(found)
    assert found.keys() == expected.keys()
    for name, measured in expected.items():
        alike = {key: value for key, value in measured.items() if key not in ("letters", "cosine")}
        assert {key: found[name][key] for key in alike} == pytest.approx(alike, abs=1e-5), name


def test_a_hidden_preferred_name_says_nothing(of, normalizer):
    hidden = numbers_of(normalizer.kg, ["Personal history of burn"])
    [query] = normalizer.encoder.encode(["old burn"])
    plain = of("old burn", "Old burn", vector=query)
    absent = Absent(hidden, ["Personal history of burn"])
    found = of("old burn", "Old burn", vector=query, absent=absent)
    assert (plain["name_circumstance"], found["name_circumstance"]) == (2, 0)
    assert (plain["names"], found["names"]) == (pytest.approx(math.log(2)), 0)
    assert found["name"] == found["centre"] == found["second"] != plain["name"]


def test_words_of_hidden_names_are_rarer(normalizer):
    grams = normalizer._ranker.grams
    rows = len(grams)
    assert Rarity(grams).of("gout") == pytest.approx(math.log((rows + 2) / 4))
    without = Rarity(grams, ["Family history of gout", "Acute gout"])
    assert without.of("gout") == pytest.approx(math.log(rows / 2))
    assert without.of("zymotic") == without.most == pytest.approx(math.log(rows))


# A user's own terms


@pytest.fixture
def with_own(normalizer, tmp_path):
    def made(term, concept):
        add_terms(tmp_path / "own.tsv", normalizer.kg, [CustomTerm(term, concept)])
        return Normalizer.load(normalizer.path, terms=tmp_path / "own.tsv")

    return made


@pytest.mark.parametrize("term", ["no fever", "n/a", "12", "ladder gout"])
def test_what_the_concept_of_an_own_term_is_called_says_nothing_against_it(with_own, term):
    search = Search(top=5, stages=tuple(STAGES), fusion=Fusion())
    own = with_own(term, "asthma")
    [ranked] = own._ranker.find([term], own.encoder.encode([term]).__getitem__, search)
    found = dict(zip(FEATURES, ranked[0].features.tolist(), strict=True))
    assert own.kg.terms.id(ranked[0].concept) == "asthma"
    assert [found[name] for name in ("name", "centre", "second", "certain")] == [1] * 4
    assert (found["spelling"], found["preferred"], found["derived"]) == (1, 0, 0)


def test_an_own_term_that_is_near_counts_by_itself(with_own):
    own = with_own("ladder gout", "asthma")
    search = Search(top=5, stages=tuple(STAGES), fusion=Fusion())
    text = "ladder acute gout"
    [ranked] = own._ranker.find([text], own.encoder.encode([text]).__getitem__, search)
    [one] = [one for one in ranked if one.term < 0]
    found = dict(zip(FEATURES, one.features.tolist(), strict=True))
    assert found["name"] == found["centre"] == found["second"] == pytest.approx(one.cosine)
    assert found["said"] > 0


# Any strings

WORDS_OF_ANY = st.lists(
    st.sampled_from([*WORDS, "left", "right", "links", "2", "iii", "b", "12", "nos", "é", "心"]),
    max_size=6,
).map(" ".join)
ANY = WORDS_OF_ANY | st.text(max_size=12)


@given(ANY, st.sampled_from([name for names in NAMES.values() for name in names]))
def test_features_are_numbers_in_their_ranges(of, text, name):
    found = of(text, name)
    assert all(map(math.isfinite, found.values()))
    shares = ("said", "covered", "said_most", "extra_most", "spelling", "lookalike")
    assert all(0 <= found[share] <= 1 for share in shares)
    assert not (found["side_other"] and found["side_extra"])


@given(ANY)
def test_what_words_say_does_not_hang_on_how_they_are_typed(text):
    assert spoken_words(f" {text}\t") == spoken_words(text)
    spoken = spoken_words(text)
    assert spoken.folded == fold(text)
    assert len(spoken.words) <= len(spoken.folded.split())
    assert spoken.circumstances <= set(spoken.words)


def test_of_words_that_are_as_like_the_first_is_taken():
    """And not whichever a set begins with: answers would differ from process to process."""
    rarity = SimpleNamespace(of={"cardiaca": 1.0, "cardiaco": 2.0, "cardiacx": 1.0}.get)
    asked = features._Asked(spoken_words("cardiacx"), [1.0], 1.0, (), rarity, ())
    for first, other in (("cardiaca", "cardiaco"), ("cardiaco", "cardiaca")):
        _, _, theirs, _, total = features._compared(asked, spoken_words(f"{first} {other}"))
        like, best = features._likest("cardiacx", [first, other])
        assert (best, total) == (first, 3.0)
        assert theirs == pytest.approx(like * rarity.of(first))
