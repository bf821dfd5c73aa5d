"""Spellings alone: TF-IDF and the same string."""

import math
from collections import Counter

import numpy as np
import pytest

from medcoder.evaluate.embeddings import load


def grams(text):
    """3-grams of words with a space at both ends, counted."""
    return Counter(
        padded[n : n + 3]
        for word in text.lower().split()
        for padded in [f" {word} "]
        for n in range(len(padded) - 2)
    )


def naive_cosine(query, term, corpus):
    def weights(text):
        return {
            gram: count * (math.log((1 + len(corpus)) / (1 + df)) + 1)
            for gram, count in grams(text).items()
            if (df := sum(gram in grams(other) for other in corpus))
        }

    one, other = weights(query), weights(term)
    lengths = (math.hypot(*one.values()), math.hypot(*other.values()))
    return sum(one[gram] * other.get(gram, 0) for gram in one) / (math.prod(lengths) or 1)


def test_tfidf_equals_a_naive_loop():
    corpus = ["Heart attack", "heartburn", "Headache", "attack attack", "cold"]
    queries = ["HEART ATTACKS", "ache", "hart burn", "zzzz", ""]
    embedding = load("lexical:tfidf")
    terms, known = embedding.embed(corpus, corpus=corpus)
    rows, found = embedding.embed(queries, corpus=corpus)
    expected = [[naive_cosine(query, term, corpus) for term in corpus] for query in queries]
    assert (rows @ terms.T).toarray() == pytest.approx(np.array(expected), abs=1e-6)
    assert known.all() and found.tolist() == [True, True, True, False, False]
    assert embedding.name == "char-3-gram TF-IDF"


def test_a_space_is_fitted_again_only_for_another_corpus(monkeypatch):
    embedding = load("lexical:tfidf")
    fitted = []
    fit = embedding._fit
    monkeypatch.setattr(embedding, "_fit", lambda corpus: fitted.append(corpus) or fit(corpus))
    for corpus in (["heart"], ["heart"], ["cold"], None):
        embedding.embed(["fever"], corpus=corpus)
    assert fitted == [["heart"], ["cold"], ["fever"]]


def test_a_corpus_of_nothing_knows_nothing():
    for space in ("tfidf", "exact"):
        rows, known = load(f"lexical:{space}").embed(["heart", "cold"], corpus=[""])
        assert rows.shape[0] == 2 and rows.nnz == 0 and not known.any()


def test_exact_match_knows_only_the_same_folded_string():
    corpus = ["Crohn's disease", "cold", "Cold", "épilepsie"]
    queries = ["crohns  Disease", "COLD", "epilepsie", "colds", ""]
    embedding = load("lexical:exact")
    rows, known = embedding.embed(queries, corpus=corpus)
    cosines = (rows @ embedding.embed(corpus, corpus=corpus).rows.T).toarray()
    assert cosines.tolist() == [
        [1, 0, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert known.tolist() == [True, True, True, False, False]
    assert embedding.name == "exact match"
    assert embedding.fingerprint != load("lexical:tfidf").fingerprint
