"""Vectors of words and of concepts: bags, means, what is not found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.errors import UsageError
from medcoder.evaluate.embeddings import load
from medcoder.evaluate.embeddings.static import Bags, means, unit
from support.vector_files import WORDS, binary, csv, header, text, written


@given(st.lists(st.lists(st.integers(0, 4), max_size=4), max_size=30), st.integers(1, 5))
def test_means_equal_a_loop(bags, block):
    table = np.arange(15, dtype=np.float32).reshape(5, 3) ** 1.5
    members = np.array([member for bag in bags for member in bag], np.int64)
    starts = np.cumsum([0, *map(len, bags)]).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medcoder.evaluate.embeddings.static._BLOCK", block)
        found = means(Bags(table, members, starts))
    expected = [table[bag].mean(0) if bag else np.zeros(3) for bag in bags]
    assert found == pytest.approx(np.array(expected).reshape(-1, 3), rel=1e-5)


def test_unit_rows():
    rows = unit(np.array([[3, 4], [0, 0]], np.float32))
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))


@pytest.fixture
def words(tmp_path):
    return load(f"word:{written(tmp_path, binary(WORDS), 'words.bin')}")


def test_a_term_is_the_mean_of_its_words(words):
    rows, known = words.embed(["heart attack", "Heart of nothing", "nothing", "", "épilepsie"])
    mean = np.array([0.5, 2.5, 3.0])
    assert rows[0] == pytest.approx(mean / np.linalg.norm(mean))
    assert rows[1] == pytest.approx(np.array([1, 2, 2]) / 3)
    assert known.tolist() == [True, True, False, False, True]
    assert not rows[2:4].any()
    assert words.raw(["heart attack"]).rows[0] == pytest.approx(mean)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("HEART", [("HEART", 0)]),  # in lower case
        ("attack", [("attack", 1)]),  # with a capital
        ("copd", [("copd", 2)]),  # in capitals
        ("Crohn's heart,", [("Crohn's", 3), ("heart", 0)]),
        ("type-2 (heart)", [("type", 4), ("2", 5), ("heart", 0)]),  # its parts
        ("heart_attack/heart", [("heart", 0), ("attack", 1), ("heart", 0)]),
        ("non-heart", [("non", -1), ("heart", 0)]),
        ("?!", []),
    ],
)
def test_words_of_a_term(words, term, expected):
    assert words.words(term) == expected


def test_words_out_of_vocabulary(words):
    missing = words.missing(["heart attack", "heart of gold", "", "non-heart"])
    assert missing.tolist() == [False, False, False, True, True, True, False]
    assert len(words.missing([])) == 0


def test_what_is_said_of_word_vectors(words, tmp_path):
    assert (words.name, words.kind) == ("words.bin", "word")
    assert words.settings == {
        "pooling": "mean of words",
        "dimension": 3,
        "vocabulary": 7,
        "form": "word2vec binary",
    }
    changed = written(tmp_path, binary(WORDS | {"heart": [1, 2, 3]}))
    assert load(f"word:{changed}").fingerprint != words.fingerprint


def test_only_words_that_are_needed_are_kept(words):
    bags = words.bags(["heart attack", "nothing", "heart heart"])
    assert bags.table.tolist() == [[1, 2, 2], [0, 3, 4]]
    assert bags.members.tolist() == [0, 1, 0, 0] and bags.starts.tolist() == [0, 2, 2, 4]


CONCEPTS = {"C0018787": [3.0, 4.0], "C0027051": [1.0, 0.0], "C0009443": [0.0, 2.0]}


@pytest.mark.parametrize(
    "content", [csv(CONCEPTS), text(CONCEPTS), header(CONCEPTS) + text(CONCEPTS)]
)
def test_concepts_go_by_their_ids(content, tmp_path):
    embedding = load(f"concept:{written(tmp_path, content)},name=cui2vec")
    ids = ["C0018787", "C0027051|C0009443|C7", "C7", "", "C0027051 | C0009443"]
    rows, known = embedding.embed(["x"] * 5, ids=ids)
    half = np.array([0.5, 1.0]) / np.linalg.norm([0.5, 1.0])
    assert rows == pytest.approx(np.array([[0.6, 0.8], half, [0, 0], [0, 0], half]))
    assert known.tolist() == [True, True, False, False, True]
    assert embedding.raw(["x"], ids=ids[:1]).rows.tolist() == [[3, 4]]
    assert (embedding.name, embedding.kind) == ("cui2vec", "concept")
    assert embedding.settings["vocabulary"] == 3 and embedding.settings["dimension"] == 2


def test_free_text_has_no_concept_vector(tmp_path):
    embedding = load(f"concept:{written(tmp_path, csv(CONCEPTS))}")
    rows, known = embedding.embed(["C0018787", "heart"])
    assert not known.any() and not rows.any() and rows.shape == (2, 2)
    with pytest.raises(UsageError, match="1 ids of 2 terms"):
        embedding.embed(["a", "b"], ids=["C0018787"])
