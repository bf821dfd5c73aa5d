"""Strings to ranked concepts: stages, filters and answers."""

import json
import random
import re
from collections import Counter
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medcoder import Normalizer
from medcoder.errors import UnknownName, UsageError
from medcoder.kg import KG, masks
from medcoder.kg.build import build_kg
from medcoder.normalize import batch
from medcoder.normalize.batch import Fusion, Search
from medcoder.normalize.build import build
from medcoder.normalize.features import MEASURED
from medcoder.normalize.filters import Filter, Filters
from medcoder.normalize.stages import STAGES as REGISTRY
from medcoder.normalize.stages import letters
from medcoder.normalize.typos import as_spelt
from medcoder.text import fold
from medcoder.types import Answer, Code, Match
from support.chosen import weights
from support.many import QUERIES, TYPES, WORDS, small_source
from support.plain import Ranking, but_for_slips

STAGES = tuple(REGISTRY)
AS_WRITTEN = tuple(name for name in STAGES if name != "abbreviation")  # cold is one: COLD
FILTERS = (
    {},
    {"types": ["Sign or Symptom"]},
    {"types": ["T184", "T023"]},
    {"vocabularies": ["msh"]},
    {"vocabularies": ["HPO"]},  # only an alternative code of some
    {"languages": ["es"]},
    {"languages": ["pt", "es"]},
    {"types": ["T047"], "vocabularies": ["ICD-10-CM", "SNOMED"], "languages": ["pt-br"]},
)


@pytest.fixture(scope="module")
def normalizer(many_index):
    return Normalizer.load(many_index)


@pytest.fixture(scope="module")
def plain(normalizer):
    return Ranking(normalizer.kg, normalizer._vectors)


# Candidates


def same(found, expected):
    """Whether candidates are those of the plain loops, in their order but for rounding."""
    found = [astuple(one)[:6] for one in found]
    assert {one[:3] for one in found} == {one[:3] for one in expected}
    assert len(found) == len(expected)
    assert [one[5] for one in found] == pytest.approx([one[5] for one in expected], abs=1e-6)
    values = {one[:3]: one[3:] for one in expected}
    for place, one in enumerate(found):
        for name, value, truth in zip("csf", one[3:], values[one[:3]], strict=True):
            if name == "s" and place >= 8 and value is None:
                continue  # letters that did not count, of one that is not answered with
            assert value == (truth if truth is None else pytest.approx(truth, abs=1e-6))


@pytest.mark.parametrize("stages", [STAGES, ("exact",), ("dense",), ("ngram",), ("dense", "ngram"),
                                    ("exact", "ngram"), ("slip", "ngram"),
                                    ("exact", "dense", "ngram")], ids="+".join)  # fmt: skip
@pytest.mark.parametrize("wanted", FILTERS, ids=str)
def test_candidates_equal_plain_loops(normalizer, plain, bag, stages, wanted):
    fusion = Fusion(gain=2.0, floor=0.4)
    allowed = normalizer._filters.allowed(Filter.of(*map(wanted.get, Filter._fields[:3])))
    search = Search(top=8, stages=stages, fusion=fusion, allowed=allowed)
    vectors = bag.encode(QUERIES)
    embed = vectors.__getitem__ if "dense" in stages else None
    kept = plain.kept(**wanted)
    assert len(kept) > 5
    batch = normalizer._ranker.find(QUERIES, embed, search)
    for place, query in enumerate(QUERIES):
        truth = plain.rank(query, vectors[place], stages, fusion, kept, rows=32)
        same(batch[place], truth)
        if len(stages) == 1:  # nothing is lost by looking at so few rows
            every = plain.rank(query, vectors[place], stages, fusion, kept)
            assert [one[:3] for one in truth][:8] == [one[:3] for one in every][:8]


def test_enough_to_tell_apart(normalizer, plain, bag):
    """What the test above compares is not trivial."""
    vectors = bag.encode(QUERIES)
    seen = Counter()
    for query, vector in zip(QUERIES, vectors, strict=True):
        ranked = plain.rank(query, vector, STAGES, Fusion(2.0, 0.4), plain.kept(), rows=32)
        seen.update(one[2] for one in ranked)
        cosines = [one[3] for one in ranked if one[2] != "exact"]
        seen["fused"] += cosines != sorted(cosines, reverse=True)
    assert seen["exact"] > 5
    assert seen["ngram"] > 5
    assert seen["fused"] > 0
    assert seen["slip"] > 1
    assert len(normalizer._vectors) > 150


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_every_kind_of_index_gives_the_same(normalizer, many_kg, bag, calibration, kind, tmp_path):
    path = tmp_path / "other.index"
    build(many_kg, bag, path, kind=kind, calibration=calibration)
    other = Normalizer.load(path)
    assert other.meta["index"] == kind
    for wanted in FILTERS[::3]:
        expected = list(normalizer.normalize_many(QUERIES, top=8, threshold=0, **wanted))
        assert list(other.normalize_many(QUERIES, top=8, threshold=0, **wanted)) == expected


