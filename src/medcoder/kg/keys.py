"""Exact look-up: the key that all spellings of a code share, and sorted 64-bit keys of strings.

"SNOMEDCT_US", "SNOMED" and "SCTID" name one vocabulary; "HP:0001250" and "0001250" are one code of
HP; ICD codes are written with and without their dot.

A key on disk takes eight bytes, and there is no table in memory. It is the hash of a string in its
high bits and the number of a concept in its low bits. Equal prefixes give candidates, which the
caller compares with the real string, so that a collision costs time and never an answer. The hash
is part of the format: it never changes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from operator import mul
from pathlib import Path
from threading import Lock

import numpy as np

from medcoder.arrays import Array, open_array, view

# Codes of vocabularies, compared as people write them

_OTHER = re.compile(r"[^A-Z0-9]+")
_SNOMED = re.compile(r"^(SNOMED(CT)?(US|INT)?[0-9]*|SCT(ID)?)$")
_ALIASES = {
    "MSH": "MESH",
    "HPO": "HP",
    "UMLSCUI": "UMLS",
    "ORPHANET": "ORPHA",
    "ORDO": "ORPHA",
    "NCI": "NCIT",
    "LNC": "LOINC",
    "MEDDRA": "MDR",
    "MIM": "OMIM",
    "DO": "DOID",
}
SEPARATOR = "\x1f"  # stands in no vocabulary and no code


def vocabulary_key(name: str) -> str:
    """The name that all spellings of a vocabulary share.

    >>> [vocabulary_key(name) for name in ("SNOMEDCT_US", "sctid", "ICD-10-CM", "MSH")]
    ['SNOMEDCT', 'SNOMEDCT', 'ICD10CM', 'MESH']
    """
    plain = _OTHER.sub("", name.upper())
    if _SNOMED.match(plain):
        return "SNOMEDCT"
    return _ALIASES.get(plain, plain)


def code_key(vocabulary: str, code: str) -> str:
    """The string that stands for a code in look-ups and comparisons.

    >>> code_key("HP", "HP:0001250") == code_key("HPO", "0001250")
    True
    """
    key = vocabulary_key(vocabulary)
    plain = code.strip().upper()
    prefix, colon, local = plain.partition(":")
    if colon and vocabulary_key(prefix) == key:
        plain = local
    if key.startswith("ICD"):
        plain = plain.replace(".", "")
    return f"{key}{SEPARATOR}{plain}"


# Hashes of strings

_BASE = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_BLOCK = 1 << 16  # bytes hashed at a time: temporary arrays stay in the cache

_NEAR = 4096  # a few standard deviations of a position, for millions of keys
_POWERS = [_BASE]  # BASE^(position + 1), as far as the longest string seen
_POWER_SUMS = [0, _BASE]  # sum of the first powers
_GROWING = Lock()  # two threads that append at a time would spoil every hash after


def encode(text: str) -> bytes:
    """UTF-8, also of what is not text, such as a bad byte of a command line: it matches nothing."""
    return text.encode(errors="surrogatepass")


def hash_text(text: str) -> int:
    """The hash of one string; equals `hash_strings` on it."""
    data = encode(text)
    if len(_POWER_SUMS) <= len(data):
        with _GROWING:
            while len(_POWER_SUMS) <= len(data):
                _POWERS.append(_POWERS[-1] * _BASE & _MASK)
                _POWER_SUMS.append(_POWER_SUMS[-1] + _POWERS[-1] & _MASK)
    total: int = sum(map(mul, data, _POWERS))
    return total + _POWER_SUMS[len(data)] & _MASK


def hash_strings(offsets: Array, data: Array) -> Array:
    """Hashes of Arrow strings: sum of (byte + 1) * BASE^(position + 1) modulo 2^64.

    `offsets` (n + 1) may start anywhere; `data` begins at the first of them.
    """
    offsets = offsets - offsets[0]
    hashes = np.empty(len(offsets) - 1, np.uint64)
    start = 0
    while start < len(hashes):
        stop = int(np.searchsorted(offsets, offsets[start] + _BLOCK, side="right")) - 1
        stop = min(max(stop, start + 1), len(hashes))
        low = offsets[start]
        ends = offsets[start : stop + 1] - low
        lengths = np.diff(ends)
        longest = int(lengths.max(initial=0))
        powers = np.multiply.accumulate(np.full(longest + 1, _BASE, np.uint64))
        position = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        product = powers[position]
        product *= data[low : low + ends[-1]].astype(np.uint64) + np.uint64(1)
        sums = np.zeros(len(product) + 1, np.uint64)
        np.cumsum(product, out=sums[1:])
        hashes[start:stop] = sums[ends[1:]] - sums[ends[:-1]]
        start = stop
    return hashes


def concept_bits(concepts: int) -> int:
    """Low bits that hold a concept's number."""
    return max(1, (concepts - 1).bit_length())


