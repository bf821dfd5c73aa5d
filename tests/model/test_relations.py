"""Term-relation-term similarities against loops, form by form."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from medcoder.errors import UnknownName
from medcoder.model import RELATIONS
from support import naive

# For every form its loops; a form without an entry fails below.
ORACLES = {
    "bilinear": naive.bilinear,
    "diagonal": naive.diagonal,
    "low-rank": naive.low_rank,
    "translation": naive.translation,
}
WIDTH, RANK = 6, 3


def initial(name, count, *, width=WIDTH, rank=RANK, scale=0.001, seed=0):
    generator = torch.Generator().manual_seed(seed)
    form = RELATIONS.load(name)()
    return form.initial(count, width, rank=rank, scale=scale, generator=generator)


def random_step(name, *, steps, groups, repeats, seed=0):
    """Rows far from their initial values, heads and tails, in double precision."""
    torch.manual_seed(seed)
    rows = initial(name, steps * groups, scale=0.5, seed=seed).double()
    heads, tails = torch.randn(2, steps, groups * repeats, WIDTH, dtype=torch.float64)
    return rows, heads, tails


def test_every_form_has_loops_to_answer_to():
    assert set(ORACLES) == set(RELATIONS)


def test_an_unknown_form():
    with pytest.raises(UnknownName, match="no relation form is called 'lowrank'; did you mean"):
        RELATIONS.load("lowrank")


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize(("steps", "groups", "repeats"), [(1, 1, 1), (1, 3, 2), (3, 2, 4)])
def test_similarities_equal_the_loops(name, steps, groups, repeats):
    rows, heads, tails = random_step(name, steps=steps, groups=groups, repeats=repeats)
    found = RELATIONS.load(name)().similarity(rows, heads, tails)
    assert found.shape == (steps, groups * repeats, groups * repeats)
    for step in range(steps):
        own = rows[step * groups : (step + 1) * groups].tolist()
        of_heads = [own[head // repeats] for head in range(groups * repeats)]
        expected = ORACLES[name](of_heads, heads[step].tolist(), tails[step].tolist())
        assert found[step].numpy() == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize("name", RELATIONS)
def test_steps_side_by_side_equal_steps_alone(name):
    """Heads and tails as the loss hands them over: parts of one tensor."""
    rows, _, _ = random_step(name, steps=3, groups=2, repeats=4)
    embeddings = torch.randn(3, 20, WIDTH, dtype=torch.float64)
    heads, tails = embeddings[:, :8], embeddings[:, 8:16]
    form = RELATIONS.load(name)()
    together = form.similarity(rows, heads, tails)
    for step in range(3):
        alone = form.similarity(
            rows[2 * step : 2 * step + 2], heads[step : step + 1], tails[step : step + 1]
        )
        assert torch.allclose(together[step], alone[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", RELATIONS)
def test_gradients_equal_differences(name):
    rows, heads, tails = random_step(name, steps=2, groups=2, repeats=2)
    inputs = tuple(tensor.requires_grad_() for tensor in (rows, heads, tails))
    assert torch.autograd.gradcheck(RELATIONS.load(name)().similarity, inputs)


@pytest.mark.parametrize("name", RELATIONS)
def test_a_head_of_zeros_has_finite_gradients(name):
    rows, heads, tails = random_step(name, steps=1, groups=2, repeats=2)
    heads[0, 0] = 0
    inputs = [tensor.requires_grad_() for tensor in (rows, heads, tails)]
    RELATIONS.load(name)().similarity(*inputs).sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in inputs)


def test_translation_at_distance_zero():
    """A head that its relation moves right onto a tail."""
    form = RELATIONS.load("translation")()
    heads = torch.randn(1, 4, WIDTH)
    rows, tails = torch.zeros(2, WIDTH), heads.clone()
    inputs = [tensor.requires_grad_() for tensor in (rows, heads, tails)]
    scores = form.similarity(*inputs)
    assert scores.diagonal(dim1=1, dim2=2).detach().numpy() == pytest.approx(0, abs=2e-3)
    scores.sum().backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in inputs)


def test_translation_of_embeddings_as_large_as_those_of_a_bert():
    """Norms about 28: differences of large squares must not spoil the distance."""
    torch.manual_seed(0)
    rows = torch.randn(2, WIDTH) * 0.1
    heads, tails = normalize(torch.randn(2, 1, 8, WIDTH), dim=3) * 28
    found = RELATIONS.load("translation")().similarity(rows, heads, tails)
    of_heads = rows.repeat_interleave(4, 0).tolist()
    expected = naive.translation(of_heads, heads[0].tolist(), tails[0].tolist())
    assert found[0].numpy() == pytest.approx(np.array(expected), abs=1e-3)


# Initial values


@pytest.mark.parametrize("name", [name for name in RELATIONS if name != "translation"])
def test_relations_start_near_the_identity(name):
    """S_rel starts as S."""
    torch.manual_seed(0)
    heads, tails = torch.randn(2, 2, 12, 32)
    cosines = normalize(heads, dim=2) @ normalize(tails, dim=2).transpose(1, 2)
    form = RELATIONS.load(name)()
    exact = form.similarity(initial(name, 6, width=32, scale=0.0), heads, tails)
    assert torch.allclose(exact, cosines, atol=1e-6)
    near = form.similarity(initial(name, 6, width=32, scale=0.001), heads, tails)
    assert 0 < (near - cosines).abs().max() < 0.02


def test_translation_starts_near_no_move():
    heads, tails = torch.randn(2, 1, 4, WIDTH)
    form = RELATIONS.load("translation")()
    still = form.similarity(initial("translation", 2, scale=0.0), heads, tails)
    assert torch.allclose(still, -torch.cdist(heads, tails), atol=1e-3)
    assert initial("translation", 500, scale=0.1).std().item() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("rank", [1, 4, 16])
def test_the_spread_around_the_identity_is_the_scale(rank):
    """Of the matrix itself, in every form."""
    options = {"width": 32, "rank": rank, "scale": 0.01}
    left, right = initial("low-rank", 40, **options).unbind(1)
    matrices = {
        "bilinear": initial("bilinear", 40, **options) - torch.eye(32),
        "diagonal": initial("diagonal", 1280, **options) - 1,
        "low-rank": left @ right.transpose(1, 2),
    }
    for name, moves in matrices.items():
        assert moves.std().item() == pytest.approx(0.01, rel=0.1), name
        assert moves.mean().item() == pytest.approx(0, abs=0.001), name


SHAPES = {
    "bilinear": (7, WIDTH, WIDTH),
    "diagonal": (7, WIDTH),
    "low-rank": (7, 2, WIDTH, RANK),
    "translation": (7, WIDTH),
}


@pytest.mark.parametrize("name", RELATIONS)
def test_initial_values_depend_on_the_generator_alone(name):
    one = initial(name, 7, seed=3)
    torch.manual_seed(99)
    assert one.shape == SHAPES[name] and one.dtype == torch.float32
    assert torch.equal(one, initial(name, 7, seed=3))
    assert not torch.equal(one, initial(name, 7, seed=4))