@pytest.fixture(scope="module")
def crowded(bag, calibration, tmp_path_factory):
    """One concept with hundreds of near-equal terms, and six others that are further off."""
    folder = tmp_path_factory.mktemp("crowd")
    crowd = [("C1", f"Heart attack{'!' * n}", "en", "MSH", "1", "SY", n) for n in range(400)]
    others = ("heart failure", "heart disease", "attack heart pain", "heart", "fever", "cold")
    rows = [(f"C{n}", text, "es", "MSH", str(n), "PT", 0) for n, text in enumerate(others, 2)]
    rows.append(("C3", "Heart attack disease", "en", "MSH", "3", "SY", 1))
    build_kg(
        [small_source(crowd + rows, types=[("C1", *TYPES[0]), ("C5", *TYPES[0])])], folder / "c.kg"
    )
    build(KG.open(folder / "c.kg"), bag, folder / "c.index", calibration=calibration)
    return Normalizer.load(folder / "c.index")


@pytest.mark.parametrize("stages", [STAGES, ("dense",), ("ngram",), ("exact", "ngram")],
                         ids="+".join)  # fmt: skip
def test_a_concept_with_hundreds_of_terms_leaves_room_for_others(crowded, bag, stages):
    for query in ("heart attack", "hart attack", "Heart attacks"):
        found = crowded.normalize(query, top=5, stages=stages, threshold=0)
        assert len({one.concept for one in found}) == len(found) == 5
        assert "C1" in {one.concept for one in found[:2]}  # so many names are no sign of anything
        every = crowded.normalize(query, top=7, stages=stages, threshold=0)
        assert [one.concept for one in every[:5]] == [one.concept for one in found]
        assert len(every) == (7 if "dense" in stages else 5)  # two have no letters of it
        assert crowded.normalize(query, top=1, stages=stages, threshold=0)[0] == found[0]


def test_a_filter_that_leaves_a_crowd_and_one_other(crowded):
    for stages in (("dense",), ("ngram",), STAGES):
        found = crowded.normalize(
            "heart attack", types="T047", top=5, stages=stages, threshold=0, languages=["en", "es"]
        )
        assert [one.concept for one in found] == ["C1", "C5"]
        spanish = crowded.normalize("heart", languages="es", stages=stages, threshold=0, top=9)
        assert spanish[0].concept == "C5"
        assert {one.concept for one in spanish} == {
            "dense": {"C2", "C3", "C4", "C5", "C6", "C7"}, "ngram": {"C2", "C3", "C4", "C5"},
        }.get("+".join(stages), {"C2", "C3", "C4", "C5", "C6", "C7"})  # fmt: skip
        assert {one.language for one in spanish} == {"es"}


def test_exact_ones_come_first_and_owners_of_the_name_before_others(normalizer):
    found = normalizer.normalize("cold", top=9, threshold=0, stages=AS_WRITTEN)
    exact = [(one.concept, one.term) for one in found if one.stage == "exact"]
    named = [
        concept for concept in normalizer.kg.find("cold")
        if normalizer.kg.preferred(concept).lower() == "cold"
    ]  # fmt: skip
    assert [concept for concept, _ in exact[: len(named)]] == named
    assert {"C900", "C901", "C902"} <= {concept for concept, _ in exact}
    assert [one.stage for one in found] == ["exact"] * len(exact) + ["dense"] * (9 - len(exact))
    assert all((one.score, one.similarity) == (1.0, 1.0) for one in found[: len(exact)])
    assert ("C901", "cold") in exact
    assert ("C902", "COLD") in exact
    assert [one.confidence for one in found] == sorted(
        (one.confidence for one in found), reverse=True
    )


