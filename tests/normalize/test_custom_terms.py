"""Terms of a user's own beside an index."""

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from string import ascii_letters, digits

import pytest

from medcoder import Normalizer
from medcoder.errors import DiskFull, UsageError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.normalize.batch import Fusion
from medcoder.normalize.build import build
from medcoder.normalize.custom_terms import (
    CustomTerm,
    add_terms,
    custom_terms_file,
    read_terms,
    remove_terms,
)
from medcoder.normalize.stages import STAGES
from support.bag import write_bag
from support.many import TYPES, WORDS, many_terms, small_source
from support.terminal import left_in

AS_WRITTEN = [name for name in STAGES if name != "abbreviation"]  # cold is one: COLD


@pytest.fixture
def index(many_index, tmp_path):
    """A copy, to be changed and to have terms beside it."""
    path = tmp_path / "many.index"
    shutil.copytree(many_index, path, copy_function=os.link)
    return path


def with_terms(index, *terms):
    add_terms(
        custom_terms_file(index), KG.open(index / "kg"), [CustomTerm(*term) for term in terms]
    )
    return Normalizer.load(index)


def test_terms_added_at_once_are_all_there(index):
    file, kg = custom_terms_file(index), KG.open(index / "kg")
    words = [f"word{n}" for n in range(24)]
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda word: add_terms(file, kg, [CustomTerm(word, "C005")]), words))
    assert counts == [1] * 24
    assert sorted(entry.term for entry in read_terms(file)) == sorted(words)


def test_custom_terms_are_found_by_every_stage(index):
    normalizer = with_terms(index, ("ticker pyrexia", "C005", "en"), ("xyzzy", "C006"))
    for query, stages, stage in (
        ("Ticker  pyrexia!", ("exact",), "exact"),
        ("ticker fever", ("dense",), "dense"),
        ("tickr pyrexia", ("ngram",), "ngram"),
        ("Ticker  pyrexia!", STAGES, "exact"),
        ("tickr pyrexia", STAGES, "dense"),
        ("ticker pyrxeia", ("slip", "ngram"), "slip"),
        ("ticker pyrxeia", STAGES, "slip"),
    ):
        [found] = normalizer.normalize(query, top=1, stages=stages, threshold=0)
        assert (found.concept, found.term, found.vocabulary, found.language, found.stage) == (
            "C005", "ticker pyrexia", "local", "en", stage,
        )  # fmt: skip
        assert found.name == normalizer.kg.preferred("C005")
        assert found.codes == tuple(normalizer.kg.codes_of("C005"))
        assert (found.cosine is None) == ("dense" not in stages)
        assert (found.similarity is None) == ("ngram" not in stages)
    [found] = normalizer.normalize("xyzzy", top=1, threshold=0)
    assert (found.concept, found.language, found.cosine) == ("C006", "", pytest.approx(1, abs=1e-3))


def test_a_custom_term_comes_before_the_graph_and_stands_for_its_concept_once(index):
    normalizer = with_terms(index, ("COLD", "C005"), ("cold", "C901"), ("rash cold", "C005"))
    found = normalizer.normalize("cold", top=50, threshold=0)
    assert [(one.concept, one.vocabulary) for one in found[:2]] == [
        ("C005", "local"),
        ("C901", "local"),
    ]
    assert found[2].vocabulary != "local"
    assert len({one.concept for one in found}) == len(found)
    without = Normalizer.load(index, terms=index / "none.tsv")
    before = without.normalize("cold", top=50, threshold=0, stages=AS_WRITTEN)
    rest = [one.concept for one in before if one.concept not in ("C005", "C901")]
    after = [one.concept for one in found if one.concept not in ("C005", "C901")]
    assert after[:8] == rest[:8]
    assert set(after) == set(rest)


def test_many_custom_terms_do_not_crowd_out_those_that_a_filter_allows(index):
    """A stage gives some thirty of them, and those must be of the allowed ones."""
    kg = KG.open(index / "kg")
    symptom = next(concept for concept in kg if ("T184", TYPES[1][1]) in kg.types_of(concept))
    other = next(concept for concept in kg if kg.types_of(concept) == [TYPES[2]])
    crowd = [(f"grumbly gizzard{'s' * n}", other, "en") for n in range(50)]
    normalizer = with_terms(index, *crowd, ("grumbly gut", symptom, "es"))
    for wanted in ({"types": "T184"}, {"languages": "es"}):
        for stages in (STAGES, ("dense",), ("ngram",)):
            found = normalizer.normalize("grumbly gizzard", stages=stages, threshold=0, **wanted)
            assert "grumbly gut" in [one.term for one in found]
            assert other not in [one.concept for one in found if one.vocabulary == "local"]


