"""Small training runs give the losses and the vectors that were recorded."""

import copy

import pytest
from record_training import LOSSES, RUNS, VECTORS, answer, differences, prepare, recorded


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("training")
    prepare(path)
    return path


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_it_gave(folder, name):
    found = list(differences(recorded()[name], answer(folder, name)))
    assert not found, "\n".join([f"{name}: {len(found)} differences, the first:", *found[:20]])


def test_runs_differ_from_one_another():
    answers = list(recorded().values())
    assert list(recorded()) == list(RUNS)
    for number, one in enumerate(answers):
        assert all(list(differences(one, other)) for other in answers[number + 1 :])


def test_a_difference_is_seen():
    old = recorded()["bilinear"]
    new = copy.deepcopy(old)
    assert list(differences(old, new)) == []
    new["metrics"][2]["loss"] *= 1 + 2 * LOSSES
    new["model: cold"][3] += 2 * VECTORS
    first, second = differences(old, new)
    assert first.startswith("vector of model: cold: [")
    assert second.startswith("step 3, loss: ")
