"""Threads of the library under numpy's products of matrices: one, while the service runs.

The products of a look-up are small. Threads inside them gain nothing where the machine is idle, and
where another process is busy they wait for each other: at 16 strings, three times as long.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np  # noqa: F401  # what is not loaded yet cannot be told
from threadpoolctl import ThreadpoolController


def one_thread() -> Callable[[], None]:
    """Have products of matrices done by one thread each; gives what undoes it.

    Both are for one and the same thread to call: while it lives, others cannot change it.
    """
    libraries = ThreadpoolController()
    wanted = [
        one["filepath"]
        for one in libraries.info()
        # What shares OpenMP with faiss, which searches for many strings at a time, is left to it.
        if one["user_api"] == "blas" and one.get("threading_layer") != "openmp"
    ]
    chosen = libraries.select(filepath=wanted)
    undo: Callable[[], None] = chosen.limit(limits=1).restore_original_limits
    return undo