def test_all_custom_terms_are_measured_alike(index, bag):
    """One that only its letters bring has a cosine too, and a score made of both."""
    near = [(f"kidney {sign}", f"C{n:03}") for n, sign in enumerate(ascii_letters[:26] + digits)]
    normalizer = with_terms(index, *near, ("renaal", "C050", "ja"), ("KIDNEY---", "C051", "ja"))
    [vector] = bag.encode(["renal"])
    answer = normalizer.normalize("renal", top=100, languages="ja", threshold=0)
    found = {one.term: one for one in answer}  # few of the graph's are, so its own come through
    match = found["renaal"]
    assert match.stage == "ngram"
    [own] = bag.encode(["renaal"])
    assert match.cosine == pytest.approx(float(own @ vector), abs=1e-6)
    assert match.score == pytest.approx(match.cosine)  # every word is known
    exact = normalizer.normalize("kidney", top=1, threshold=0)[0]
    assert (exact.term, exact.stage) == ("KIDNEY---", "exact")
    [one, other] = bag.encode(["kidney", "KIDNEY---"])
    assert exact.cosine == pytest.approx(float(one @ other), abs=1e-6)


def test_a_slip_in_a_custom_term(index):
    normalizer = with_terms(index, ("grumbling gizzard", "C005"))
    normalizer._fusion = fusion = Fusion(gain=2.0, floor=0.5)
    for query, spelt in (("grumbling gizzrad", True), ("grumbling gizzrads", False)):
        [match] = normalizer.normalize(query, top=1, threshold=0)
        assert match.term == "grumbling gizzard"
        parts = match.cosine, match.similarity
        assert match.score == fusion.score(*parts, known=False, spelt=spelt)
        assert match.score != fusion.score(*parts, known=False, spelt=not spelt)


def test_a_slip_has_the_vector_of_its_term(index, encoded_texts):
    normalizer = with_terms(index, ("ticker trouble", "C005"))
    texts = ["Heart attakc", "heart attack", "heart attaque", "tikcer trouble"]
    slip, same, other, custom = normalizer.normalize_many(texts, threshold=0)
    assert encoded_texts == [["ticker trouble"], ["heart attaque"]]
    assert (slip[0].concept, slip[0].cosine) == (same[0].concept, pytest.approx(1, abs=1e-3))
    assert slip[0].score == pytest.approx(1, abs=1e-3)
    near = {one.concept: one.cosine for one in same}
    both = {one.concept: one.cosine for one in slip if one.concept in near}
    assert len(both) > 2
    assert both == {concept: pytest.approx(near[concept], abs=1e-3) for concept in both}
    assert other[0].score < slip[0].score
    assert (custom[0].concept, custom[0].term) == ("C005", "ticker trouble")
    assert custom[0].score == pytest.approx(1)
    # Not without letters, nor without the stage, nor where a filter leaves that term out.
    encoded_texts.clear()
    normalizer.normalize("Heart attakc", stages=["exact", "slip", "dense"])
    normalizer.normalize("Heart attakc", stages=["exact", "dense", "ngram"])
    normalizer.normalize("Heart attakc", languages="es")
    assert encoded_texts == [["Heart attakc"]] * 3


def test_without_the_stage_a_custom_term_has_no_slips(index):
    normalizer = with_terms(index, ("ticker trouble", "C005"))
    slip = normalizer.normalize("tickqer trouble", threshold=0)[0]
    assert (slip.term, slip.stage, slip.cosine) == ("ticker trouble", "slip", pytest.approx(1))
    stages = [name for name in STAGES if name != "slip"]
    other = normalizer.normalize("tickqer trouble", top=50, threshold=0, stages=stages)
    assert "slip" not in {one.stage for one in other}
    [same] = [one for one in other if one.term == "ticker trouble"]
    assert same.cosine < 0.99
    assert same.score < slip.score


