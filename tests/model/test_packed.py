"""Packing, and packed against padded: the same vectors and gradients."""

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from medcoder.model.packed import WINDOW, first_tokens, mean_tokens, pack, supports, unpack
from support import tiny

MODELS = {
    "bert": tiny.bert,
    "roberta": tiny.roberta,
    "distilbert": tiny.distilbert,
    "mpnet": tiny.mpnet,
}
SHORT = [5, 3, 32, 2, 17, 1, 32, 32, 32, 9, 4, 128, 2, 127, 1, 1]
LONG = [3, 130, 5, 260, 129, 1, 64]


def terms_of(lengths, seed=0):
    """Random token ids, no special ones among them."""
    rng = np.random.default_rng(seed)
    return [rng.integers(len(tiny.SPECIAL), len(tiny.VOCABULARY), size) for size in lengths]


def packed_of(terms):
    return pack(np.concatenate(terms), np.array([len(term) for term in terms]))


def padded_of(terms, pad):
    width = max(map(len, terms))
    tokens = torch.full((len(terms), width), pad)
    mask = torch.zeros(len(terms), width, dtype=torch.long)
    for row, term in enumerate(terms):
        tokens[row, : len(term)] = torch.from_numpy(term)
        mask[row, : len(term)] = 1
    return tokens, mask


def padded_pool(model, terms, pooling):
    """What Hugging Face gives for the padded batch with its attention mask."""
    pad = model.config.pad_token_id or 0
    tokens, mask = padded_of(terms, pad)
    hidden = model(input_ids=tokens, attention_mask=mask).last_hidden_state
    if pooling is first_tokens:
        return hidden[:, 0]
    return torch.stack([row[: len(term)].mean(0) for row, term in zip(hidden, terms, strict=True)])


# Packing


@settings(max_examples=100)
@given(st.lists(st.integers(1, 32), min_size=1, max_size=60))
@example([32] * 4)
@example([32] * 9)
@example([1])
@example([31, 32, 32, 32, 2])
def test_pack_and_unpack_round_trip(lengths):
    terms = terms_of(lengths)
    packed = packed_of(terms)
    assert packed.terms == len(terms)
    tokens, real = unpack(packed)
    assert tokens.shape == real.shape == (len(terms), max(lengths))
    assert [row[mask].tolist() for row, mask in zip(tokens, real, strict=True)] == [
        term.tolist() for term in terms
    ]
    assert (tokens[~real] == 0).all()
    wider, real = unpack(packed, width=40, fill=7)
    assert wider.shape == (len(terms), 40) and (wider[~real] == 7).all()
    assert torch.equal(wider[:, : max(lengths)][real[:, : max(lengths)]], tokens[tokens > 0])