def test_a_concept_without_a_vector_is_found_by_its_name_alone(normalizer):
    answer = normalizer.normalize("Heart attack, initial", threshold=0, top=50)
    assert (answer[0].concept, answer[0].stage, answer[0].cosine) == ("C903", "exact", None)
    answer = normalizer.normalize("heart attack initially", threshold=0, top=50)
    assert "C903" not in {one.concept for one in answer}


def test_terms_of_many_rows(normalizer):
    vectors = normalizer._vectors
    rows = np.random.default_rng(0).permutation(len(vectors))[:100]
    expected = [(place, term) for place, row in enumerate(rows) for term in vectors.terms_of(row)]
    assert len(expected) > len(rows)  # some belong to several terms
    assert list(zip(*(part.tolist() for part in vectors.owners(rows)), strict=True)) == expected
    assert [part.tolist() for part in vectors.owners(rows[:0])] == [[], []]


def test_hidden_terms_do_not_exist(normalizer, bag):
    kg, find = normalizer.kg, normalizer._ranker.find
    embed = bag.encode(["cold"]).__getitem__
    search = Search(top=200, stages=STAGES, fusion=Fusion())
    [whole] = find(["cold"], embed, search)
    one = kg.index("C901")
    own = range(int(kg.terms.first[one]), int(kg.terms.first[one + 1]))
    [name] = [number for number in own if kg.terms.text(number) == "cold"]
    [less] = find(["cold"], embed, search, without=[{name}])
    [found] = [candidate for candidate in less if candidate.concept == one]
    assert (kg.terms.text(found.term), found.stage) == ("Common cold", "dense")
    assert plainly(less, one) == plainly(whole, one)
    [gone] = find(["cold"], embed, search, without=[frozenset(own)])
    assert plainly(gone, one) == plainly(whole, one)
    assert one not in {candidate.concept for candidate in gone}


def plainly(candidates, but_for):
    """Candidates but for one: the first with all that is said of them, of the rest what was found.

    One more of the rest is among the first where one of those is hidden.
    """
    some = [candidate for candidate in candidates if candidate.concept != but_for]
    first, rest = some[: MEASURED - 2], some[MEASURED - 2 :]
    return first, [(one.concept, one.term, one.stage, one.cosine, one.score) for one in rest]


def test_a_word_is_unknown_when_no_row_with_it_is_left(tmp_path, bag, calibration):
    rows = [
        ("C1", "zymotic fever", "en", "MSH", "1", "PT", 0),
        ("C1", "fever", "en", "MSH", "1", "SY", 1),
        ("C2", "zymotic fever", "en", "MSH", "2", "SY", 1),  # the same row
        ("C2", "cold", "en", "MSH", "2", "PT", 0),
        ("C3", "zymotic initial", "en", "MSH", "3", "PT", 0),  # no row
    ]
    build_kg([small_source(rows, flags=[("C3", "extension")])], tmp_path / "z.kg")
    build(KG.open(tmp_path / "z.kg"), bag, tmp_path / "z.index", calibration=calibration)
    normalizer = Normalizer.load(tmp_path / "z.index")
    embed = bag.encode(["zymotic"]).__getitem__
    search = Search(top=5, stages=STAGES, fusion=Fusion())

    def known(hidden):
        [found] = normalizer._ranker.find(["zymotic"], embed, search, without=[hidden])
        [answer] = {one.known for one in found}
        return answer

    texts = [normalizer.kg.terms.text(number) for number in range(5)]
    first, second = (number for number, text in enumerate(texts) if text == "zymotic fever")
    third = texts.index("zymotic initial")
    assert known(())
    assert known({first})  # C2 has it still
    assert known({third})
    assert known({first, third})
    assert not known({first, second})


def test_many_concepts_of_one_name_are_one_name(tmp_path, bag, calibration):
    rows = [(f"C{n:02}", "renal pain", "en", "MSH", str(n), "SY", 1) for n in range(12)]
    rows += [(f"D{n:02}", f"{word} rash", "en", "MSH", str(n), "PT", 0)
             for n, word in enumerate(("heart", "liver", "bone", "blood", "joint"))]  # fmt: skip
    build_kg([small_source(rows)], tmp_path / "t.kg")
    build(KG.open(tmp_path / "t.kg"), bag, tmp_path / "t.index", calibration=calibration)
    normalizer = Normalizer.load(tmp_path / "t.index")
    for query in ("renal pain", "renall pain", "pain of renal rash"):
        few, many = (normalizer.normalize(query, top=top, threshold=0) for top in (1, 17))
        assert few.namesakes == many.namesakes == 12
        assert {one.confidence for one in many[:12]} == {few.confidence}
        assert many[12].confidence != few.confidence