def test_words_that_some_term_has_are_no_slips(index):
    normalizer = with_terms(index, ("gizzard blister", "C005"), ("wizard fever", "C006"))
    [found] = normalizer.normalize("gizzard blisetr", top=1, threshold=0)
    assert (found.term, found.cosine) == ("gizzard blister", pytest.approx(1))
    # "attack" is a word of the graph, "attacks" of a language: both are no misspelling.
    normalizer = with_terms(index, ("attacky blister", "C005"))
    for query, slip in (
        ("attakcy blisetr", True), ("attack blisetr", False), ("attacks blisetr", False),
        ("ATTACKT blisetr", False), ("attackt blisetr", True),
    ):  # fmt: skip
        best = {one.term: one for one in normalizer.normalize(query, top=50, threshold=0)}
        cosine = best["attacky blister"].cosine
        assert (cosine == pytest.approx(1)) == slip


def test_a_term_of_ones_own_says_which_of_the_namesakes_is_meant(index):
    plain = Normalizer.load(index).normalize("pyrexia", top=50, threshold=0)
    meant = plain[1].concept
    assert plain.namesakes > 2
    found = with_terms(index, ("pyrexia", meant)).normalize("pyrexia", top=50, threshold=0)
    assert (found[0].concept, found.namesakes) == (meant, 1)
    assert found[0].confidence >= plain[0].confidence  # it is no less sure than the name was


def test_only_new_custom_terms_are_encoded(index, encoded_texts):
    normalizer = with_terms(index, ("ticker trouble", "C005"), ("gizzard", "C006"))
    assert encoded_texts == []  # not before they are needed
    normalizer.normalize("ticker", stages=["ngram"])
    assert encoded_texts == []
    first = normalizer.normalize("ticker", threshold=0)
    assert encoded_texts == [["ticker"], ["ticker trouble", "gizzard"]]
    normalizer.normalize("gizzrad", threshold=0)  # a slip: it has the vector of the term
    assert encoded_texts[2:] == []
    normalizer.normalize("gizzard ache", threshold=0)
    assert encoded_texts[2:] == [["gizzard ache"]]
    encoded_texts.clear()
    with_terms(index, ("xyzzy", "C007"), ("gizzard", "C008")).normalize("ticker")
    assert encoded_texts == [["ticker"], ["xyzzy"]]
    encoded_texts.clear()
    file = custom_terms_file(index)
    assert remove_terms(file, "xyzzy") == 1
    assert remove_terms(file, "GIZZARD!", "C008") == 1
    assert remove_terms(file, "gizzard", "C099") == 0
    again = Normalizer.load(index).normalize("ticker", threshold=0)
    assert encoded_texts == [["ticker"]]
    assert again == first
    assert remove_terms(file, "ticker trouble") == remove_terms(file, "gizzard") == 1
    assert "local" not in {
        one.vocabulary for one in Normalizer.load(index).normalize("ticker", top=99)
    }


def test_kept_vectors_that_cannot_be_used_are_made_again(index, encoded_texts, tmp_path):
    normalizer = with_terms(index, ("ticker trouble", "C005"), ("gizzard", "C006"))
    expected = normalizer.normalize("ticker", threshold=0)
    cache = custom_terms_file(index).with_suffix(".vectors")
    whole = cache.read_bytes()
    for content in (b"", whole[:-7], b"{}", whole.replace(b"gizzard", b"gizz\\nd")):
        cache.write_bytes(content)
        encoded_texts.clear()
        assert Normalizer.load(index).normalize("ticker", threshold=0) == expected
        assert encoded_texts[1:] == [["ticker trouble", "gizzard"]]
        encoded_texts.clear()
        assert Normalizer.load(index).normalize("ticker", threshold=0) == expected
        assert encoded_texts == [["ticker"]]
    cache.unlink()
    cache.mkdir()  # it cannot be written
    assert Normalizer.load(index).normalize("ticker", threshold=0) == expected
    assert [name for name in left_in(tmp_path) if "partial" in name] == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
