"""Sorting more keys than fit in memory."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medcoder.kg.build import spill as module
from medcoder.kg.build.spill import SortedRuns

keys = st.integers(0, 12) | st.integers(0, 2**64 - 1)


def sort(folder, blocks, *, capacity=None, block=None):
    """What comes back, block by block, and how many runs there were."""
    with pytest.MonkeyPatch.context() as patch:
        if block:
            patch.setattr(module, "_BLOCK", block)
        runs = SortedRuns(folder, "keys", memory=1 << 20)
        if capacity:
            runs._capacity = capacity
        for part in blocks:
            runs.add(np.array(part, np.uint64))
        files = len(runs._runs)
        found = [part.tolist() for part in runs.ascending()]
    assert not list(folder.glob("keys.*"))
    return found, files


def flat(blocks):
    return [key for block in blocks for key in block]


@given(
    blocks=st.lists(st.lists(keys, max_size=9)),
    capacity=st.integers(1, 5),
    block=st.integers(1, 4),
)
def test_many_runs_are_one_ascending_set(tmp_path_factory, blocks, capacity, block):
    found, _ = sort(tmp_path_factory.getbasetemp(), blocks, capacity=capacity, block=block)
    assert flat(found) == sorted(set(flat(blocks)))


@given(blocks=st.lists(st.lists(keys, max_size=9)), block=st.integers(1, 4))
def test_in_memory_too(tmp_path_factory, blocks, block):
    found, files = sort(tmp_path_factory.getbasetemp(), blocks, block=block)
    assert flat(found) == sorted(set(flat(blocks)))
    assert files == 0


def test_a_thousand_keys_in_two_hundred_runs(tmp_path):
    rng = random.Random(3)
    blocks = [[rng.randrange(700) for _ in range(50)] for _ in range(20)]
    found, files = sort(tmp_path, blocks, capacity=5, block=3)
    assert flat(found) == sorted(set(flat(blocks)))
    assert files == 199  # the last is still in memory


def test_repeats_across_runs_and_blocks_come_once(tmp_path):
    found, files = sort(tmp_path, [[7, 7, 7], [7, 8, 7], [7, 7, 7, 9]], capacity=3, block=1)
    assert (flat(found), files) == ([7, 8, 9], 3)
    found, files = sort(tmp_path, [[7] * 10], block=2)
    assert (flat(found), files) == ([7], 0)


def test_nothing_to_sort(tmp_path):
    for capacity in (None, 2):
        assert flat(sort(tmp_path, [], capacity=capacity)[0]) == []
        assert flat(sort(tmp_path, [[], []], capacity=capacity)[0]) == []


def test_the_memory_setting_decides_when_a_run_is_written(tmp_path):
    runs = SortedRuns(tmp_path, "keys", memory=16 * 2000)
    runs.add(np.arange(2000, dtype=np.uint64))
    assert not list(tmp_path.iterdir())
    runs.add(np.arange(1999, 2001, dtype=np.uint64))
    assert [path.name for path in tmp_path.iterdir()] == ["keys.0.run"]
    assert np.concatenate(list(runs.ascending())).tolist() == list(range(2001))
    assert not list(tmp_path.iterdir())