def test_equal_scores_go_by_the_order_of_concepts(tmp_path, bag, calibration):
    rows = [(f"C{n}", "renal pain", "en", "MSH", str(n), "SY", 1) for n in (3, 1, 2, 5, 4)]
    rows += [(f"C{n}", "left rash", "en", "MSH", str(n), "PT", 0) for n in (2, 5, 1, 4, 3)]
    build_kg([small_source(rows)], tmp_path / "t.kg")
    build(KG.open(tmp_path / "t.kg"), bag, tmp_path / "t.index", calibration=calibration)
    normalizer = Normalizer.load(tmp_path / "t.index")
    for query in ("renal pain", "renal pains", "kidney ache"):
        for stages in (STAGES, ("dense",), ("ngram",)):
            found = normalizer.normalize(query, stages=stages, threshold=0)
            if query == "kidney ache" and stages == ("ngram",):
                continue
            assert [one.concept for one in found] == ["C1", "C2", "C3", "C4", "C5"]
            assert {one.term for one in found} == {"renal pain"}
            assert len({one.score for one in found}) == 1
            assert len({one.confidence for one in found}) == 1


def test_of_equal_names_the_concept_goes_first_that_is_called_more_like_it(
    tmp_path, bag, calibration
):
    """They share the name and its confidence; what else they are called decides the order alone."""
    rows = [(f"C{n}", "renal pain", "en", "MSH", str(n), "SY", 1) for n in range(4)]
    names = ("tos", "burn rash", "kidney pain disease", "frio")
    rows += [(f"C{n}", name, "en", "MSH", str(n), "PT", 0) for n, name in enumerate(names)]
    build_kg([small_source(rows)], tmp_path / "t.kg")
    build(KG.open(tmp_path / "t.kg"), bag, tmp_path / "t.index", calibration=calibration)
    normalizer = Normalizer.load(tmp_path / "t.index")
    normalizer._calibrations["dense"] = replace(
        normalizer._calibrations["dense"], weights=weights({"name": 1.0}, {"name": 1.0})
    )
    found = normalizer.normalize("renal pains", stages=["dense"], threshold=0)
    assert found[0].concept == "C2"
    assert len({one.confidence for one in found}) == 1
    assert found.namesakes == 4


@pytest.mark.parametrize(
    "cosine, similarity, known, score",
    [
        (0.8, 0.9, True, 0.8),  # a string of known words: its meaning alone
        (-0.25, 0.9, True, -0.25),
        (0.8, None, False, 0.8),  # one stage
        (None, 0.7, False, 0.7),
        (None, 0.7, True, 0.7),
        (0.0, None, True, 0.0),
        (None, None, True, 0.0),
        (0.8, 0.9, False, (0.8 + 3 * 0.4) / 2.5),  # perhaps misspelt
        (0.8, 0.5, False, 0.8 / 2.5),
        (0.8, 0.2, False, 0.8 / 2.5),  # below the floor, letters take nothing away
        (1.0, 1.0, False, 1.0),
    ],
)
def test_how_scores_are_fused(cosine, similarity, known, score):
    assert Fusion(gain=3.0, floor=0.5).score(cosine, similarity, known=known) == pytest.approx(
        score
    )
    plain = cosine if cosine is not None else similarity or 0.0
    assert Fusion(gain=0.0, floor=0.5).score(cosine, similarity, known=known) == plain


def test_a_slip_counts_as_if_all_letters_were_there():
    fusion = Fusion(gain=3.0, floor=0.5)
    assert fusion.score(0.8, 0.2, known=False, spelt=True) == pytest.approx((0.8 + 1.5) / 2.5)
    assert fusion.score(0.8, 0.2, known=True, spelt=True) == 0.8
    assert fusion.score(0.8, None, known=False, spelt=True) == 0.8


@given(st.text("abc ", max_size=12), st.text("abc ", max_size=12))
@example("abcabcd", "abcabdc")
@example("abcabc", "abcabcd")
@example("abcab", "abcabc")  # the longer one may be slipped, the shorter not
@example("abcab", "abcba")
@example("abcabca", "abcabcb")
@example("abcabcaa", "bacabcab")
def test_slips_equal_plain_loops(one, other):
    for text, meant in ((one, other), (other, one)):
        words, others = text.split(), meant.split()
        assert as_spelt(words, [False] * len(words), others) == but_for_slips(text, meant)
        assert as_spelt(words, [True] * len(words), others) == (words == others)


