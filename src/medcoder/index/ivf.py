"""Millions of rows on a laptop: faiss IVF over bytes, mapped from disk, then rescored.

The rows are put into lists by their nearest of some thousand centroids, a byte for each number.
A query reads the few lists nearest to it; the best of those are scored again from the vectors.

The lists are written without holding them in memory. Their file is what faiss calls packed on-disk
lists: of every list the codes of its rows, then their numbers in ascending order. Files beside it
tell the list of each row and the size of each list.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from medcoder.arrays import open_array, write_array
from medcoder.errors import ArtefactError
from medcoder.index.checksummed import (
    check_bytes,
    check_fits,
    check_walk,
    read_checksummed,
    slack_of,
    unfit,
    write_checksummed,
)
from medcoder.index.clusters import Clusters
from medcoder.index.exact import NOTHING, Filtered, Floats, Mask, Neighbours, checked, settle
from medcoder.index.stored import Stored
from medcoder.vectors import Vectors, widen

Encode = Callable[[int, int], npt.NDArray[np.uint8]]  # codes of the rows from start to stop

_FILE, _FAISS = "ivf.faiss", b"IwSq"
_LISTS, _LIST_OF, _SIZES = "ivf.lists", "row.list", "list.size"
_SORTED = 1 << 19  # rows that are sorted into lists at a time
_NUMBER = 8  # bytes of a row's number
_TRAINED_ON = 48  # rows for each list
_PROBED, _COMPARED = 128, 12_500  # lists read for a query at least, and rows in them
_BREADTH = 256  # of the search for those lists
_OVER = 4  # candidates rescored for each row asked for
_AT_LEAST = 64  # candidates rescored
_BLOCK = 1 << 16  # rows put into lists at a time
_QUERIES = 256  # filtered queries at a time
_EXACT_SHARE, _EXACT_ROWS = 0.02, 50_000  # filters that keep less of either are searched exactly
_MORE = 2  # times the rows of as many lists of mean size: those near a query are larger
_SEED = 1


class _Part(NamedTuple):
    """What a filter allows: all rows, or those of a mask, which faiss takes as a selector."""

    mask: Mask | None
    among: int
    in_list: npt.NDArray[np.int64]  # rows of each list
    selector: Any = None
    bits: npt.NDArray[np.uint8] | None = None  # where the selector looks


class IvfIndex:
    """Inverted lists with 8-bit scalar quantisation."""

    def __init__(self, vectors: Vectors, folder: Path) -> None:
        self._vectors = Stored(vectors)
        self._filtered = Filtered(self._vectors)
        self._last: _Part | None = None
        self._index: Any = read_checksummed(folder / _FILE, _FAISS)
        self._check(folder / _FILE, vectors.width)
        self._lists = open_lists(folder, self._index, len(vectors))
        check_fits(folder / _FILE, self._index, rows=len(vectors), width=vectors.width)
        self._whole = _Part(None, len(vectors), self._lists.sizes)
        self._slack = slack_of(self._index.sq)
        centroids = faiss.downcast_index(faiss.downcast_index(self._index.quantizer).storage)
        self._centroids: Floats = faiss.rev_swig_ptr(
            centroids.get_xb(), self._index.nlist * vectors.width
        ).reshape(-1, vectors.width)

    def _check(self, file: Path, width: int) -> None:
        """Before there are lists: whether the rest is of this width, and leads to a list."""
        index = self._index
        if (index.d, index.code_size, index.by_residual) != (width, width, False):
            raise unfit(file)
        if index.nlist < 1 or index.direct_map.type != faiss.DirectMap.NoMap:
            raise unfit(file)
        check_bytes(file, index.sq, width=width)
        near = faiss.downcast_index(index.quantizer)
        if not isinstance(near, faiss.IndexHNSWFlat):
            raise unfit(file)
        check_walk(file, near, rows=index.nlist, width=width)

    @staticmethod
    def build(vectors: Vectors, folder: Path) -> None:
        """Train on a sample, find the list of every row, then write the lists."""
        stored = Stored(vectors)
        rows, lists = len(vectors), lists_for(len(vectors))
        chosen = np.random.default_rng(_SEED).choice(
            rows, min(lists * _TRAINED_ON, rows), replace=False
        )
        sample = stored.take(np.sort(chosen))
        clusters = Clusters.train(sample, lists)
        index = _empty(clusters.centroids)
        index.train(sample)  # the range of each number; the centroids are there
        del sample
        list_of = np.empty(rows, np.int32)
        for start in range(0, rows, _BLOCK):
            block = widen(stored[start : start + _BLOCK])
            list_of[start : start + _BLOCK] = clusters.nearest(block)

        def encode(start: int, stop: int) -> npt.NDArray[np.uint8]:
            codes = np.empty((stop - start, index.code_size), np.uint8)
            for first in range(start, stop, _BLOCK):
                block = stored[first : min(first + _BLOCK, stop)]
                codes[first - start :][: len(block)] = index.sq.compute_codes(widen(block))
            return codes

        write_lists(folder, list_of, index.nlist, index.code_size, encode)
        write_checksummed(index, folder / _FILE)

    def search(self, queries: Floats, k: int, *, allowed: Mask | None = None) -> Neighbours:
        allowed = checked(self._vectors, queries, allowed)
        part = self._whole
        if allowed is not None:
            part = self._part(allowed)
            if part.among < max(_EXACT_SHARE * len(self._vectors), _EXACT_ROWS):
                return self._filtered.search(queries, k, allowed)
        return settle(
            lambda some, size: self._near(part, some, size),
            self._vectors,
            queries,
            k,
            first=max(k * _OVER, _AT_LEAST),
            among=part.among,
            slack=self._slack,
        )

    def _near(self, part: _Part, queries: Floats, size: int) -> Neighbours:
        """Candidates from the lists nearest to each query."""
        lists: int = self._index.nlist
        rows = max(_COMPARED * part.among // len(self._vectors), _OVER * size)
        probed = min(max(_PROBED, math.ceil(rows * lists / part.among)), lists)
        if part.mask is None and probed < lists:
            parameters = faiss.SearchParametersIVF(nprobe=probed)
            return Neighbours(*self._index.search(queries, size, params=parameters))
        parts = [
            self._near_lists(part, queries[first : first + _QUERIES], size, probed)
            for first in range(0, len(queries), _QUERIES)
        ]
        return Neighbours(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _near_lists(self, part: _Part, queries: Floats, size: int, probed: int) -> Neighbours:
        """No fewer rows are compared than without a filter.

        Those it allows may be in lists far from the query: all in another language, say.
        """
        quota = _MORE * probed * len(self._vectors) / len(self._centroids)
        # By blocks: a single query is no work for threads, which the product of all would wait for.
        blocks = np.split(self._centroids, range(1024, len(self._centroids), 1024))
        farness = -np.concatenate([block @ queries.T for block in blocks]).T  # (q, lists)
        farness[:, part.in_list == 0] = np.inf
        order = np.argsort(farness, axis=1)
        before = np.cumsum(part.in_list[order], axis=1) - part.in_list[order]
        count = np.maximum(np.count_nonzero(before < quota, axis=1), probed)
        count = np.minimum(count, np.count_nonzero(part.in_list))
        lists = np.ascontiguousarray(order[:, : count.max()])
        lists[np.arange(lists.shape[1]) >= count[:, None]] = NOTHING
        near = Neighbours(
            np.empty((len(queries), size), np.float32), np.empty((len(queries), size), np.int64)
        )
        queries = np.ascontiguousarray(queries, np.float32)
        distances = np.zeros(lists.shape, np.float32)
        self._index.search_preassigned_c(
            len(queries),
            faiss.swig_ptr(queries),
            size,
            faiss.swig_ptr(lists),
            faiss.swig_ptr(distances),
            faiss.swig_ptr(near.scores),
            faiss.swig_ptr(near.rows),
            False,
            faiss.SearchParametersIVF(nprobe=lists.shape[1], sel=part.selector),
        )
        return near

    def _part(self, allowed: Mask) -> _Part:
        part = self._last  # another thread may put its own there
        if part is None or part.mask is not allowed:
            in_list = self._lists.allowed(allowed)
            bits = np.packbits(allowed, bitorder="little")
            selector = faiss.IDSelectorBitmap(len(allowed), faiss.swig_ptr(bits))
            part = _Part(allowed, int(in_list.sum()), in_list, selector, bits)
            self._last = part
        return part


def _empty(centroids: Floats) -> Any:
    """An index without rows. The lists nearest to a query are looked up in a graph."""
    count, width = centroids.shape
    quantizer = faiss.IndexHNSWFlat(width, 32, faiss.METRIC_INNER_PRODUCT)
    quantizer.hnsw.efConstruction, quantizer.hnsw.efSearch = 80, _BREADTH
    quantizer.add(centroids)
    index = faiss.IndexIVFScalarQuantizer(
        quantizer,
        width,
        count,
        faiss.ScalarQuantizer.QT_8bit_uniform,
        faiss.METRIC_INNER_PRODUCT,
        False,
    )
    index.own_fields = True
    quantizer.this.disown()
    return index


def lists_for(rows: int) -> int:
    """Number of lists: about eight times the root of the rows, as powers of two go.

    >>> [lists_for(rows) for rows in (10, 100_000, 1_000_000, 15_500_000)]
    [1, 2048, 8192, 32768]
    """
    return max(1, min(1 << round(math.log2(8 * rows**0.5)), rows // 39))


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
        for start in range(0, len(list_of), _SORTED):
            block = list_of[start : start + _SORTED]
            order = np.argsort(block, kind="stable")
            codes, numbers = encode(start, start + len(block))[order], order + start
            taken, firsts = np.unique(block[order], return_index=True)
            for number, first, last in zip(
                taken.tolist(), firsts.tolist(), [*firsts[1:].tolist(), len(block)], strict=True
            ):
                _put(file, codes[first:last], codes_at, number)
                _put(file, numbers[first:last], numbers_at, number)


def _put(file: BinaryIO, array: npt.NDArray[Any], at: npt.NDArray[np.int64], number: int) -> None:
    """Write an array after what its list has already."""
    file.seek(int(at[number]))
    file.write(array.data)
    at[number] += array.nbytes


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
                "it is damaged",
                where=f"{self.path.parent / _LIST_OF}.int32",
                remedy="Copy or build the index again",
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
            "no inverted lists that can be read",
            where=folder,
            values=error,
            remedy="Copy or build the index again",
        ) from error
    fits = len(list_of) == sizes.sum() == rows and len(sizes) == index.nlist and sizes.min() >= 0
    if not fits or size != rows * (index.code_size + _NUMBER):
        raise ArtefactError(
            f"it and the files beside it are not of {rows:,} vectors of {index.code_size} "
            "numbers: they are damaged, or of others",
            where=path,
            remedy="Copy or build the index again",
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
