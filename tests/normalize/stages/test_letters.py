"""Trigrams against plain loops written from the docstring."""

import math
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from medcoder.normalize.stages import letters as module
from medcoder.normalize.stages.letters import Grams, build_grams, grams
from medcoder.text import fold
from support.plain import Trigrams, trigrams

CLOSE = 1e-6  # float32

# Few letters of each script, so that strings share some.
_SCRIPTS = (
    "ab é-",
    "AaBb'",
    "αάβ",
    "где ",
    "心臓病",
    "かがぜ",
    "قلب",
    "दिल",
    "👍🏽e",
    "12 %",
    "ﬁfi",
    "\u0301e",
)
TEXT = st.sampled_from(_SCRIPTS).flatmap(lambda letters: st.text(letters, max_size=12)) | st.text(
    max_size=6
)
TEXTS = st.lists(TEXT, min_size=1, max_size=12)


@st.composite
def asked(draw):
    """Some texts and a query, mostly of one script, so that they share trigrams."""
    texts = draw(TEXTS)
    some = st.text(draw(st.sampled_from(_SCRIPTS)), min_size=1, max_size=8)
    texts += draw(st.lists(some, min_size=1, max_size=8))
    near = st.sampled_from(texts).flatmap(lambda text: some.map(lambda more: text[:6] + more))
    return draw(st.permutations(texts)), draw(some | near | TEXT)


def made(texts, folder, *, cut=()):
    """The lists of some texts, given in blocks that end at `cut`."""
    ends = sorted({*(end for end in cut if 0 < end < len(texts)), len(texts)})
    starts = [0, *ends[:-1]]
    blocks = [(a, texts[a:b]) for a, b in zip(starts, ends, strict=True) if a < b]
    build_grams(iter(blocks), len(texts), folder)
    return Grams(folder)


@pytest.fixture
def build(tmp_path):
    return lambda *texts: made(list(texts), tmp_path)


def search(found, query, k, **options):
    [one] = found.search([query], k, **options)
    return one


def no_collisions(*texts):
    """Distinct trigrams may share one of 2^18 buckets, which the loops know nothing of."""
    strings = {gram for text in texts for gram in trigrams(text)}
    assume(len(strings) == len({bucket for text in texts for bucket in grams(text).tolist()}))


def bucket(gram):
    [found] = module._hashed(np.array([ord(letter) for letter in gram])).tolist()
    return found


def check(found, naive, query, k, allowed=None):
    """Rows and similarities are the best that the loops find; equal ones by ascending row."""
    rows, scores = found
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)
    truth = {
        row: score
        for row, score in enumerate(naive.scores(query))
        if score and (allowed is None or allowed[row])
    }
    assert len(rows) == len(set(rows.tolist())) == min(k, len(truth))
    assert scores.tolist() == pytest.approx([truth[row] for row in rows.tolist()], abs=CLOSE)
    assert np.lexsort((rows, -scores)).tolist() == list(range(len(rows)))
    left = {row: truth[row] for row in truth if row not in rows}
    for row, score in left.items():
        assert score <= scores.min() + CLOSE
        later = [one for one in rows.tolist() if one > row]
        assert not any(naive.sets[one] == naive.sets[row] for one in later)


@settings(max_examples=60)
@given(asked(), st.integers(1, 15), st.lists(st.booleans(), min_size=20, max_size=20))
@example((["fever", "FEVER!", "féver", "fewer"], "fever"), 2, [True] * 20)
@example((["a", "b"], ""), 5, [False] * 20)
@example((["x" * 600 + "abc", "x" * 600], "x" * 700), 5, [True] * 20)
def test_search_equals_plain_loops(texts_and_query, k, mask):
    texts, query = texts_and_query
    no_collisions(*texts, query)
    naive = Trigrams(texts)
    allowed = np.array(mask[: len(texts)])
    with tempfile.TemporaryDirectory() as folder:
        found = made(texts, Path(folder))
        check(search(found, query, k), naive, query, k)
        check(search(found, query, k, allowed=allowed), naive, query, k, allowed)
        with mock.patch.object(module, "_DENSE", 0):
            for mask in (None, allowed):
                sparse = search(found, query, k, allowed=mask)
            check(sparse, naive, query, k, allowed)
        assert found.similarity(query, texts).tolist() == pytest.approx(
            naive.scores(query), abs=CLOSE
        )
        every = [query, *texts]
        for text, one in zip(every, found.search(every, k), strict=True):
            check(one, naive, text, k)
        counts = np.array([len(texts) - place % 3 for place in range(len(every))])
        counts[0] = 0
        rows = np.concatenate([np.arange(count)[::-1] for count in counts.tolist()])
        truth = [
            score
            for text, count in zip(every, counts.tolist(), strict=True)
            for score in naive.scores(text)[:count][::-1]
        ]
        similar = found.similarities(every, counts, rows)
        assert similar.tolist() == pytest.approx(truth, abs=CLOSE)