@pytest.mark.parametrize(
    "one, other",
    [
        ("高血压症", "低血压症"),
        ("右侧疼痛", "左侧疼痛"),
        ("1型", "2型"),
        ("ひだり足", "ひだい足"),
        ("고혈압증", "저혈압증"),
        ("ความดันสูง", "ความดันสุง"),
        ("<100", ">100"),
        ("her2+", "her2"),
        ("cd4+", "cd4"),
        ("10%", "10"),
        ("hart", "heart"),
        ("fevr", "fever"),
        ("jia", "tia"),
    ],
)
def test_what_is_no_slip(one, other):
    assert not as_spelt([one], [False], [other])
    assert as_spelt([one], [False], [one])


def test_letters_of_other_alphabets_slip():
    for one, other in (
        ("ρινική", "ρινικη"),
        ("насмрк", "насморк"),
        ("सिरदर्द", "सिरदर्"),
        ("דלקתית", "דלקתיות"),
    ):
        assert as_spelt([one], [False], [other])


# Filters


def test_masks_equal_plain_loops(many_kg, plain):
    for wanted in FILTERS[1:]:
        concepts = np.ones(len(many_kg), bool)
        if "types" in wanted:
            concepts &= masks.concepts_of_types(many_kg, wanted["types"])
        if "vocabularies" in wanted:
            concepts &= masks.concepts_of_vocabularies(many_kg, wanted["vocabularies"])
        kept = masks.terms_of_concepts(many_kg, concepts)
        if "languages" in wanted:
            kept &= masks.terms_in_languages(many_kg, wanted["languages"])
        assert set(np.flatnonzero(kept).tolist()) == plain.kept(**wanted)
        assert 0 < kept.sum() < len(many_kg.terms)


@pytest.mark.parametrize(
    "wanted, said",
    [
        ({"types": ["Sign or Sympton"]}, "semantic type 'Sign or Sympton' {} 'Sign or Symptom'?"),
        ({"types": "T185"}, "semantic type 'T185' {} 'T184'?"),
        ({"types": ["T047", ""]}, "semantic type '' in this graph: There are: Body Part, Disease"),
        ({"vocabularies": "ICD10"}, "vocabulary 'ICD10' {} 'ICD10CM'?"),
        ({"vocabularies": ["MSH", "RXNORM"]}, "vocabulary 'RXNORM' in this graph: There are: HP, "),
        ({"languages": ["en", "pt-pt"]}, "language 'pt-pt' {} 'pt-br'?"),
        ({"languages": "tlh"}, "language 'tlh' in this graph: There are: en, es, ja, pt-br"),
    ],
)  # fmt: skip
def test_names_that_the_graph_lacks(normalizer, wanted, said):
    message = "no " + said.format("in this graph: did you mean")
    with pytest.raises(UnknownName, match=re.escape(message)):
        normalizer.normalize("cold", **wanted)


def test_names_are_spelt_as_people_do(normalizer):
    def found(**wanted):
        return [one.concept for one in normalizer.normalize("fever", top=50, threshold=0, **wanted)]

    assert found(types="t184") == found(types={"sign OR symptom"}) != found()
    assert found(vocabularies="SNOMED") == found(vocabularies=["SNOMEDCT_US"]) != found()
    assert found(languages="SPA") == found(languages=("es",)) != found()


def test_a_filter_that_nothing_fits(normalizer):
    [own] = normalizer.kg.types_of("C001")  # the one concept that refers to LOINC
    other = next(name for _, name in TYPES if name != own.name)
    for stages in (STAGES, ("exact",), ("dense",), ("ngram",)):
        answer = normalizer.normalize(
            "cold", vocabularies="LOINC", types=other, stages=stages, threshold=0
        )
        assert (answer.matches, answer.rejected, answer.confidence) == ((), (), 0.0)


def test_a_vocabulary_that_is_only_referred_to(normalizer):
    [match] = normalizer.normalize("fever", vocabularies="LOINC", threshold=0)
    assert (match.concept, match.codes) == ("C001", (Code("LNC", "1-8"),))


def test_a_filter_must_name_something(normalizer):
    for name in Filter._fields[:3]:
        with pytest.raises(UsageError, match=f"{name} is empty. Name at least one"):
            normalizer.normalize("cold", **{name: []})