def test_vectors_that_cannot_be_kept_are_told_of_once_and_used(
    index, tmp_path, monkeypatch, caplog, number
):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with_terms(index, ("ticker trouble", "C005"))
    monkeypatch.setattr(Path, "write_bytes", refuse)
    normalizer = Normalizer.load(index)
    for _ in range(3):
        assert normalizer.normalize("tickr trouble", threshold=0)[0].concept == "C005"
    [told] = caplog.records
    assert (told.levelname, told.name) == ("WARNING", "medcoder.normalize")
    assert os.strerror(number) in told.getMessage()
    assert left_in(tmp_path) == [".many.index.terms.tsv.lock", "many.index", "many.index.terms.tsv"]


def test_others_may_read_the_vectors_that_are_kept(index):
    with_terms(index, ("ticker trouble", "C005")).normalize("ticker", threshold=0)
    table = custom_terms_file(index)
    assert table.with_suffix(".vectors").stat().st_mode == table.stat().st_mode


@pytest.mark.parametrize("change", ["add", "remove"])
def test_terms_that_cannot_be_written_are_refused(index, monkeypatch, change):
    normalizer = with_terms(index, ("ticker trouble", "C005"))
    table = custom_terms_file(index)
    before = table.read_bytes()

    def write(number):
        def refuse(*_, **__):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "write_text", refuse)
        if change == "add":
            add_terms(table, normalizer.kg, [CustomTerm("gizzard", "C006")])
        else:
            remove_terms(table, "ticker trouble")

    with pytest.raises(UsageError, match="your own terms cannot be kept: Read-only file system"):
        write(errno.EROFS)
    with pytest.raises(DiskFull, match=r"terms.tsv: no room left .* Your terms are as they were"):
        write(errno.ENOSPC)
    assert table.read_bytes() == before


def test_a_folder_in_place_of_the_lock_is_said(index):
    table = custom_terms_file(index)
    table.with_name(f".{table.name}.lock").mkdir()
    with pytest.raises(UsageError, match="your own terms cannot be kept: Is a directory"):
        with_terms(index, ("ticker trouble", "C005"))


def test_custom_terms_outlive_their_index_and_their_concept(
    index, bag, many_kg, calibration, tmp_path
):
    with_terms(index, ("ticker trouble", "C005", "en"), ("brr", "C900")).normalize("ticker")
    fewer = [row for row in many_terms() if row[0] != "C900"]
    build_kg([small_source(fewer)], tmp_path / "less.kg")
    build(KG.open(tmp_path / "less.kg"), bag, index, calibration=calibration, overwrite=True)
    less = Normalizer.load(index)
    assert less.custom_terms.lost == [CustomTerm("brr", "C900", "")]
    assert less.normalize("ticker trouble", threshold=0)[0].concept == "C005"
    assert "brr" not in {one.term for one in less.normalize("brr", threshold=0)}
    assert remove_terms(custom_terms_file(index), "ticker trouble") == 1  # the lost one stays
    build(many_kg, bag, index, calibration=calibration, overwrite=True)
    assert read_terms(custom_terms_file(index)) == [CustomTerm("brr", "C900", "")]
    whole = Normalizer.load(index)
    assert whole.custom_terms.lost == []
    assert whole.normalize("brr", threshold=0)[0].concept == "C900"


def test_another_model_makes_vectors_of_custom_terms_again(
    index, many_kg, calibration, tmp_path, encoded_texts
):
    with_terms(index, ("ticker trouble", "C005")).normalize("ticker")
    other = write_bag(tmp_path / "other.onnx", WORDS, seed=9)
    build(many_kg, other, index, calibration=calibration, overwrite=True)
    encoded_texts.clear()
    [found] = Normalizer.load(index).normalize(
        "ticker trouble", stages=["dense"], top=1, threshold=0
    )
    assert encoded_texts == [["ticker trouble"], ["ticker trouble"]]
    assert found.cosine == pytest.approx(1, abs=1e-6)


def test_terms_of_a_concept_that_is_not_there_are_refused(index):
    with_terms(index, ("brr", "C900"))
    before = custom_terms_file(index).read_text()
    for term, said in (
        (("x", "C1"), "term 2, 'x': no such concept in the graph: 'C1'"),
        ((" ", "C900"), "term 2: the term is empty"),
    ):
        with pytest.raises(UsageError, match=said):
            with_terms(index, ("achoo", "C900"), term)
        assert custom_terms_file(index).read_text() == before