@settings(max_examples=60)
@given(asked(), st.integers(5, 15), st.integers(0, 12))
@example((["abx", "aby", "abz", "abw", "xyz"], "abz"), 5, 2)
@example((["abx", "aby", "abw", "abv", "xyz"], "abz"), 5, 3)  # the rarest list is longer
@example((["abx", "aby", "xyz"], "abxq"), 5, 3)  # two are as long as may be
def test_unread_lists_still_count(texts_and_query, k, budget):
    """Rows are those of the rarest trigrams; their similarities are by all."""
    texts, query = texts_and_query
    no_collisions(*texts, query)
    naive = Trigrams(texts)
    with tempfile.TemporaryDirectory() as folder:
        found = made(texts, Path(folder))
        with mock.patch.object(module, "_BUDGET", budget):
            dense = search(found, query, k)
            with mock.patch.object(module, "_DENSE", 0):
                sparse = search(found, query, k)
    assert [part.tolist() for part in sparse] == [part.tolist() for part in dense]
    # Lists are read from the shortest on, one at least, as long as all of them fit.
    shared = [gram for gram in trigrams(query) if naive.df[gram]]
    shared.sort(key=lambda gram: (naive.df[gram], bucket(gram)))
    sizes = [naive.df[gram] for gram in shared]
    fitting = sum(sum(sizes[: place + 1]) <= budget for place in range(len(sizes)))
    read = set(shared[: max(fitting, 1)])
    check(dense, naive, query, k, [bool(theirs & read) for theirs in naive.sets])


def test_common_lists_are_left_unread(build, monkeypatch):
    texts = [*(f"{a}{b} itis" for a in "bcdfghjk" for b in "aeiou"), "qo itis", "itiz"]
    found = build(*texts)
    full = search(found, "qo itis", 100)
    assert len(full[0]) == len(texts)
    monkeypatch.setattr(module, "_BUDGET", 10)
    rows, scores = search(found, "qo itis", 100)
    assert rows[0] == full[0][0] == texts.index("qo itis")
    assert scores[0] == full[1][0] == pytest.approx(1)
    assert len(rows) < 20  # those that share more than "itis"
    by_row = dict(zip(*(part.tolist() for part in full), strict=True))
    assert scores.tolist() == pytest.approx([by_row[row] for row in rows.tolist()], abs=CLOSE)


@pytest.mark.parametrize("dense", [True, False])
def test_equal_rows_come_in_order_however_many_there_are(build, monkeypatch, dense):
    """A term in hundreds of spellings that fold alike, and a few in between that do not."""
    if not dense:
        monkeypatch.setattr(module, "_DENSE", 0)
    alike = ["Fever" + "!" * number for number in range(300)]
    found = build(*alike[:150], "fever of the heart", *alike[150:])
    rows, scores = search(found, "fever", 7)
    assert rows.tolist() == list(range(7))
    assert scores.tolist() == pytest.approx([1] * 7)
    allowed = np.arange(301) % 2 == 1
    assert search(found, "fevers", 7, allowed=allowed)[0].tolist() == [1, 3, 5, 7, 9, 11, 13]
    assert search(found, "fever", 1000)[0].tolist() == [*range(150), *range(151, 301), 150]


def test_equal_rows_come_in_order_when_lists_are_unread(build, monkeypatch):
    alike = ["Fever" + "!" * number for number in range(300)]
    found = build(*alike, "fewer")
    monkeypatch.setattr(module, "_BUDGET", 350)
    assert search(found, "fever", 7)[0].tolist() == list(range(7))


@settings(max_examples=25)
@given(TEXTS, st.lists(st.integers(1, 11), max_size=3))
def test_blocks_do_not_count(texts, cut):
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        made(texts, Path(one))
        made(texts, Path(other), cut=cut)
        files = [
            {file.name: file.read_bytes() for file in Path(folder).iterdir()}
            for folder in (one, other)
        ]
    words = [files[place].pop("word.count.uint32") for place in (0, 1)]
    assert words[0] == words[1]
    assert files[0] == files[1]
    assert all("scratch" not in name for name in files[0])


