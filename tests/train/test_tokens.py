"""The token store: the terms of a graph, tokenised once."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.errors import ArtefactError
from medcoder.kg import KG
from medcoder.kg.build import build_kg
from medcoder.kg.columns import Terms
from medcoder.train.tokens import TokenStore, tokenize_kg
from support import tiny
from support.memory import MemorySource

LENGTH = 8
UNKNOWN = tiny.VOCABULARY.index("[UNK]")
EXTRA = ["heart ache", "", "a very long phrase that is cut", "心臓"]


def made(kg, path, *, tokenizer=None, extra=EXTRA, length=LENGTH, unknown=UNKNOWN, **options):
    tokenizer = tokenizer or tiny.word_pieces(max_length=length)
    return tokenize_kg(
        kg, tokenizer, path, max_length=length, unknown=unknown, extra=extra, **options
    )


def opened(kg, path, *, tokenizer=None, extra=EXTRA, length=LENGTH):
    tokenizer = tokenizer or tiny.word_pieces(max_length=length)
    return TokenStore.open(path, kg=kg, tokenizer=tokenizer, max_length=length, extra=extra)


def texts_of(kg):
    return [term.text for concept in kg for term in kg.terms_of(concept)]


@pytest.fixture(scope="module")
def store(toy_kg, tmp_path_factory):
    return made(toy_kg, tmp_path_factory.mktemp("tokens") / "tokens")


@pytest.fixture(scope="module")
def expected(toy_kg):
    """Ids of every term and extra term, each tokenised by itself."""
    tokenizer = tiny.word_pieces(max_length=LENGTH)
    return [tokenizer.encode(text).ids for text in [*texts_of(toy_kg), *EXTRA]]


def split(ids, lengths):
    assert len(ids) == lengths.sum()
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


def test_every_term_then_the_extra_ones(toy_kg, store, expected):
    assert len(store) == len(expected) == len(toy_kg.terms) + len(EXTRA)
    assert split(*store.gather(np.arange(len(store)))) == expected
    assert max(map(len, expected)) == LENGTH  # some are cut
    assert len(set(map(len, expected))) > 3


@given(st.lists(st.integers(0, 54), min_size=1, max_size=40))
def test_gathering_equals_tokenising(store, expected, terms):
    ids, lengths = store.gather(np.array(terms))
    assert ids.dtype == np.int32
    assert split(ids, lengths) == [expected[term] for term in terms]


def test_terms_with_the_same_tokens_are_alike(store, expected):
    alike = store.alike()
    assert alike.shape == (len(expected),)
    numbers = dict(zip(map(tuple, expected), alike.tolist(), strict=True))
    assert [numbers[tuple(ids)] for ids in expected] == alike.tolist()
    assert len(set(numbers.values())) == len(numbers) < len(expected)


def test_how_terms_come_to_be_alike(toy_kg, tmp_path):
    texts = [
        "Heart",
        "HEART",
        "heart ",
        "heart s",
        "hearts",
        "heart " * 6,
        "heart " * 9,
        "心",
        "臓",
    ]
    store = made(toy_kg, tmp_path / "tokens", extra=texts)
    groups = store.alike()[len(toy_kg.terms) :].tolist()
    assert [groups.index(number) for number in groups] == [0, 0, 0, 3, 4, 5, 5, 7, 7]
    own = list(store.alike()[: len(toy_kg.terms)])
    assert groups[0] == own[texts_of(toy_kg).index("Heart")]


def test_gathering_nothing(store):
    ids, lengths = store.gather(np.zeros(0, np.int64))
    assert len(ids) == len(lengths) == 0


def test_a_store_is_mapped_and_opens_again(toy_kg, tmp_path, expected):
    made(toy_kg, tmp_path / "tokens")
    store = opened(toy_kg, tmp_path / "tokens")
    assert split(*store.gather(np.arange(len(store)))) == expected
    assert not store.ids.flags.writeable and not store.offsets.flags.writeable


def test_tokenising_block_by_block(toy_kg, tmp_path, monkeypatch, store, expected):
    blocks, seen = Terms.blocks, []
    monkeypatch.setattr(Terms, "blocks", lambda self, size: blocks(self, 5))
    again = made(toy_kg, tmp_path / "tokens", progress=lambda *done: seen.append(done))
    assert split(*again.gather(np.arange(len(again)))) == expected
    assert again.unknown == store.unknown
    assert len(seen) > 5
    assert seen[-1] == ("tokenising", len(expected), len(expected))
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})


def test_making_it_again_replaces_it(toy_kg, tmp_path):
    made(toy_kg, tmp_path / "tokens")
    again = made(toy_kg, tmp_path / "tokens", extra=["cold"])
    assert len(again) == len(toy_kg.terms) + 1
    assert len(opened(toy_kg, tmp_path / "tokens", extra=["cold"])) == len(again)
    assert [path.name for path in tmp_path.iterdir()] == ["tokens"]


# Parents


@pytest.fixture(scope="module")
def kept(toy_kg, tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "tokens"
    made(toy_kg, path)
    return path


def test_another_graph(kept, tmp_path):
    build_kg([MemorySource(terms=[("A", "one", "en", "S", "", "PT", 0)])], tmp_path / "kg")
    with pytest.raises(ArtefactError, match=r"tokens: was made from another graph.*Remove it"):
        opened(KG.open(tmp_path / "kg"), kept)


@pytest.mark.parametrize(
    "other",
    [
        {"tokenizer": tiny.word_pieces(tiny.VOCABULARY[:-1], max_length=LENGTH)},
        {"tokenizer": tiny.word_pieces((*tiny.VOCABULARY, "zebra"), max_length=LENGTH)},
        {"tokenizer": tiny.word_pieces(max_length=LENGTH + 1)},
        {"length": LENGTH + 1},
        {"extra": ()},
        {"extra": [*EXTRA, "more"]},
        {"extra": EXTRA[::-1]},
    ],
    ids=["a word less", "a word more", "truncation", "length", "no extra", "more extra", "order"],
)
def test_another_tokenizer_length_or_extra_terms(toy_kg, kept, other):
    assert len(opened(toy_kg, kept))
    with pytest.raises(ArtefactError, match="was made from another graph, tokenizer"):
        opened(toy_kg, kept, **other)


def test_a_damaged_store(toy_kg, tmp_path):
    made(toy_kg, tmp_path / "tokens")
    file = tmp_path / "tokens" / "tokens.int32"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(ArtefactError, match=r"int32: the token store is damaged: it has .* bytes"):
        opened(toy_kg, tmp_path / "tokens")
    with pytest.raises(ArtefactError, match="is not a token store"):
        opened(toy_kg, tmp_path / "nowhere")
    with pytest.raises(ArtefactError, match="is a knowledge graph, not a token store"):
        opened(toy_kg, toy_kg.path)


# Unknown tokens


def test_unknown_tokens_by_language(toy_kg, store, expected):
    tokens, unknown = Counter(), Counter()
    languages = [term.language for concept in toy_kg for term in toy_kg.terms_of(concept)]
    for language, ids in zip(languages, expected, strict=False):  # extra terms do not count
        tokens[language] += len(ids) - 2
        unknown[language] += ids.count(UNKNOWN)
    assert store.unknown == {
        language: [tokens[language], unknown[language]] for language in toy_kg.languages
    }
    rates = {language: bad / all_ for language, (all_, bad) in store.unknown.items()}
    assert rates["ja"] == rates["ko"] == rates["el"] == 1
    assert rates["es"] == rates["de"] == 0  # accents are dropped
    assert 0 < rates["fr"] < 0.5  # the ligature of "cœur"


def test_unknown_tokens_by_hand(tmp_path):
    words = (*tiny.SPECIAL, "heart", "attack")
    terms = [
        ("A", "heart attack", "en", "S", "", "PT", 0),
        ("A", "heart failure", "en", "S", "", "PT", 1),
        ("B", "infarto", "es", "S", "", "PT", 0),
    ]
    build_kg([MemorySource(terms=terms)], tmp_path / "kg")
    kg = KG.open(tmp_path / "kg")
    tokenizer = tiny.word_pieces(words, max_length=LENGTH)
    store = made(kg, tmp_path / "tokens", tokenizer=tokenizer)
    assert store.unknown == {"en": [4, 1], "es": [1, 1]}


def test_a_tokenizer_that_knows_everything(toy_kg, tmp_path):
    store = made(toy_kg, tmp_path / "tokens", unknown=None)
    assert {unknown for _, unknown in store.unknown.values()} == {0}
    assert all(tokens > 0 for tokens, _ in store.unknown.values())
