"""Builds of graphs with next to no memory."""

import contextlib
from collections.abc import Iterator
from importlib import import_module

import pytest

from medcoder.kg.build import numbering, spill
from medcoder.kg.build.pipeline import Build
from medcoder.kg.build.spill import SortedRuns


@contextlib.contextmanager
def scarcity() -> Iterator[dict[str, int]]:
    """Memory for a handful of rows: everything goes through the disk, in many small parts."""

    def two_keys(self: Build, name: str, share: float) -> SortedRuns:
        made = SortedRuns(self.scratch, name, memory=0)
        made._capacity = 2
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("medcoder.kg.build"), "LEAST_MEMORY", 0)
        patch.setattr(Build, "_runs", two_keys)
        patch.setattr(spill, "_BLOCK", 2)
        patch.setattr(numbering, "_BLOCK", 3)
        patch.setattr(numbering, "_WAITING", 2)
        yield {"memory": 1}
