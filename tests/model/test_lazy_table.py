"""Lazy AdamW against torch's, and what it must not touch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medcoder.model.lazy_table import LazyTable

SHAPES = [(5, 4, 4), (5, 4), (5, 2, 4, 3)]


def made(shape=(6, 3), *, slots=6, weight_decay=0.01, dtype=torch.float32, seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=dtype)
    return LazyTable(values, slots=slots, weight_decay=weight_decay, **options)


def copies(table):
    return {name: tensor.clone() for name, tensor in table.state().items()}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weight_decay", [0.0, 0.01, 0.5])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-7), (torch.float64, 1e-13)], ids=str
)
def test_it_is_adamw_when_every_row_is_touched(shape, weight_decay, dtype, tolerance):
    table = made(shape, slots=5, weight_decay=weight_decay, dtype=dtype)
    parameter = torch.nn.Parameter(table.values.clone())
    optimiser = torch.optim.AdamW([parameter], weight_decay=weight_decay)
    generator = torch.Generator().manual_seed(1)
    for update in range(30):
        rate = 1e-2 * (update + 1) / 10 if update < 10 else 1e-2 * (30 - update) / 20
        gradient = torch.randn(shape, generator=generator, dtype=dtype)
        gradient *= 10.0 ** (update % 7 - 3)
        order = torch.randperm(5, generator=generator)  # rows come in any order
        table.add(torch.arange(5), gradient[order])
        table.update(order.tolist(), rate)
        parameter.grad = gradient
        optimiser.param_groups[0]["lr"] = rate
        optimiser.step()
        assert torch.allclose(table.values, parameter, rtol=0, atol=tolerance * (update + 1))
    state = optimiser.state[parameter]
    for found, name in ((table.first, "exp_avg"), (table.second, "exp_avg_sq")):
        size = state[name].abs().max().item()
        assert torch.allclose(found, state[name], rtol=0, atol=10 * tolerance * size), name
    assert table.updates.tolist() == [30] * 5


def test_other_betas_and_eps():
    table = made(betas=(0.5, 0.9), eps=1e-3, dtype=torch.float64)
    parameter = torch.nn.Parameter(table.values.clone())
    optimiser = torch.optim.AdamW([parameter], lr=0.1, betas=(0.5, 0.9), eps=1e-3)
    for seed in range(4):
        torch.manual_seed(seed)
        parameter.grad = torch.randn_like(parameter) * 1e-3
        table.add(torch.arange(6), parameter.grad)
        table.update(list(range(6)), 0.1)
        optimiser.step()
    assert torch.allclose(table.values, parameter, rtol=1e-12)


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 5), max_size=6, unique=True), min_size=1, max_size=6))
def test_each_row_is_adamw_over_the_updates_that_touch_it(touches):
    """A row on its own, with torch's AdamW, and its own count of updates."""
    table = made(dtype=torch.float64)
    rows = [torch.nn.Parameter(row.clone()) for row in table.values]
    optimisers = [torch.optim.AdamW([row], lr=0.1, weight_decay=0.01) for row in rows]
    for turn, touched in enumerate(touches):
        gradient = torch.full((len(touched), 3), turn + 1.0, dtype=torch.float64)
        before = copies(table)
        table.add(torch.arange(len(touched)), gradient)
        table.update(touched, 0.1)
        for number in touched:
            rows[number].grad = torch.full((3,), turn + 1.0, dtype=torch.float64)
            optimisers[number].step()
        others = [number for number in range(6) if number not in touched]
        for name, tensor in table.state().items():
            assert torch.equal(tensor[others], before[name][others]), name
    assert torch.allclose(table.values, torch.stack(list(rows)), rtol=1e-12)
    assert table.updates.tolist() == [sum(n in some for some in touches) for n in range(6)]