def make_keys(hashes: Array, concepts: Array, bits: int) -> Array:
    shift = np.uint64(bits)
    return hashes >> shift << shift | concepts.astype(np.uint64)


class Keys:
    """Sorted keys on disk."""

    def __init__(self, folder: Path, name: str, bits: int) -> None:
        self.keys = open_array(folder, name, "uint64")
        self._view = view(self.keys)
        self._bits = bits

    def candidates(self, hashed: int) -> list[int]:
        """Numbers of the concepts under a hash, in ascending order."""
        view, bits = self._view, self._bits
        low = hashed >> bits << bits
        # Hashes are spread evenly, so the position of one is almost known: look there first, which
        # touches one page instead of ten.
        size = len(view)
        guess = hashed * size >> 64
        left = guess - _NEAR if guess > _NEAR else 0
        right = min(guess + _NEAR, size)
        start = bisect_left(view, low, left, right)
        if (start == left and left) or (start == right and right < size):
            start = bisect_left(view, low)
        numbers = []
        for position in range(start, size):
            number = view[position] - low
            if number >> bits:
                break
            numbers.append(number)
        return numbers

    def numbers(self, keys: Array) -> Array:
        """The concepts that keys hold."""
        return (keys & np.uint64((1 << self._bits) - 1)).astype(np.int64)

    def some(self, hashes: Array) -> list[int]:
        """Positions of the hashes that have a candidate."""
        shift = np.uint64(self._bits)
        low = hashes >> shift << shift
        begin = np.searchsorted(self.keys, low)
        there = begin < len(self.keys)
        there[there] = self.keys[begin[there]] >> shift == low[there] >> shift
        positions: list[int] = np.flatnonzero(there).tolist()
        return positions

    def first(self, hashes: Array) -> tuple[Array, Array]:
        """For many hashes at once: the first candidate of each (or 0), and how many there are."""
        shift = np.uint64(self._bits)
        low = hashes >> shift << shift
        begin = np.searchsorted(self.keys, low)
        end = np.searchsorted(self.keys, low | np.uint64((1 << self._bits) - 1), side="right")
        if len(self.keys) == 0:
            return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.int64)
        keys = self.keys[np.minimum(begin, len(self.keys) - 1)]
        return self.numbers(keys), end - begin


class CodePrefixes:
    """Hashes of a code in every vocabulary, all at once.

    The hash of two strings in a row is that of the first, and that of the second times a power.
    """

    def __init__(self, vocabularies: Sequence[str]) -> None:
        """`vocabularies` are keys."""
        self.vocabularies = list(vocabularies)
        prefixes = [f"{key}{SEPARATOR}" for key in vocabularies]
        self._hashes = np.array([hash_text(prefix) for prefix in prefixes], np.uint64)
        powers = [pow(_BASE, len(encode(prefix)), 1 << 64) for prefix in prefixes]
        self._powers = np.array(powers, np.uint64)
        self._icd = np.array([key.startswith("ICD") for key in vocabularies], np.bool_)

    def hashes(self, code: str) -> Array:
        """Of the keys of a code (vocabularies,); the code in capitals."""
        dotted, plain = (np.uint64(hash_text(text)) for text in (code, code.replace(".", "")))
        return self._hashes + self._powers * np.where(self._icd, plain, dotted)
