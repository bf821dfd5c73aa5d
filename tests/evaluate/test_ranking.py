"""Ranking a dictionary: against a loop, ties, unknown items, blocks of any size."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from medcoder.evaluate import ranking
from medcoder.evaluate.ranking import (
    Dictionary,
    distinct_texts,
    embed,
    link,
    nearest,
    rank,
    ranks_of_gold,
)
from medcoder.evaluate.results import Ranked, Vectors


class Letters:
    """Counts of the letters a to d; a string without any has no vector."""

    name, kind, fingerprint = "letters", "word", "1"
    settings: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, *, kind="word", as_sparse=False):
        self.kind, self.as_sparse, self.asked = kind, as_sparse, []

    def embed(self, texts, *, ids=None, corpus=None):
        self.asked.append(list(texts))
        counts = np.array([[t.count(x) for x in "abcd"] for t in texts], np.float32).reshape(-1, 4)
        norm = np.linalg.norm(counts, axis=1)
        rows = counts / np.where(norm > 0, norm, 1)[:, None]
        return Vectors(sparse.csr_array(rows) if self.as_sparse else rows, norm > 0)


def naive(embedding, queries, dictionary, k):
    """Best concepts of each query: (rows, scores)."""
    q, t = embedding.embed(queries), embedding.embed(dictionary.terms)
    found = []
    for number in range(len(queries)):
        best = {}
        for row, concept in enumerate(dictionary.concepts):
            if q.known[number] and t.known[row]:
                score = float(np.float32(q.rows[number] @ t.rows[row]))
                if concept not in best or score > best[concept][0] + 1e-6:
                    best[concept] = (score, row)
        order = sorted(best.values(), key=lambda each: (-round(each[0], 5), each[1]))[:k]
        found.append([row for _, row in order] + [-1] * (k - len(order)))
    return found


def random_case(seed, n_queries=30, n_terms=60, n_concepts=20):
    rng = np.random.default_rng(seed)

    def word():
        return "".join(rng.choice(list("abcdx"), size=rng.integers(1, 6)))

    terms = [word() for _ in range(n_terms)]
    concepts = [f"C{number}" for number in rng.integers(0, n_concepts, size=n_terms)]
    return [word() for _ in range(n_queries)], Dictionary(concepts, terms)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cells", [1, 150, 1 << 20])
def test_ranking_is_that_of_a_loop(seed, cells, monkeypatch):
    monkeypatch.setattr(ranking, "_CELLS", cells)
    queries, dictionary = random_case(seed)
    ranked, known = link(Letters(), queries, dictionary, 4)
    expected = naive(Letters(), queries, dictionary, 4)
    scores = np.where(ranked.rows >= 0, ranked.scores, -1)
    assert (np.diff(scores) <= 1e-6).all()  # best first
    for number, query in enumerate(queries):
        # Equal angles may differ in the last bit: concepts and scores count, and rows that tie.
        assert known[number] == any(letter in query for letter in "abcd")
        want = [dictionary.concepts[row] for row in expected[number] if row >= 0]
        got = [dictionary.concepts[row] for row in ranked.rows[number] if row >= 0]
        assert len(got) == len(want) == len(set(got))
        angles = [cosine(query, dictionary.terms[row]) for row in expected[number] if row >= 0]
        assert ranked.scores[number, : len(got)] == pytest.approx(angles, abs=1e-5)


def cosine(left, right):
    rows = Letters().embed([left, right]).rows
    return float(rows[0] @ rows[1])


def test_a_concept_counts_once_by_its_best_term():
    dictionary = Dictionary(["A", "A", "B"], ["ab", "a", "b"])
    ranked, _ = link(Letters(), ["a"], dictionary, 3)
    assert ranked.rows.tolist() == [[1, 2, -1]]
    assert ranked.scores[0].tolist() == [1.0, 0.0, -np.inf]


def test_ties_go_to_the_first_in_the_table():
    dictionary = Dictionary(["B", "A", "B", "C"], ["b", "ab", "ab", "ab"])
    ranked, _ = link(Letters(), ["ab", "ba"], dictionary, 3)
    assert ranked.rows.tolist() == [[1, 2, 3], [1, 2, 3]]
    ranked, _ = link(Letters(), ["ab"], dictionary, 1)  # also where more tie than fit
    assert ranked.rows.tolist() == [[1]]


def test_what_has_no_vector_matches_nothing():
    dictionary = Dictionary(["A", "B"], ["xx", "a"])
    ranked, known = link(Letters(), ["x", "a"], dictionary, 2)
    assert ranked.rows.tolist() == [[-1, -1], [1, -1]]
    assert known.tolist() == [False, True]


def test_in_a_sparse_space_nothing_shared_is_no_match():
    dictionary = Dictionary(["A", "B", "B"], ["a", "b", "bc"])
    ranked, _ = link(Letters(as_sparse=True), ["a", "c"], dictionary, 2)
    assert ranked.rows.tolist() == [[0, -1], [2, -1]]


def test_equal_strings_are_embedded_once():
    embedding = Letters()
    ranked, _ = link(embedding, ["a", "b", "a"], Dictionary(["A", "B"], ["b", "b"]), 1)
    assert embedding.asked == [["b"], ["a", "b"]]
    assert ranked.rows.tolist() == [[0], [0], [0]]


def test_distinct_texts():
    texts, places = distinct_texts(["b", "a", "b"])
    assert (texts, places.tolist()) == (["b", "a"], [0, 1, 0])


def test_embedding_in_pieces_gives_the_same(monkeypatch):
    texts = ["abc", "a", "x", "dd", "ab"]
    whole = Letters(kind="contextual").embed(texts)
    monkeypatch.setattr(ranking, "_TEXTS", 2)
    embedding, steps = Letters(kind="contextual"), []
    pieces = embed(embedding, texts, progress=lambda *step: steps.append(step))
    assert pieces.rows.tolist() == whole.rows.tolist()
    assert pieces.known.tolist() == whole.known.tolist()
    assert [len(piece) for piece in embedding.asked] == [2, 2, 1]
    assert steps == [("embedding", 2, 5), ("embedding", 4, 5), ("embedding", 5, 5)]
    spaces = Letters(kind="lexical")  # a space that is fitted is not fitted piece by piece
    embed(spaces, texts)
    assert len(spaces.asked) == 1


class Backwards:
    """A system that likes the last entries best."""

    name, kind, fingerprint = "backwards", "system", "1"
    settings: dict[str, Any] = {}  # noqa: RUF012

    def link(self, queries, terms, concepts, k):
        rows = np.tile(np.arange(len(terms))[::-1][:k], (len(queries), 1))
        rows[[query == "?" for query in queries]] = -1
        return Ranked(rows, np.where(rows < 0, -np.inf, 1).astype(np.float32))


def test_a_system_ranks_by_itself():
    ranked, known = link(Backwards(), ["a", "?", "a"], Dictionary(["A", "B"], ["a", "b"]), 2)
    assert ranked.rows.tolist() == [[1, 0], [-1, -1], [1, 0]]
    assert known.tolist() == [True, False, True]


def test_where_the_gold_is():
    ranked = Ranked(np.array([[0, 1, 2], [1, -1, -1], [0, 2, -1]]), np.zeros((3, 3), np.float32))
    gold = [frozenset("C"), frozenset("A"), frozenset(["X", "D"])]
    assert ranks_of_gold(ranked, ["A", "B", "C|D"], gold).tolist() == [2, -1, 1]


# Neighbours


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("cells", [1, 64, 1 << 20])
def test_neighbours_are_those_of_a_loop(as_sparse, cells, monkeypatch):
    monkeypatch.setattr(ranking, "_CELLS", cells)
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, size=(25, 3)).astype(np.float32)  # exact, so that ties are ties
    known = np.array([bool(row.any()) for row in rows])
    items, found = nearest(Vectors(sparse.csr_array(rows) if as_sparse else rows, known), 4)
    assert items.tolist() == np.flatnonzero(known).tolist()
    kept = rows[items]
    for number in range(len(kept)):
        others = [other for other in range(len(kept)) if other != number]
        if as_sparse:  # nothing shared is no neighbour
            others = [other for other in others if kept[number] @ kept[other] > 0]
        order = sorted(others, key=lambda other: (-float(kept[number] @ kept[other]), other))
        assert found[number].tolist() == (order[:4] + [-1] * 4)[:4]


def test_fewer_neighbours_than_asked_for():
    vectors = Vectors(np.eye(2, dtype=np.float32), np.array([True, True]))
    assert nearest(vectors, 3)[1].tolist() == [[1, -1, -1], [0, -1, -1]]
    alone = Vectors(np.eye(1, dtype=np.float32), np.array([True]))
    assert nearest(alone, 2)[1].tolist() == [[-1, -1]]


def test_an_empty_dictionary_of_known_terms():
    vectors = Letters().embed(["a"])
    none = Letters().embed(["x"])
    ranked = rank(vectors, none, np.array([0]), ["A"], 2)
    assert ranked.rows.tolist() == [[-1, -1]]
