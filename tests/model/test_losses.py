"""Losses against loops written from the formulas, and against pytorch-metric-learning."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import MultiSimilarityLoss
from pytorch_metric_learning.miners import MultiSimilarityMiner
from torch.nn.functional import normalize

from medcoder.errors import UnknownName
from medcoder.model.losses import LOSSES
from medcoder.model.losses.info_nce import info_nce
from medcoder.model.losses.multi_similarity import mine, multi_similarity
from support import naive

# For every loss its loops and settings to try; a loss without an entry fails below.
ORACLES = {
    "multi_similarity": naive.multi_similarity,
    "info_nce": naive.info_nce,
}
OPTIONS = {
    "multi_similarity": [
        {},
        {"alpha": 0.2, "beta": 5.0, "lam": -28.0, "eps": 0.1},
        {"alpha": 1.0, "beta": 10.0, "lam": 0.0, "eps": 0.0},
    ],
    "info_nce": [{}, {"temperature": 1.0}, {"temperature": 0.01}],
}
CASES = [(name, options) for name in LOSSES for options in OPTIONS[name]]
POSITIVE, NEGATIVE, NEITHER = 1, 2, 0
# A coarse grid gives ties, duplicates and pairs that are equal up to the margin.
SCORES = st.sampled_from([-1.0, -0.3, 0.0, 0.4, 0.45, 0.5, 0.55, 0.9, 1.0]) | st.floats(-1, 1)


@st.composite
def problems(draw, values=SCORES):
    """Similarities and labels; a pair may be neither, an anchor may have no pair of a kind."""
    anchors, items = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    size = anchors * items
    kinds = draw(st.lists(st.sampled_from([0, 1, 2]), min_size=size, max_size=size))
    drawn = draw(st.lists(values, min_size=size, max_size=size))
    return problem(
        np.reshape(drawn, (anchors, items)).tolist(), np.reshape(kinds, (anchors, items)).tolist()
    )


def problem(values, kinds):
    scores = torch.tensor(values, dtype=torch.float64)
    kinds = torch.tensor(kinds)
    return scores, kinds == POSITIVE, kinds == NEGATIVE


def random_problem(seed, anchors=8, items=10):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(anchors, items, generator=generator, dtype=torch.float64) * 2 - 1
    kinds = torch.randint(0, 3, scores.shape, generator=generator)
    return scores, kinds == POSITIVE, kinds == NEGATIVE


def lists(*tensors):
    return [tensor.tolist() for tensor in tensors]


# The table


def test_every_loss_has_loops_to_answer_to():
    assert set(ORACLES) == set(OPTIONS) == set(LOSSES)


def test_an_unknown_loss():
    with pytest.raises(UnknownName, match="no loss is called 'infonce'; did you mean 'info_nce'"):
        LOSSES.load("infonce")


@pytest.mark.parametrize(("name", "options"), CASES)
@settings(max_examples=60)
@given(problems())
@example(problem([[0.3, 0.7]], [[POSITIVE, POSITIVE]]))  # no negative
@example(problem([[0.3, 0.7]], [[NEGATIVE, NEGATIVE]]))  # no positive
@example(problem([[0.3, 0.7]], [[NEITHER, NEITHER]]))  # nothing at all
@example(problem([[0.5, 0.5], [0.5, 0.5]], [[POSITIVE, NEGATIVE]] * 2))  # all alike
def test_values_equal_the_loops(name, options, given_problem):
    loss = LOSSES.load(name)(*given_problem, **options)
    assert loss.shape == () and loss.dtype == torch.float64
    expected = ORACLES[name](*lists(*given_problem), **options)
    assert loss.item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("name", "options"), CASES)
@settings(max_examples=40)
@given(problems(st.sampled_from([-1e4, -300.0, -28.0, -1.0, 0.0, 1.0, 28.0, 300.0, 1e4])))
def test_extreme_similarities_do_not_overflow(name, options, given_problem):
    scores, positive, negative = given_problem
    scores = scores.float().requires_grad_()
    loss = LOSSES.load(name)(scores, positive, negative, **options)
    loss.backward()
    expected = ORACLES[name](*lists(*given_problem), **options)
    # A similarity of this size has no finer steps in single precision.
    step = scores.abs().max().item() / options.get("temperature", 0.05) * 1e-7
    assert loss.item() == pytest.approx(expected, rel=1e-5, abs=max(step, 1e-6))
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_similarities_are_computed_in_single(name, options, dtype):
    scores, positive, negative = random_problem(1, 32, 48)
    half = scores.to(dtype).requires_grad_()
    loss = LOSSES.load(name)(half, positive, negative, **options)
    loss.backward()
    assert loss.dtype == torch.float32
    # All that is lost is what rounding the similarities loses.
    expected = ORACLES[name](*lists(half.detach().double(), positive, negative), **options)
    if name == "multi_similarity":  # single precision may fall to the other side of a margin
        assert loss.item() == pytest.approx(expected, rel=1e-3)
    else:
        assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert loss.item() == pytest.approx(
        LOSSES.load(name)(scores, positive, negative, **options).item(), rel=0.05
    )
    assert half.grad.dtype == dtype and torch.isfinite(half.grad).all()


@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_at_its_limits(name):
    scores = torch.tensor([[65504.0, -65504.0, 0.0], [-65504.0, 65504.0, 1.0]], dtype=torch.float16)
    positive = torch.tensor([[True, False, False], [True, False, False]])
    scores.requires_grad_()
    loss = LOSSES.load(name)(scores, positive, ~positive)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(scores.grad).all()


@pytest.mark.parametrize(("name", "options"), CASES)
def test_gradients_equal_differences(name, options):
    loss, checked = LOSSES.load(name), 0
    for seed in range(6):
        scores, positive, negative = random_problem(seed, 5, 7)
        scores += options.get("lam", 0.0)  # where the loss is not flat
        if away_from_margins(scores, positive, negative, options.get("eps", 0.1)):
            inputs = (scores.requires_grad_(), positive, negative)
            assert torch.autograd.gradcheck(partial(loss, **options), inputs)
            checked += 1
    assert checked >= 3


def away_from_margins(scores, positive, negative, eps):
    """Whether no similarity is so near a margin that a small change mines other pairs."""
    least = scores.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
    most = scores.masked_fill(~negative, -torch.inf).amax(1, keepdim=True)
    gaps = torch.cat([(scores - most - eps)[positive], (scores - least + eps)[negative]])
    return bool((gaps[gaps.isfinite()].abs() > 1e-4).all())


@pytest.mark.parametrize("name", LOSSES)
def test_pairs_of_neither_kind_do_not_matter(name):
    scores, positive, negative = random_problem(3)
    loss = LOSSES.load(name)
    changed = torch.where(positive | negative, scores, torch.full_like(scores, 1e6))
    assert loss(changed, positive, negative) == loss(scores, positive, negative)
    scores.requires_grad_()
    loss(scores, positive, negative).backward()
    assert (scores.grad[~(positive | negative)] == 0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_the_order_of_items_and_anchors_does_not_matter(name):
    problem = random_problem(4)
    loss = LOSSES.load(name)
    rows, columns = torch.randperm(8), torch.randperm(10)
    shuffled = [matrix[rows][:, columns] for matrix in problem]
    assert loss(*shuffled).item() == pytest.approx(loss(*problem).item(), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_no_pairs_no_loss_no_gradient(name):
    scores = torch.rand(4, 4, requires_grad=True)
    nothing = torch.zeros(4, 4, dtype=torch.bool)
    loss = LOSSES.load(name)(scores, nothing, nothing)
    loss.backward()
    assert loss.item() == 0
    assert (scores.grad == 0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_descent_pulls_positives_and_pushes_negatives(name):
    scores, positive, negative = random_problem(5)
    scores.requires_grad_()
    LOSSES.load(name)(scores, positive, negative).backward()
    assert (scores.grad[positive] <= 0).all() and (scores.grad[positive] < 0).any()
    assert (scores.grad[negative] >= 0).all() and (scores.grad[negative] > 0).any()


# Multi-Similarity


def test_multi_similarity_by_hand():
    """One anchor: positives 0.2 and 0.9, negatives 0.5, 0.12 and -0.4."""
    scores, positive, negative = problem([[0.2, 0.9, 0.5, 0.12, -0.4]], [[1, 1, 2, 2, 2]])
    # Easy: the positive 0.9, above 0.5 + 0.1; the negative -0.4, below 0.2 - 0.1.
    kept = mine(scores, positive, negative, eps=0.1)
    assert lists(*kept) == [
        [[True, False, False, False, False]],
        [[False, False, True, True, False]],
    ]
    expected = math.log(1 + math.exp(0.6)) / 2 + math.log(1 + 1 + math.exp(-19)) / 50
    assert multi_similarity(scores, positive, negative).item() == pytest.approx(expected, rel=1e-9)


@settings(max_examples=100)
@given(problems(), st.sampled_from([0.0, 0.1, 0.5, 3.0]))
def test_mining_equals_the_loops(given_problem, eps):
    kept = mine(*given_problem, eps=eps)
    for mask, expected in zip(kept, naive.hard_pairs(*lists(*given_problem), eps=eps), strict=True):
        found = [set(np.flatnonzero(row).tolist()) for row in mask.numpy()]
        assert found == expected


def library(embeddings, labels, *others, alpha=2.0, beta=50.0, lam=0.5, eps=0.1):
    miner = MultiSimilarityMiner(epsilon=eps)
    loss = MultiSimilarityLoss(alpha=alpha, beta=beta, base=lam)
    return loss(embeddings, labels, miner(embeddings, labels, *others), *others)


LABELS = {
    "as the paper draws them": [number // 4 for number in range(24)],
    "with lone items": [0, 0, 0, 1, 1, 2, 3, 4, 4, 4, 5, 6],
    "all one": [7] * 6,
    "all lone": list(range(6)),
    "random": np.random.default_rng(0).integers(0, 9, 40).tolist(),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
@pytest.mark.parametrize("options", [{}, {"alpha": 1.0, "beta": 10.0, "lam": 0.2, "eps": 0.4}])
def test_multi_similarity_equals_pytorch_metric_learning(labels, options):
    concepts = torch.tensor(labels)
    generator = torch.Generator().manual_seed(len(labels))
    embeddings = torch.randn(len(labels), 6, generator=generator, dtype=torch.float64)
    embeddings[1] = embeddings[0]  # a term drawn twice
    theirs, ours = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
    expected = library(theirs, concepts, **options)
    units = normalize(ours, dim=1)
    same = concepts[:, None] == concepts
    positive = same & ~torch.eye(len(labels), dtype=torch.bool)
    loss = multi_similarity(units @ units.T, positive, ~same, **options)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6, abs=1e-12)
    expected.backward()
    loss.backward()
    if theirs.grad is not None:
        assert torch.allclose(ours.grad, theirs.grad, rtol=1e-6, atol=1e-9)


def test_relations_equal_pytorch_metric_learning():
    """Heads against tails: anchors and items are not the same things, and i with i is a pair."""
    generator = torch.Generator().manual_seed(2)
    heads, tails = torch.randn(2, 16, 6, generator=generator, dtype=torch.float64)
    concepts = torch.arange(16) // 3
    expected = library(heads, concepts, tails, concepts.clone())  # else it drops i with i
    scores = normalize(heads, dim=1) @ normalize(tails, dim=1).T
    same = concepts[:, None] == concepts
    assert multi_similarity(scores, same, ~same).item() == pytest.approx(expected.item(), rel=1e-6)


def test_lambda_of_either_sign_in_the_translation_ablation():
    """With scores about -28, lambda -28 centres the loss and 28 does not."""
    scores, positive, negative = random_problem(6)
    scores = scores - 28
    for lam in (-28.0, 28.0):
        options = {"alpha": 0.2, "beta": 5.0, "lam": lam, "eps": 0.1}
        expected = naive.multi_similarity(*lists(scores, positive, negative), **options)
        assert multi_similarity(scores, positive, negative, **options).item() == pytest.approx(
            expected, rel=1e-9
        )
    scores.requires_grad_()
    multi_similarity(scores, positive, negative, alpha=0.2, beta=5.0, lam=28.0).backward()
    assert (
        scores.grad[negative].abs().max() < 1e-100
    )  # beta (scores - 28) is about -280: nothing pushes


# InfoNCE


def test_info_nce_by_hand():
    scores, positive, negative = problem([[0.6, 0.2, 0.1]], [[1, 2, 2]])
    loss = info_nce(scores, positive, negative, temperature=0.1)
    expected = -math.log(math.exp(6) / (math.exp(6) + math.exp(2) + math.exp(1)))
    assert loss.item() == pytest.approx(expected, rel=1e-9)


def test_info_nce_is_cross_entropy_when_each_anchor_has_one_positive():
    scores = torch.rand(6, 6, dtype=torch.float64)
    own = torch.eye(6, dtype=torch.bool)
    expected = torch.nn.functional.cross_entropy(scores / 0.05, torch.arange(6))
    assert info_nce(scores, own, ~own).item() == pytest.approx(expected.item(), rel=1e-9)