def test_masks_of_the_last_filters_are_kept(many_kg, normalizer):
    filters = Filters(many_kg, normalizer._vectors)
    wanted = [Filter.of(None, None, tags) for tags in ("en", "es", "ja", ["en", "es"], "pt")]
    first = filters.allowed(wanted[0])
    assert filters.allowed(Filter.of(None, None, ["en"])) is first  # an index knows it again
    for one in wanted[1:4]:
        filters.allowed(one)
    assert filters.allowed(wanted[0]) is first
    filters.allowed(wanted[4])
    assert filters.allowed(wanted[0]) is first  # asked for lately
    assert len(filters._masks) == 4
    assert filters.allowed(Filter.of(None, None, None)) is None


# Answers


@pytest.fixture(scope="module")
def answer(normalizer):
    return normalizer.normalize("heart attack", top=4, threshold=0)


def test_an_answer_is_a_sequence_of_matches(answer):
    assert isinstance(answer, Answer)
    assert len(answer) == len(list(answer)) == 4
    assert answer
    assert answer[0] is answer.matches[0]
    assert answer[-1] is list(answer)[3]
    assert tuple(answer[1:3]) == answer.matches[1:3]
    assert list(reversed(answer)) == list(answer)[::-1]
    assert answer[2] in answer
    assert (answer.index(answer[2]), answer.count(answer[2])) == (2, 1)
    assert all(isinstance(one, Match) for one in answer)
    assert answer.confidence == answer[0].confidence
    assert answer.candidates == answer.matches
    with pytest.raises(IndexError):
        answer[4]
    assert hash(answer) == hash(replace(answer))


def test_a_match_says_what_the_graph_says(normalizer):
    kg = normalizer.kg
    for answer in normalizer.normalize_many(QUERIES, top=20, threshold=0):
        for one in answer:
            assert one.name == kg.preferred(one.concept)
            assert one.codes == tuple(kg.codes_of(one.concept))
            entries = [
                (term.text, term.language, term.vocabulary) for term in kg.terms_of(one.concept)
            ]
            assert (one.term, one.language, one.vocabulary) in entries
            assert 0 < one.confidence < 1


def test_codes_are_those_of_the_vocabularies_asked_for(normalizer):
    seen = set()
    for answer in normalizer.normalize_many(
        QUERIES, top=50, threshold=0, vocabularies=["hpo", "MeSH"]
    ):
        for one in answer:
            assert one.codes
            assert {code.vocabulary for code in one.codes} <= {"HP", "MSH"}
            seen |= set(one.codes)
    assert {Code("HP", "HP:9"), Code("MSH", "900")} <= seen


def test_no_match_below_the_threshold(normalizer):
    """The threshold is on the best candidate: the others are shown whatever their confidence."""
    for query in ("cold", *QUERIES):
        every = normalizer.normalize(query, top=5, threshold=0)
        best = every.confidence
        assert (every.rejected, every.threshold) == ((), 0)
        over = normalizer.normalize(query, top=5, threshold=np.nextafter(best, 1))
        assert (over.matches, over.rejected) == ((), every.matches)
        assert (len(over), bool(over), over.confidence) == (0, False, best)
        assert over.candidates == every.matches
        assert normalizer.normalize(query, top=5, threshold=best).matches == every.matches
        own = normalizer.normalize(query, top=5)
        assert own.threshold == normalizer.calibration().threshold
        assert own.candidates == every.matches
        assert bool(own.matches) == (best >= own.threshold)


def test_large_answers_are_made_a_few_at_a_time(many_index, monkeypatch):
    normalizer = Normalizer.load(many_index)
    queries = ["cold", "coold", "renal pain", "", "kidny ache", "kidney " * 90, "x", "fevr cold"]
    at_once = list(normalizer.normalize_many(queries, top=40, threshold=0))
    monkeypatch.setattr(batch, "_PAIRS", 400)
    monkeypatch.setattr(letters, "_AT_ONCE", 1000)
    parted = list(normalizer.normalize_many(queries, top=40, threshold=0))
    for one, other in zip(at_once, parted, strict=True):
        assert [match.concept for match in one] == [match.concept for match in other]
        assert [match.score for match in one] == pytest.approx([match.score for match in other])
        assert one.namesakes == other.namesakes