def test_similarity(build):
    found = build("cold", "common cold", "heart", "---")
    same, other, none, punctuation = found.similarity(
        "Cold", ["  cold!", "colder", "NIDDM", "---"]
    ).tolist()
    assert same == pytest.approx(1)
    assert 0.4 < other < 0.8
    assert (none, punctuation) == (0, 0)
    assert found.similarity("---", ["---"]).tolist() == pytest.approx([1])
    assert found.similarity("", ["", "cold"]).tolist() == [0, 0]
    assert found.similarity("zzz", ["zzz"]).tolist() == pytest.approx([1])  # no row has them
    assert found.similarity("cold", []).shape == (0,)


def test_only_the_first_letters_of_a_very_long_string_count(build):
    start = "heart " * 86  # 516 letters
    found = build(start + "one", start + "two", "other")
    assert search(found, start + "three", 5)[1].tolist() == pytest.approx([1, 1])
    for letters, same in ((511, False), (512, True)):
        one, other = "ab" * 300, "ab" * 300
        one, other = one[:letters] + "c" * 50, other[:letters] + "d" * 50
        assert (grams(one).tolist() == grams(other).tolist()) == same
    assert len(grams("ab" * 100_000)) == 4


def test_strings_that_are_no_text(build):
    found = build("\ud800", "a", "", "?")
    assert search(found, "\udfff", 5)[0].tolist() == [0, 3]  # a question mark in place of each
    assert search(found, "\U0010ffff\x00", 5)[0].tolist() == []
    assert all(found.known("\ud800"))
    assert not all(found.known("\ud801"))


def test_no_rows(tmp_path):
    build_grams(iter([]), 0, tmp_path)
    found = Grams(tmp_path)
    assert [part.tolist() for part in search(found, "heart", 5)] == [[], []]
    assert not all(found.known("heart"))


# Words


@settings(max_examples=60)
@given(asked(), st.lists(st.integers(0, 19), max_size=8))
def test_known_words_equal_plain_loops(texts_and_query, places):
    texts, query = texts_and_query
    texts = list(dict.fromkeys(texts))  # rows have distinct texts
    hidden = [texts[place] for place in places if place < len(texts)]  # some of them twice
    rows = [text for text in texts if text not in hidden]
    with tempfile.TemporaryDirectory() as folder:
        found = made(texts, Path(folder))
        words = {word for text in rows for word in fold(text).split()}
        assert found.known(query, hidden) == [word in words for word in fold(query).split()]
        for text in texts:
            assert all(found.known(text))
            assert found.known(text, hidden) == [word in words for word in fold(text).split()]


def test_a_word_counts_once_a_row(build):
    found = build("ho ho ho", "ho", "Crohn's disease")
    assert all(found.known("HO", ["ho ho ho"]))
    assert all(found.known("HO", ["ho ho ho", "ho ho ho"]))
    assert not all(found.known("ho", ["ho ho ho", "ho"]))
    assert not all(found.known("ho", iter(["ho ho ho", "ho"])))
    assert all(found.known("crohns"))
    assert not all(found.known("crohn s"))
    assert all(found.known(""))


# Buckets


def test_buckets_are_spread_evenly():
    """As many distinct ones as a random hash gives, within five standard deviations."""
    scripts = ("abcdefghijkl012345", "αβγδεζ心臓病気がぜ", "дежзик")
    strings = {f"{a}{b}{c}" for some in scripts for a in some for b in some for c in some}
    buckets = {bucket for one in strings for bucket in grams(one).tolist()}
    assert 0 <= min(buckets) <= max(buckets) < 1 << 18
    size, count = 1 << 18, len({gram for one in strings for gram in trigrams(one)})
    expected = size * (1 - (1 - 1 / size) ** count)
    deviation = math.sqrt(count**2 / (2 * size))  # collisions are rare: about Poisson
    assert abs(len(buckets) - expected) < 5 * deviation


def test_trigrams_are_distinct_and_sorted():
    found = grams("aaaaaaa")
    assert len(found) == 3  # " aa", "aaa", "aa "
    assert np.all(np.diff(grams("poisoned by eating pufferfish")) > 0)
    assert grams("a").shape == (1,)
    assert grams("").shape == (0,)
    assert grams("Épilepsie!").tolist() == grams("epilepsie").tolist()
    assert set(grams("abc")) != set(grams("cba"))  # the order of letters counts