@settings(max_examples=100)
@given(st.lists(st.integers(1, 32) | st.integers(100, 260), min_size=1, max_size=60))
def test_no_term_crosses_a_window(lengths):
    packed = packed_of(terms_of(lengths))
    assert packed.window >= max(WINDOW, *lengths) and packed.window % 64 == 0
    # Terms go in order into the window at hand, or else begin the next.
    place, expected = 0, []
    for length in lengths:
        if place % packed.window + length > packed.window:
            place += -place % packed.window
        expected.append(place)
        place += length
    assert packed.starts.tolist() == expected
    assert packed.lengths.tolist() == lengths
    assert len(packed.tokens) == -(-place // packed.window) * packed.window
    owners = [len(lengths)] * len(packed.tokens)
    places = [0] * len(packed.tokens)
    for term, (start, length) in enumerate(zip(expected, lengths, strict=True)):
        assert start // packed.window == (start + length - 1) // packed.window
        owners[start : start + length] = [term] * length
        places[start : start + length] = range(length)
    assert packed.owners.tolist() == owners
    assert packed.positions.tolist() == places


def test_nothing_packs_to_nothing():
    packed = pack(np.zeros(0, np.int32), np.zeros(0, np.int64))
    assert packed.terms == 0
    assert first_tokens(tiny.bert(), packed).shape == (0, 32)
    assert mean_tokens(tiny.bert(), packed).shape == (0, 32)


# Against the padded batch


def test_what_is_supported():
    assert {name: supports(make()) for name, make in MODELS.items()} == {
        "bert": True,
        "roberta": True,
        "distilbert": False,
        "mpnet": True,
    }
    relative = tiny.bert()
    relative.config.position_embedding_type = "relative_key"
    assert not supports(relative)


@pytest.mark.parametrize("lengths", [SHORT, LONG, [1], [128, 129]], ids=len)
@pytest.mark.parametrize("name", MODELS)
def test_vectors_equal_those_of_the_padded_batch(name, lengths):
    model, terms = MODELS[name](), terms_of(lengths)
    for pooling in (first_tokens, mean_tokens):
        with torch.no_grad():
            found = pooling(model, packed_of(terms))
            expected = padded_pool(model, terms, pooling)
        assert found.shape == (len(terms), 32) and found.dtype == torch.float32
        assert torch.allclose(found, expected, rtol=0, atol=1e-5)
        far = torch.cdist(expected, expected) + 9 * torch.eye(len(terms))
        assert far.min() > 0.1  # so that a term in the place of another would be seen


@settings(max_examples=8)
@given(st.lists(st.integers(1, 32), min_size=1, max_size=40), st.integers(0, 9))
def test_any_lengths(lengths, seed):
    model, terms = BERT, terms_of(lengths, seed)
    with torch.no_grad():
        for pooling in (first_tokens, mean_tokens):
            found = pooling(model, packed_of(terms))
            assert torch.allclose(found, padded_pool(model, terms, pooling), rtol=0, atol=1e-5)


BERT = tiny.bert()


@pytest.mark.parametrize("pooling", [first_tokens, mean_tokens])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_equal_those_of_the_padded_batch(name, pooling):
    model, terms = MODELS[name]().train(), terms_of(SHORT)
    weights = torch.randn(len(terms), 32, generator=torch.Generator().manual_seed(0))
    gradients = []
    for vectors in (pooling(model, packed_of(terms)), padded_pool(model, terms, pooling)):
        model.zero_grad()
        (vectors * weights).sum().backward()
        gradients.append(
            {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        )
    ours, theirs = gradients
    assert set(ours) == set(theirs)
    assert len(ours) > 30
    for key, gradient in theirs.items():
        size = gradient.abs().max().item()
        assert torch.allclose(ours[key], gradient, rtol=0, atol=1e-5 * max(size, 1)), key


@pytest.mark.parametrize("make", [tiny.bert, tiny.roberta, tiny.mpnet])
def test_a_term_does_not_see_its_neighbours(make):
    model, terms = make(), terms_of([4, 9, 6])
    with torch.no_grad():
        together = mean_tokens(model, packed_of(terms))
        for row, term in enumerate(terms):
            alone = mean_tokens(model, packed_of([term]))[0]
            assert torch.allclose(together[row], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("make", [tiny.bert, tiny.roberta, tiny.mpnet])
def test_every_dropout_of_the_model_acts_while_training_alone(make):
    model, packed = make(), packed_of(terms_of(SHORT))
    places = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Dropout)]
    assert len(places) == 1 + 2 * 3  # embeddings; of each layer attention and two outputs
    still = mean_tokens(model, packed)
    for place in places:
        model.get_submodule(place).p = 0.5
        model.train()
        drawn = [mean_tokens(model, packed) for _ in range(2)]
        assert (drawn[0] - drawn[1]).abs().mean() > 0.01, place
        assert (drawn[0] - still).abs().mean() > 0.01, place
        model.eval()
        assert torch.equal(mean_tokens(model, packed), still), place
        model.get_submodule(place).p = 0.0