def test_untouched_rows_are_the_same_to_the_bit():
    table = made(weight_decay=0.5)
    table.add(torch.arange(6), torch.ones(6, 3))
    table.update(list(range(6)), 0.1)
    before = copies(table)
    for _ in range(3):
        table.add(torch.tensor([0]), torch.ones(1, 3))
        table.update([4], 0.1)
    others = [0, 1, 2, 3, 5]
    for name, tensor in table.state().items():
        assert torch.equal(tensor[others], before[name][others]), name
        assert not torch.equal(tensor[4], before[name][4]), name


def test_repeated_rows_add_their_gradients():
    once, thrice = made(), made()
    gradient = torch.tensor([[1.0, -2.0, 0.5]])
    once.add(torch.tensor([0]), gradient * 3)
    once.update([2], 0.1)
    thrice.add(torch.tensor([0, 0]), gradient.repeat(2, 1))  # twice in one step
    thrice.add(torch.tensor([0]), gradient)  # and in the next
    thrice.update([2], 0.1)
    for name, tensor in once.state().items():
        assert torch.allclose(tensor, thrice.state()[name], rtol=1e-6), name


def test_slots_say_which_gradient_is_whose():
    table, expected = made(weight_decay=0.0), made(weight_decay=0.0)
    gradients = torch.tensor([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [2.0, 0.0, -2.0]])
    table.add(torch.tensor([1, 0, 1]), gradients)  # slot 0: the second; slot 1: the others
    table.update([5, 3], 0.1)
    for row, gradient in ((5, gradients[1]), (3, gradients[0] + gradients[2])):
        # The first update moves by the learning rate against the sign.
        expected.values[row] -= 0.1 * gradient.sign()
        assert torch.allclose(table.first[row], 0.1 * gradient)
    assert torch.allclose(table.values, expected.values, atol=1e-6)


def test_gradients_do_not_outlive_an_update():
    table = made(slots=4)
    table.add(torch.tensor([0, 1, 2, 3]), torch.ones(4, 3))
    assert table.squared_norm().item() == 12
    table.update([0, 1, 2, 3], 0.1)
    assert table.squared_norm().item() == 0
    before = table.first[5].clone()
    table.update([5], 0.1)
    assert torch.equal(table.first[5], before)


def test_there_are_no_more_slots_than_rows():
    assert made((3, 2), slots=128).gradients.shape == (3, 2)
    assert made((300, 2), slots=128).gradients.shape == (128, 2)


@pytest.mark.parametrize("scale", [0.25, torch.tensor(0.25)], ids=["number", "tensor"])
def test_scale_multiplies_the_gradients(scale):
    scaled, plain = made(), made()
    gradient = torch.arange(6.0).reshape(2, 3) - 2
    scaled.add(torch.tensor([0, 1]), gradient)
    scaled.update([1, 4], 0.1, scale)
    plain.add(torch.tensor([0, 1]), gradient * 0.25)
    plain.update([1, 4], 0.1)
    for name, tensor in scaled.state().items():
        assert torch.equal(tensor, plain.state()[name]), name


def test_gathered_rows_carry_a_gradient_of_their_own():
    table = made()
    rows = table.gather(torch.tensor([4, 1, 4]))
    assert torch.equal(rows, table.values[[4, 1, 4]])
    (rows * torch.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert rows.grad[:, 0].tolist() == [1, 2, 3]
    assert not table.values.requires_grad
    with torch.no_grad():
        rows += 1
    assert torch.equal(table.values, made().values)  # they are copies


def test_state_and_load_round_trip():
    one = made()
    for turn in range(3):
        one.add(torch.tensor([0, 1]), torch.full((2, 3), turn + 1.0))
        one.update([turn, 5], 0.1)
    state = copies(one)
    assert set(state) == {"values", "first", "second", "updates"}
    two = made(seed=9)
    two.load(state)
    for table in (one, two):
        table.add(torch.tensor([0, 1]), torch.full((2, 3), 7.0))
        table.update([5, 0], 0.1)
    for name, tensor in one.state().items():
        assert torch.equal(tensor, two.state()[name]), name
    assert not torch.equal(state["values"], two.values)  # loading copies
