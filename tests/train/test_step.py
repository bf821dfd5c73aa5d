"""From batches to the inputs of steps: tokens, slots of relations, shares of processes."""

import numpy as np
import pytest

from medcoder.model.encoder import TransformerEncoder
from medcoder.train.config import OptimiserConfig, RelationConfig, SamplerConfig, TrainConfig
from medcoder.train.objective import Objective, Sources
from medcoder.train.objective.teacher import Teacher
from medcoder.train.sampler import TripletSampler
from medcoder.train.state import new_state
from medcoder.train.step import label, prepare
from medcoder.train.tokens import tokenize_kg
from support import tiny

CONFIG = TrainConfig(
    seed=3,
    log_every=5,
    sampler=SamplerConfig(k=4, m=2, pairs=2),
    relation=RelationConfig(labels="exact"),
    optimiser=OptimiserConfig(accumulation=4),
)


@pytest.fixture(scope="module")
def sampler(toy_kg):
    return TripletSampler(toy_kg, k=4, m=2, pairs=2)


@pytest.fixture(scope="module")
def store(toy_kg, tmp_path_factory):
    out = tmp_path_factory.mktemp("batches") / "tokens"
    tokenizer = tiny.word_pieces(max_length=16)
    return tokenize_kg(toy_kg, tokenizer, out, max_length=16, unknown=1)


def test_updates_follow_each_other(sampler, store):
    ready = list(prepare(sampler, store, CONFIG, range(8, 20)))
    assert [(one.start, one.stop, len(one.inputs)) for one in ready] == [
        (8, 12, 4), (12, 16, 4), (16, 20, 4)
    ]  # fmt: skip
    assert list(prepare(sampler, store, CONFIG, range(8, 8))) == []


def test_inputs_are_those_of_the_batches(sampler, store):
    ready = next(prepare(sampler, store, CONFIG, range(4, 8)))
    for step, inputs in zip(range(4, 8), ready.inputs, strict=True):
        batch = sampler.batch(3, step)
        tokens, lengths = store.gather(batch.terms)
        assert np.array_equal(inputs.tokens, tokens) and np.array_equal(inputs.lengths, lengths)
        assert np.array_equal(inputs.concepts, batch.concepts)
        assert np.array_equal(inputs.relations, batch.relations)
        assert np.array_equal(inputs.related, label(sampler, batch, CONFIG, measure=True)[0])
        assert not inputs.drawn


def test_slots_number_the_relations_that_an_update_touches(sampler, store):
    for ready in prepare(sampler, store, CONFIG, range(40)):
        assert len(set(ready.touched.tolist())) == len(ready.touched)
        for inputs in ready.inputs:
            assert np.array_equal(ready.touched[inputs.slots], inputs.relations)
        all_slots = np.concatenate([inputs.slots for inputs in ready.inputs])
        assert set(all_slots.tolist()) == set(range(len(ready.touched)))


def test_the_share_of_missed_positives_is_measured_when_a_line_is_due(sampler, store):
    tails = TrainConfig(**vars(CONFIG) | {"relation": RelationConfig(labels="tail")})
    kinds = set()
    for ready in prepare(sampler, store, tails, range(40)):
        due = [step for step in range(ready.start, ready.stop) if step % 5 == 0]
        if due:
            _, share = label(sampler, sampler.batch(3, due[-1]), tails, measure=True)
            assert ready.missed == share
        else:
            assert np.isnan(ready.missed)
        kinds.add(bool(due))
    assert kinds == {True, False}


def test_processes_share_the_terms_and_see_all_labels(sampler, store):
    whole = next(prepare(sampler, store, CONFIG, range(4)))
    parts = [
        next(prepare(sampler, store, CONFIG, range(4), rank=rank, processes=3)) for rank in range(3)
    ]
    for step, inputs in enumerate(whole.inputs):
        shares = [part.inputs[step] for part in parts]
        assert [len(share.lengths) for share in shares] == [4, 4, 4]
        assert np.array_equal(np.concatenate([share.tokens for share in shares]), inputs.tokens)
        assert np.array_equal(np.concatenate([share.lengths for share in shares]), inputs.lengths)
        for share in shares:
            for name in ("concepts", "relations", "slots", "related"):
                assert np.array_equal(getattr(share, name), getattr(inputs, name))


def test_teachers_judge_all_terms_of_a_step(sampler, store, toy_kg):
    vectors = np.random.default_rng(0).normal(size=(len(toy_kg.terms), 4))
    speaks = np.arange(len(toy_kg.terms)) % 2 == 0
    teacher = Teacher(weight=2.0, speaks=speaks, vectors=vectors)
    objective = Objective(Sources(CONFIG, toy_kg, teachers=[teacher]))
    options = {"objective": objective, "rank": 1, "processes": 2}
    ready = next(prepare(sampler, store, CONFIG, range(4), **options))
    for step, inputs in enumerate(ready.inputs):
        expected = teacher.judge(sampler.batch(3, step).terms)
        drawn = inputs.drawn["teacher"].arrays
        for found, wanted in zip(drawn.values(), expected, strict=True):
            assert np.array_equal(found, wanted)


@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_rows_of_pieces_have_a_rate_of_their_own(toy_kg, rate):
    encoder = TransformerEncoder(tiny.bert(), tiny.tokenizer())
    config = TrainConfig(optimiser=OptimiserConfig(learning_rate=1e-3, rows_rate=rate))
    groups = new_state(toy_kg, encoder, config).optimiser.param_groups
    rows = encoder.model.embeddings.word_embeddings.weight
    peaks = [one["peak"] for one in groups if any(rows is each for each in one["params"])]
    assert peaks == [rate or 1e-3]
    assert sum(len(one["params"]) for one in groups) == len(list(encoder.parameters()))
