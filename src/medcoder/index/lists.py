"""Inverted lists on disk, written without holding them in memory, mapped when searched.

The file is what faiss calls packed on-disk lists: of every list the codes of its rows, then their
numbers in ascending order. Files beside it tell the list of each row and the size of each list.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from medcoder.arrays import open_array, write_array
from medcoder.errors import ArtefactError

Encode = Callable[[int, int], npt.NDArray[np.uint8]]  # codes of the rows from one to another

_LISTS, _LIST_OF, _SIZES = "ivf.lists", "row.list", "list.size"
_BLOCK = 1 << 19  # rows that are sorted into lists at a time
_NUMBER = 8  # bytes of a row's number


def write_lists(
    folder: Path, list_of: npt.NDArray[np.int32], lists: int, code: int, encode: Encode
) -> None:
    """Put the code of every row, of `code` bytes, and its number at their places in its list."""
    sizes = np.bincount(list_of, minlength=lists)
    write_array(folder, _LIST_OF, list_of)
    write_array(folder, _SIZES, sizes)
    codes_at = np.cumsum(sizes * (code + _NUMBER)) - sizes * (code + _NUMBER)
    numbers_at = codes_at + sizes * code
    with (folder / _LISTS).open("wb") as file:
        for start in range(0, len(list_of), _BLOCK):
            block = list_of[start : start + _BLOCK]
            order = np.argsort(block, kind="stable")
            codes, numbers = encode(start, start + len(block))[order], order + start
            taken, firsts = np.unique(block[order], return_index=True)
            for place, first, last in zip(
                taken.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(block)], strict=True
            ):
                _put(file, codes[first:last], codes_at, place)
                _put(file, numbers[first:last], numbers_at, place)


def _put(file: BinaryIO, array: npt.NDArray[Any], at: npt.NDArray[np.int64], place: int) -> None:
    """Write an array where the last one of its list ended."""
    file.seek(int(at[place]))
    file.write(array.data)
    at[place] += array.nbytes


class Lists(NamedTuple):
    """What is known of the lists without reading them."""

    path: Path
    list_of: npt.NDArray[np.int32]  # (rows,)
    sizes: npt.NDArray[np.int64]  # (lists,)

    def allowed(self, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """The number of rows in each list that a mask allows."""
        chosen = self.list_of[mask]
        if chosen.min(initial=0) < 0 or chosen.max(initial=0) >= len(self.sizes):
            raise ArtefactError(
                f"{self.path.parent / _LIST_OF}.int32 is damaged. Copy or build the index again"
            )
        return np.bincount(chosen, minlength=len(self.sizes))


def open_lists(folder: Path, index: Any, rows: int) -> Lists:
    """Let an index without rows search those in `folder`.

    faiss trusts the sizes it is told: a file too short would end the process.
    """
    path = folder / _LISTS
    try:
        list_of: npt.NDArray[np.int32] = open_array(folder, _LIST_OF, "int32")
        sizes: npt.NDArray[np.int64] = open_array(folder, _SIZES, "int64")
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise ArtefactError(
            f"{folder} has no inverted lists that can be read: {error}. "
            "Copy or build the index again"
        ) from error
    fits = len(list_of) == sizes.sum() == rows and len(sizes) == index.nlist and sizes.min() >= 0
    if not fits or size != rows * (index.code_size + _NUMBER):
        raise ArtefactError(
            f"{path} and the files beside it are not of {rows:,} vectors of {index.code_size} "
            "numbers: they are damaged, or of others. Copy or build the index again"
        )
    lists = faiss.OnDiskInvertedLists(index.nlist, index.code_size, os.fspath(path))
    unsigned = sizes.astype(np.uint64)
    lists.set_all_lists_sizes(faiss.swig_ptr(unsigned))
    lists.totsize, lists.read_only = size, True
    lists.prefetch_nthread = 0  # starting threads takes longer than the search of cached pages
    lists.do_mmap()
    index.replace_invlists(lists, True)
    lists.this.disown()  # the index owns them now
    index.ntotal = rows
    return Lists(path, list_of, sizes)
