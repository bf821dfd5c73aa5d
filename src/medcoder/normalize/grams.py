"""Strings by shared letters: three at a time, rare ones counting more. Finds misspellings.

The similarity of two folded strings is the cosine of their sets of trigrams, each weighted by its
inverse document frequency. On disk there is a list of rows for each trigram, four bytes a row, and
the hash of every word with the number of rows that have it: a word that none has may be misspelt.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from medcoder.kg.columns import open_array, write_array
from medcoder.kg.keys import hash_text
from medcoder.text import fold

_BUCKETS = 1 << 18  # trigrams are told apart by 18 bits of a hash
_FIRST, _ROWS, _NORMS = "gram.first", "gram.rows", "row.norm"
_WORDS, _COUNTS = "word.hash", "word.count"
_BUDGET = 1 << 16  # entries of the lists that one query reads
_LONGEST = 512  # letters of a string that count
_DENSE = 1 << 21  # rows up to which a score for each is cheaper than sorting those found
_HIGH = 0.15  # part of the largest value above which most of what is asked for lies
_MIX = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], np.uint64)

Buckets = npt.NDArray[np.int64]


def grams(text: str) -> Buckets:
    """Distinct trigrams of a string, with a space before and after, in ascending order."""
    return _trigrams(fold(text))


def _trigrams(folded: str) -> Buckets:
    letters = np.frombuffer(f" {folded[:_LONGEST]} ".encode("utf-32-le", "replace"), "<u4")
    if len(letters) < 3:
        return np.empty(0, np.int64)
    found: Buckets = np.unique(_hashed(letters))
    return found


def _hashed(letters: npt.NDArray[Any]) -> Buckets:
    wide = letters.astype(np.uint64)
    mixed = wide[:-2] * _MIX[0] + wide[1:-1] * _MIX[1] + wide[2:] * _MIX[2]
    mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    found: Buckets = (mixed >> np.uint64(46)).astype(np.int64)
    return found


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
    cursor, row, place = first[:-1].copy(), 0, 0
    for each in lengths:
        total = int(each.sum())
        entries = np.fromfile(scratch, np.uint32, total, offset=4 * place).astype(np.int64)
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
        row, place = row + len(each), place + total
    write_array(folder, _NORMS, np.concatenate(norms or [np.empty(0, np.float32)]))
    scratch.unlink()


def _write_words(words: Counter[str], folder: Path) -> None:
    hashes = np.array([hash_text(word) for word in words], np.uint64)
    order = np.argsort(hashes)
    write_array(folder, _WORDS, hashes[order])
    write_array(folder, _COUNTS, np.array(list(words.values()), np.uint32)[order])


def _block(folded: Sequence[str]) -> tuple[Buckets, npt.NDArray[np.int64]]:
    """Distinct trigrams of each text one after the other, and how many each has."""
    each = [_trigrams(text) for text in folded]
    return np.concatenate(each), np.array([len(found) for found in each], np.int64)


def _idf(counts: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.log((rows + 1) / (counts + 1)) + 1
    return found


class Grams:
    """Memory-mapped lists."""

    def __init__(self, folder: Path) -> None:
        self._first = open_array(folder, _FIRST, "int64")
        self._lists = open_array(folder, _ROWS, "uint32")
        self._norms = open_array(folder, _NORMS, "float32")
        self._divisors = np.where(self._norms > 0, self._norms, np.inf)  # a row without trigrams
        self._words = open_array(folder, _WORDS, "uint64")
        self._word_counts = open_array(folder, _COUNTS, "uint32")
        self._counts = np.diff(self._first)
        self._idf = _idf(self._counts, len(self._norms))

    def search(
        self, text: str, k: int, *, allowed: npt.NDArray[np.bool_] | None = None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """The k most similar rows, best first, equal ones by ascending row, with similarities.

        Lists of common trigrams are left unread once the rarer ones have given enough to look at;
        they still count in the similarities.
        """
        wanted = grams(text)
        wanted = wanted[self._counts[wanted] > 0]
        rare_first = wanted[np.argsort(self._counts[wanted], kind="stable")]
        read = int(np.searchsorted(np.cumsum(self._counts[rare_first]), _BUDGET, side="right"))
        chosen = rare_first[: max(read, 1)]
        lists = [self._lists[self._first[gram] : self._first[gram + 1]] for gram in chosen]
        if not lists:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        found = np.concatenate(lists)
        weights = np.repeat(self._idf[chosen] ** 2, self._counts[chosen])
        if allowed is not None:
            keep = allowed[found]
            found, weights = found[keep], weights[keep]
        rows, sums = self._best(found, weights, 4 * k)
        if len(chosen) < len(wanted):
            sums = sums + self._left_out(rare_first[len(chosen) :], rows)
        own = np.sqrt((self._query_idf(text) ** 2).sum())
        scores = (sums / (self._norms[rows] * own)).astype(np.float32)
        order = np.lexsort((rows, -scores))[:k]
        return rows[order], scores[order]

    def knows(self, text: str, hidden: Iterable[str] = ()) -> bool:
        """Whether every word of a text is in some row, beside those of the `hidden` texts."""
        gone = Counter(word for other in set(hidden) for word in set(fold(other).split()))
        return all(self._rows_with(word) > gone[word] for word in fold(text).split())

    def _rows_with(self, word: str) -> int:
        hashed = np.uint64(hash_text(word))
        place = int(np.searchsorted(self._words, hashed))
        there = place < len(self._words) and self._words[place] == hashed
        return int(self._word_counts[place]) if there else 0

    def similarity(self, text: str, others: Sequence[str]) -> npt.NDArray[np.float32]:
        """The similarity of a text with each of some others."""
        mine = grams(text)
        weights = np.zeros(_BUCKETS)
        weights[mine] = self._idf[mine] ** 2
        own = np.sqrt(weights[mine].sum())
        scores = np.zeros(len(others), np.float32)
        for place, other in enumerate(others):
            theirs = grams(other)
            shared = weights[theirs].sum()
            if shared:
                scores[place] = shared / (own * np.sqrt((self._idf[theirs] ** 2).sum()))
        return scores

    def _query_idf(self, text: str) -> npt.NDArray[np.float64]:
        return self._idf[grams(text)]

    def _best(
        self, found: npt.NDArray[Any], weights: npt.NDArray[np.float64], count: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The most similar of the rows that were found, and the sum of the weights of each."""
        if len(self._norms) <= _DENSE:
            every: npt.NDArray[Any] = np.bincount(found, weights, minlength=len(self._norms))
            rows = _largest(every / self._divisors, count)
            rows = rows[every[rows] > 0]
            return rows, every[rows]
        distinct, inverse = np.unique(found, return_inverse=True)
        sums: npt.NDArray[Any] = np.bincount(inverse, weights)
        best = _largest(sums / self._norms[distinct], count)
        return distinct[best].astype(np.int64), sums[best]

    def _left_out(self, unread: Buckets, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """What the lists that were not read add to the sums of some rows."""
        sums = np.zeros(len(rows))
        sought = rows.astype(np.uint32)  # of another type, each list would be copied to be searched
        for gram in unread:
            listed = self._lists[self._first[gram] : self._first[gram + 1]]  # ascending
            places = np.minimum(np.searchsorted(listed, sought), len(listed) - 1)
            sums += (listed[places] == sought) * self._idf[gram] ** 2
        return sums


def _largest(values: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Places of the largest values, with all that equal the last of them."""
    places: npt.NDArray[np.int64] = np.arange(len(values))
    if len(values) > count:
        high = np.flatnonzero(values >= _HIGH * values.max())  # few, and mostly enough of them
        if len(high) >= count:
            places, values = high, values[high]
        places = places[values >= np.partition(values, -count)[-count]]
    return places
