"""The list of words, and what is a slip of what."""

import tomllib

import pytest

from medcoder.kg.keys import hash_text
from medcoder.normalize.typos import as_spelt, in_capitals, one_slip
from medcoder.normalize.words import _FOLDER, LOW, Words, bundled_words


@pytest.mark.parametrize(
    ("word", "language"),
    [
        ("drowsy", "en"),
        ("leukemia", "en"),
        ("durchfall", "de"),
        ("micosis", "es"),
        ("koorts", "nl"),
    ],
)
def test_words_of_languages(word, language):
    assert word in bundled_words()
    assert language in bundled_words().languages_of(word)


@pytest.mark.parametrize("word", ["atakc", "leukemja", "hearrt", "qzxv"])
def test_no_words(word):
    assert word not in bundled_words()
    assert not bundled_words().languages_of(word)


def test_the_list_is_sorted_and_whole():
    words = bundled_words()
    assert len(words) > 500_000
    assert (words._hashes[1:] > words._hashes[:-1]).all()
    assert (words._languages > 0).all()


def test_the_manifest_names_every_licence():
    manifest = tomllib.loads((_FOLDER / "manifest.toml").read_text(encoding="utf-8"))
    lists = manifest["list"]
    assert lists and all(entry["licence"] and entry["name"] for entry in lists)
    assert not any(word in str(lists) for word in ("GPL", "ShareAlike", "BY-SA"))


def test_an_own_list():
    import numpy as np

    hashes = np.array(sorted(hash_text(word) & LOW for word in ("ab", "cd")), np.uint32)
    words = Words(hashes, np.array([1, 3], np.uint16))
    assert "ab" in words and "cd" in words and "ef" not in words


@pytest.mark.parametrize(
    ("word", "other"),
    [("jia", "tia"), ("cml", "aml"), ("itp", "ptp"), ("dmd", "tmd"), ("hart", "heart")],
)
def test_short_words_have_no_slip(word, other):
    assert not one_slip(word, other)


def test_words_that_are_right_have_none():
    assert one_slip("drowsy", "dropsy")
    assert not as_spelt(["drowsy"], [True], ["dropsy"])


def test_capitals():
    assert in_capitals("HYPERTENSION and Copd") == {"hypertension"}