def test_concepts_of_one_name_are_answered_with_together(many_index):
    """They do not take confidence from each other, whether the name is spelt right or not."""
    normalizer = Normalizer.load(many_index)
    for query, stage in (("pyrexia", "exact"), ("pyrxeia", "slip")):
        found = normalizer.normalize(query, top=99, threshold=0)
        alike = [one for one in found if fold(one.term) == "pyrexia"]
        assert len(alike) > 2
        assert list(found[: len(alike)]) == alike
        assert {one.stage for one in alike} == {stage}
        assert len({one.confidence for one in alike}) == 1
        assert found.namesakes == len(alike) == normalizer.normalize(query, top=1).namesakes
        assert all(one.confidence < alike[0].confidence for one in found[len(alike) :])
        fitted = normalizer._calibrations["dense+ngram"]
        least = alike[0].confidence
        for threshold in (least, least + 1e-6):
            changed = replace(fitted, threshold=threshold)
            normalizer._calibrations["dense+ngram"] = changed
            answer = normalizer.normalize(query)
            assert bool(answer.matches) == (threshold == least)
            assert [one.concept for one in answer.candidates] == [
                one.concept for one in found.matches[:5]
            ]


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\x00\x1f", "\u200b\ufeff", "\u2028"])
def test_nothing_is_asked(normalizer, encoded_texts, text):
    answer = normalizer.normalize(text, threshold=0)
    assert (answer.query, answer.matches, answer.rejected) == (text, (), ())
    assert (answer.confidence, answer.threshold, answer.namesakes) == (0.0, 0, 1)
    assert encoded_texts == []


@pytest.mark.parametrize(
    "text",
    ["xy" * 50_000, "heart " * 20_000, "\ud800 heart", "\x1b[2Jheart", "🤒" * 50 + "fever",
     "심장 かぜ heart", "12345 heart", "-heart", "\u202eheart", "éa" * 3000, "ab\u0301" * 9, "K+"],
    ids=lambda text: ascii(text[:9]),
)  # fmt: skip
def test_any_string_is_answered(normalizer, text):
    [answer] = normalizer.normalize_many([text], threshold=0)
    assert answer.query == text
    assert len(answer) == 5
    assert all(np.isfinite([one.cosine, one.similarity, one.score]).all() for one in answer)


@pytest.mark.parametrize(
    "text",
    ["x" * 100_000, "\ud800", "🤒" * 50, "12345", "-", "---", "é" * 3000, "\u0301", "a\u0301" * 600,
     "%", "\U0010ffff", "5 mg", "Я"],
    ids=lambda text: ascii(text[:9]),
)  # fmt: skip
def test_what_is_no_term_has_no_candidates_and_says_why(normalizer, encoded_texts, text):
    [answer] = normalizer.normalize_many([text], threshold=0)
    assert (answer.query, answer.candidates) == (text, ())
    assert answer.reason.startswith("not a term: ")
    assert answer.as_dict()["reason"] == answer.reason
    assert encoded_texts == []


def test_one_by_one_and_all_at_once_give_the_same(normalizer):
    def rounded(answer):  # sums in another order differ in the last bit
        return answer.as_dict(digits=6), answer.namesakes

    shuffled = random.Random(0).sample(QUERIES, len(QUERIES))
    for wanted in (*FILTERS[:3], {"stages": ("ngram",)}):
        single = {
            text: normalizer.normalize(text, threshold=0, **wanted) for text in ("", " ", *QUERIES)
        }
        for texts in (QUERIES, shuffled, ["", *QUERIES, " ", "", *shuffled]):
            batch = list(normalizer.normalize_many(texts, threshold=0, **wanted))
            assert [one.query for one in batch] == list(texts)
            assert list(map(rounded, batch)) == [rounded(single[text]) for text in texts]
    again = Normalizer.load(normalizer.path)
    assert list(again.normalize_many(QUERIES)) == list(normalizer.normalize_many(QUERIES))


def test_what_a_stage_leaves_out_is_not_told(normalizer, encoded_texts):
    for stages in (("exact",), ("ngram",), ("exact", "ngram"), ["ngram", "exact"], {"exact"}):
        found = normalizer.normalize("cold", stages=stages, threshold=0)
        assert len(found) > 2
        assert {one.cosine for one in found} == {None}
        assert {one.similarity is None for one in found} == {"ngram" not in stages}
        assert {one.stage for one in found} <= set(stages)
    assert encoded_texts == []  # and no model is needed
    for stages in (("dense",), ("exact", "dense")):
        found = normalizer.normalize("cold", stages=stages, threshold=0)
        assert {one.similarity for one in found} == {None}
        assert {one.cosine is None for one in found} == {False}
        assert {one.stage for one in found} == set(stages)
        assert [one.cosine for one in found] == sorted(
            (one.cosine for one in found), reverse=True
        ) or "exact" in stages
    assert normalizer.normalize("no such string", stages=["exact"]).candidates == ()


