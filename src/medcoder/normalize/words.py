"""Words of everyday and medical language: what is a word is no slip of another.

The lists and their licences are in `bundled/words/manifest.toml`. Only hashes are kept.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

import medcoder.bundled
from medcoder.errors import ArtefactError
from medcoder.kg.keys import hash_text

LANGUAGES = ("en", "de", "es", "fr", "nl", "it", "pt", "pl", "ru")  # the others share a bit
LOW = 0xFFFFFFFF  # bits of a hash that are kept
_FOLDER = Path(medcoder.bundled.__file__).parent / "words"


class Words:
    """Which words there are, folded, and in which languages."""

    def __init__(self, hashes: npt.NDArray[np.uint32], languages: npt.NDArray[np.uint16]) -> None:
        self._hashes, self._languages = hashes, languages

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, word: str) -> bool:
        return self._bits(word) > 0

    def languages_of(self, word: str) -> frozenset[str]:
        """The languages of `LANGUAGES` that have a folded word."""
        return _NAMED[self._bits(word) & (1 << len(LANGUAGES)) - 1]

    def _bits(self, word: str) -> int:
        key = np.uint32(hash_text(word) & LOW)
        position = int(self._hashes.searchsorted(key))
        if position == len(self._hashes) or self._hashes[position] != key:
            return 0
        return int(self._languages[position])


class _Named(dict[int, frozenset[str]]):
    def __missing__(self, bits: int) -> frozenset[str]:
        names = frozenset(name for bit, name in enumerate(LANGUAGES) if bits >> bit & 1)
        self[bits] = names
        return names


_NAMED = _Named()


@cache
def bundled_words() -> Words:
    """The list that comes with the package, memory-mapped."""
    try:
        hashes = np.memmap(_FOLDER / "hash.uint32", np.dtype("<u4"), "r")
        languages = np.memmap(_FOLDER / "languages.uint16", np.dtype("<u2"), "r")
        if len(hashes) != len(languages):
            raise ValueError("its two files are of different lengths")
    except (OSError, ValueError) as error:
        raise ArtefactError(
            "the list of words cannot be read", where=_FOLDER, values=error,
            remedy="Install medcoder again",
        ) from error  # fmt: skip
    return Words(hashes, languages)
