"""Terms that share letters with the query, three at a time, rare ones counting more.

The similarity of two folded strings is the cosine of their sets of trigrams, each weighted by its
inverse document frequency. On disk there is a list of rows for each trigram, four bytes a row, and
the hash of every word with the number of rows that have it: a word that none has may be misspelt.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from medcoder.arrays import check_ascending, check_bounds, check_inside, open_array, write_array
from medcoder.kg.keys import hash_text
from medcoder.normalize.batch import Batch, Pairs, enough
from medcoder.normalize.stages import Measure, Searched
from medcoder.text import fold

_BUCKETS = 1 << 18  # trigrams are told apart by 18 bits of a hash
_FIRST, _ROWS, _NORMS = "gram.first", "gram.rows", "row.norm"
_WORDS, _COUNTS = "word.hash", "word.count"
_BUDGET = 1 << 16  # entries of the lists that a query reads
_LONGEST = 512  # letters of a string that count
_DENSE = 1 << 21  # rows up to which a score for each is cheaper than sorting those read
_HIGH = 0.15  # part of the largest value above which most of what is asked for lies
_AT_ONCE = 1 << 22  # pairs of a trigram and a row that are looked for at a time
_MIX = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], np.uint64)

Buckets = npt.NDArray[np.int64]


class Letters:
    """Finds misspellings. A string of known words is ranked by meaning alone, if it can be."""

    name: ClassVar[str] = "ngram"
    label: ClassVar[str] = "by its letters"
    justification: ClassVar[str] = "semapv:LexicalSimilarityThresholdMatching"
    measure: ClassVar[Measure | None] = "similarity"

    def __init__(self, searched: Searched) -> None:
        self._grams = searched.grams

    def find(self, batch: Batch) -> Pairs:
        mask = batch.search.mask

        def look(queries: npt.NDArray[np.int64], size: int) -> Pairs:
            texts = [batch.texts[position] for position in queries.tolist()]
            return Pairs.joined(queries, self._grams.search(texts, size, allowed=mask))

        asked = batch.unsettled & (~batch.known | (not batch.meaning))
        return enough(look, np.flatnonzero(asked), batch)


def grams(text: str) -> Buckets:
    """Distinct trigrams of a string, with a space before and after, in ascending order."""
    return _trigrams(fold(text))


def _trigrams(folded: str) -> Buckets:
    letters = np.frombuffer(f" {folded[:_LONGEST]} ".encode("utf-32-le", "replace"), "<u4")
    if len(letters) < 3:
        return np.empty(0, np.int64)
    buckets: Buckets = np.unique(_hashed(letters))
    return buckets


def _hashed(letters: npt.NDArray[Any]) -> Buckets:
    wide = letters.astype(np.uint64)
    mixed = wide[:-2] * _MIX[0] + wide[1:-1] * _MIX[1] + wide[2:] * _MIX[2]
    mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    buckets: Buckets = (mixed >> np.uint64(46)).astype(np.int64)
    return buckets


def build_grams(blocks: Iterable[tuple[int, Sequence[str]]], rows: int, folder: Path) -> None:
    """Write the lists of all rows; `blocks` are texts in order with the number of the first."""
    scratch = folder / "gram.scratch"
    counts = np.zeros(_BUCKETS, np.int64)
    lengths: list[npt.NDArray[np.int64]] = []
    words: Counter[str] = Counter()
    with scratch.open("wb") as file:
        for _, texts in blocks:
            folded = [fold(text) for text in texts]
            entries, each = _block(folded)
            for text in folded:
                words.update(set(text.split()))
            counts += np.bincount(entries, minlength=_BUCKETS)
            lengths.append(each)
            entries.astype(np.uint32).tofile(file)
    first = np.zeros(_BUCKETS + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    write_array(folder, _FIRST, first)
    _write_words(words, folder)
    idf = _idf(counts, rows)
    norms: list[npt.NDArray[np.float32]] = []
    target = folder / f"{_ROWS}.uint32"
    target.touch()
    os.truncate(target, 4 * int(first[-1]))
    lists = np.memmap(target, np.uint32, "r+") if first[-1] else np.empty(0, np.uint32)
    cursor, row, offset = first[:-1].copy(), 0, 0
    for each in lengths:
        total = int(each.sum())
        entries = np.fromfile(scratch, np.uint32, total, offset=4 * offset).astype(np.int64)
        owners = np.repeat(np.arange(row, row + len(each)), each)
        order = np.argsort(entries, kind="stable")
        bucket = entries[order]
        starts = np.flatnonzero(np.diff(bucket, prepend=-1))
        sizes = np.diff(starts, append=total)
        rank = np.arange(total) - np.repeat(starts, sizes)
        lists[cursor[bucket] + rank] = owners[order]
        cursor[bucket[starts]] += sizes
        squares = np.bincount(owners - row, idf[entries] ** 2, minlength=len(each))
        norms.append(np.sqrt(squares).astype(np.float32))
        row, offset = row + len(each), offset + total
    write_array(folder, _NORMS, np.concatenate(norms or [np.empty(0, np.float32)]))
    scratch.unlink()


def _write_words(words: Counter[str], folder: Path) -> None:
    hashes = np.array([hash_text(word) for word in words], np.uint64)
    order = np.argsort(hashes)
    write_array(folder, _WORDS, hashes[order])
    write_array(folder, _COUNTS, np.array(list(words.values()), np.uint32)[order])


def _block(folded: Sequence[str]) -> tuple[Buckets, npt.NDArray[np.int64]]:
    """Distinct trigrams of each text in order, and how many each has."""
    each = [_trigrams(text) for text in folded]
    return np.concatenate(each), np.array([len(buckets) for buckets in each], np.int64)


def _idf(counts: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.float64]:
    idf: npt.NDArray[np.float64] = np.log((rows + 1) / (counts + 1)) + 1
    return idf


class Similar(NamedTuple):
    """Rows that are similar to a text, best first."""

    rows: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]


class _Read(NamedTuple):
    """Rows with the weight that they share with a text, and the trigrams that do not count yet."""

    rows: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    unread: Buckets


class Grams:
    """Memory-mapped lists."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = open_array(folder, _FIRST, "int64")
        self._lists = open_array(folder, _ROWS, "uint32")
        self._norms = open_array(folder, _NORMS, "float32")
        lists = folder / f"{_FIRST}.int64"
        check_bounds(lists, self._first, count=_BUCKETS, end=len(self._lists))
        self._divisors = np.where(self._norms > 0, self._norms, np.inf)  # a row without trigrams
        self._words = open_array(folder, _WORDS, "uint64")
        self._word_counts = open_array(folder, _COUNTS, "uint32")
        self._counts = np.diff(self._first)
        check_inside(lists, self._counts, len(self._norms) + 1)  # as many rows as there are
        self._weights = _idf(self._counts, len(self._norms)) ** 2

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._norms)

    def check(self) -> None:
        """Read all of it; an ArtefactError says which file is not as it should be."""
        check_inside(self._folder / f"{_ROWS}.uint32", self._lists, len(self))
        check_ascending(self._folder / f"{_WORDS}.uint64", self._words)
        check_inside(self._folder / f"{_COUNTS}.uint32", self._word_counts, len(self) + 1)

    def search(
        self, texts: Sequence[str], k: int, *, allowed: npt.NDArray[np.bool_] | None = None
    ) -> list[Similar]:
        """Of each text the k most similar rows, best first, equal ones by ascending row.

        Lists of common trigrams are left unread once the rarer ones have given enough to look at;
        they still count in the similarities.
        """
        wanted = [grams(text) for text in texts]
        read = [self._read(some, 4 * k, allowed) for some in wanted]
        counts = np.array([len(part.rows) for part in read], np.int64)
        rows, sums = (
            np.concatenate([np.empty(0, kind), *arrays])
            for kind, arrays in (
                (np.int64, [part.rows for part in read]),
                (np.float64, [part.sums for part in read]),
            )
        )
        sums += self._shared([part.unread for part in read], counts, rows)
        scores = self._cosines(wanted, counts, rows, sums)
        similar, last = [], 0
        for count in counts.tolist():
            some, theirs = rows[last : last + count], scores[last : last + count]
            order = np.lexsort((some, -theirs))[:k]
            similar.append(Similar(some[order], theirs[order]))
            last += count
        return similar

    def similarities(
        self, texts: Sequence[str], counts: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """The similarity of texts with rows: as many of `rows` as `counts` says are for each."""
        wanted = [grams(text) for text in texts]
        return self._cosines(wanted, counts, rows, self._shared(wanted, counts, rows))

    def known(self, text: str, hidden: Iterable[str] = ()) -> list[bool]:
        """Which words of a text, folded, are in some row beside those of the `hidden` texts."""
        gone = Counter(word for other in set(hidden) for word in set(fold(other).split()))
        return [self.rows_with(word) > gone[word] for word in fold(text).split()]

    def rows_with(self, word: str) -> int:
        """How many rows have this word."""
        hashed = np.uint64(hash_text(word))
        position = int(np.searchsorted(self._words, hashed))
        there = position < len(self._words) and self._words[position] == hashed
        return int(self._word_counts[position]) if there else 0

    def similarity(self, text: str, others: Sequence[str]) -> npt.NDArray[np.float32]:
        """The similarity of a text with each of some others."""
        mine = grams(text)
        weights = np.zeros(_BUCKETS)
        weights[mine] = self._weights[mine]
        own = np.sqrt(weights[mine].sum())
        scores = np.zeros(len(others), np.float32)
        for position, other in enumerate(others):
            theirs = grams(other)
            shared = weights[theirs].sum()
            if shared:
                scores[position] = shared / (own * np.sqrt(self._weights[theirs].sum()))
        return scores

    def _read(self, wanted: Buckets, count: int, allowed: npt.NDArray[np.bool_] | None) -> _Read:
        """What the lists of the rarest trigrams give."""
        wanted = wanted[self._counts[wanted] > 0]
        rare_first = wanted[np.argsort(self._counts[wanted], kind="stable")]
        read = int(np.searchsorted(np.cumsum(self._counts[rare_first]), _BUDGET, side="right"))
        chosen, unread = np.split(rare_first, [max(read, 1)])
        if not len(chosen):
            return _Read(np.empty(0, np.int64), np.empty(0), unread)
        first, last = self._first[chosen].tolist(), self._first[chosen + 1].tolist()
        rows = np.concatenate([self._lists[a:b] for a, b in zip(first, last, strict=True)])
        check_inside(self._folder / f"{_ROWS}.uint32", rows, len(self))  # room is made for the last
        weights = np.repeat(self._weights[chosen], self._counts[chosen])
        if allowed is not None:
            keep = allowed[rows]
            rows, weights = rows[keep], weights[keep]
        return _Read(*self._best(rows, weights, count), unread)

    def _cosines(
        self,
        wanted: Sequence[Buckets],
        counts: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        sums: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float32]:
        own = np.sqrt([self._weights[some].sum() or np.inf for some in wanted])
        cosines: npt.NDArray[np.float64] = sums / (self._divisors[rows] * np.repeat(own, counts))
        return cosines.astype(np.float32)

    def _best(
        self, read: npt.NDArray[Any], weights: npt.NDArray[np.float64], count: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The most similar of the rows that were read, and the sum of the weights of each."""
        if len(self._norms) <= _DENSE:
            every: npt.NDArray[Any] = np.bincount(read, weights, minlength=len(self._norms))
            rows = _largest(every / self._divisors, count)
            rows = rows[every[rows] > 0]
            return rows, every[rows]
        distinct, inverse = np.unique(read, return_inverse=True)
        sums: npt.NDArray[Any] = np.bincount(inverse, weights)
        best = _largest(sums / self._norms[distinct], count)
        return distinct[best].astype(np.int64), sums[best]

    def _shared(
        self, sets: Sequence[Buckets], counts: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """The weight of the trigrams that each row shares with the set that it is for.

        Sets have many trigrams in common: each list is looked into once, for all of them; but for
        so many sets at a time as fit into memory.
        """
        half = len(sets) // 2
        if (
            half
            and sum(len(some) * count for some, count in zip(sets, counts, strict=True)) > _AT_ONCE
        ):
            middle = int(counts[:half].sum())
            return np.concatenate(
                [
                    self._shared(sets[:half], counts[:half], rows[:middle]),
                    self._shared(sets[half:], counts[half:], rows[middle:]),
                ]
            )
        sums = np.zeros(len(rows))
        every = np.concatenate([np.empty(0, np.int64), *sets])
        owner = np.repeat(np.arange(len(sets)), [len(some) for some in sets])
        order = np.argsort(every, kind="stable")
        order = order[(self._counts[every] > 0)[order]]
        every, owner = every[order], owner[order]
        each = counts[owner]  # rows to look for, of each set with each trigram
        ends = np.cumsum(each)
        starts = np.cumsum(counts) - counts
        positions = np.arange(each.sum()) + np.repeat(starts[owner] - ends + each, each)
        sought = rows.astype(np.uint32)[positions]  # of another type, each list would be copied
        distinct, firsts = np.unique(every, return_index=True)
        bounds = [*(ends - each)[firsts].tolist(), len(positions)]
        weights = self._weights[distinct].tolist()
        lists = zip(self._first[distinct].tolist(), self._first[distinct + 1].tolist(), strict=True)
        for (first, last), weight, low, high in zip(
            lists, weights, bounds[:-1], bounds[1:], strict=True
        ):
            listed = self._lists[first:last]  # ascending
            some = sought[low:high]
            near = np.minimum(listed.searchsorted(some), last - first - 1)
            sums[positions[low:high][listed[near] == some]] += weight
        return sums


def _largest(values: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Positions of the largest values, with all that equal the last of them."""
    positions: npt.NDArray[np.int64] = np.arange(len(values))
    if len(values) > count:
        high = np.flatnonzero(values >= _HIGH * values.max())  # few, and mostly enough of them
        if len(high) >= count:
            positions, values = high, values[high]
        positions = positions[values >= np.partition(values, -count)[-count]]
    return positions