def test_confidence_in_an_exact_match_does_not_need_the_other_stages(normalizer):
    """Each set of stages has a calibration of its own."""
    names = [("exact",), ("dense",), ("ngram",), ("exact", "dense"), STAGES]
    fitted = [normalizer.calibration(stages) for stages in names]
    assert fitted[1] == fitted[3]
    assert len({one.weights.confidence for one in fitted}) == 4
    kinds = fitted[0].accuracy
    assert kinds["misspelt"] == 0.0  # what this stage alone is asked for and cannot find
    assert kinds["verbatim"] > 0.5
    stored = json.loads((normalizer.path / "calibration.json").read_text())
    assert sorted(stored["stages"]) == ["dense", "dense+ngram", "exact", "ngram"]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"top": 0}, "top must be between 1 and 1000: 0"),
        ({"top": 1001}, "top must be between 1 and 1000: 1001"),
        ({"threshold": 1.5}, "threshold must be between 0 and 1: 1.5"),
        ({"threshold": -0.1}, "threshold must be between 0 and 1: -0.1"),
        ({"threshold": float("nan")}, "threshold must be between 0 and 1: nan"),
        ({"stages": []}, f"no such stages: none. Choose from: {', '.join(STAGES)}"),
        ({"stages": ["dense", "fuzzy"]}, "no such stages: fuzzy"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_read(normalizer, options, said):
    def texts():
        pytest.fail("asked for a string")
        yield

    with pytest.raises(UsageError, match=said):
        normalizer.normalize_many(texts(), **options)


# Many strings


def test_one_string_is_not_taken_for_its_letters(normalizer):
    with pytest.raises(
        UsageError, match=r"takes a list of strings. For a single string, use normalize"
    ):
        normalizer.normalize_many("heart attack")


def zipf(count):
    """Strings as a hospital has them: few, many times."""
    draw = random.Random(1)
    cues = {"acute", "chronic", "severe", "left", "right", "agudo"}  # those are taken off
    names = [f"{one} {other}" for one in WORDS if one not in cues for other in WORDS[:8]]
    return draw.choices(names, [1 / (place + 1) for place in range(len(names))], k=count)


def test_equal_strings_cost_once_and_order_is_kept(normalizer, encoded_texts):
    texts = zipf(3000)
    answers = list(normalizer.normalize_many(texts, top=1, stages=AS_WRITTEN))
    assert [one.query for one in answers] == texts
    new = {text for text in texts if not normalizer.kg.find(text)}  # a name has its vector
    assert len(new) > 100 and new < set(texts)
    assert sorted(text for call in encoded_texts for text in call) == sorted(new)
    assert sum(map(len, encoded_texts)) < 300
    by_text = {text: normalizer.normalize(text, top=1, stages=AS_WRITTEN) for text in set(texts)}
    assert answers == [by_text[text] for text in texts]


def test_strings_that_differ_are_not_taken_for_equal(normalizer):
    texts = ["cold", "Cold", " cold", "cold", "", " "]
    assert [one.query for one in normalizer.normalize_many(texts)] == texts


def test_answers_come_as_they_are_asked_for(normalizer, monkeypatch):
    monkeypatch.setattr("medcoder.normalize.normalizer._BATCH", 10)
    taken = []

    def texts():
        for number in range(10**9):  # more than anyone could wait for
            taken.append(number)
            yield f"fever {number % 7}"

    told = []
    stream = normalizer.normalize_many(texts(), progress=lambda *said: told.append(said))
    assert taken == []
    assert next(stream).query == "fever 0"
    assert len(taken) == 10
    for _ in range(9):
        next(stream)
    assert (len(taken), told) == (10, [])
    next(stream)
    assert len(taken) == 20
    assert told == [("normalising", 10, 10)]


def test_progress_knows_the_total_of_a_sequence(normalizer, monkeypatch):
    monkeypatch.setattr("medcoder.normalize.normalizer._BATCH", 2)
    told = []
    texts = ["cold", "cold", "rash", "tos", "x"]
    list(normalizer.normalize_many(texts, progress=lambda *said: told.append(said)))
    assert told == [("normalising", done, 5) for done in (2, 4, 5)]
    assert list(normalizer.normalize_many([])) == []
