"""Whether a model can read a string, or puts it together from fragments.

A tokenizer cuts words that it has not learnt into pieces. Real words, also misspelt ones and those
of other languages, leave pieces of some length; of asdfgh or 9f86d081 only fragments are left, and
the vector of fragments is near anything.
"""

from __future__ import annotations

import re
from typing import Protocol, runtime_checkable

_FRAGMENT = 3  # letters at most
_WHOLE = 2  # letters of a word at least
_SHARE = 0.25  # of the letters of a string that are of words, at least
_PIECE = 2.0  # letters of a piece on average, at most, where nothing is read
# Cosines below which a string is not taken for what it is near: without words, and without a piece.
# Tuned on data/eval/dev and on misspelt terms, of which no right answer is lost.
_NEAR_WORDS, _NEAR_PIECES = 0.74, 0.85
_SHORT = 6  # characters of an abbreviation
# Where a sign is no letter, a piece of one sign is as good as any.
_EUROPEAN = re.compile("[A-Za-z\u00aa-\u02af\u0370-\u052f\u1e00-\u1fff]+")


@runtime_checkable
class Reader(Protocol):
    """An encoder that shows how it cuts words."""

    def pieces(self, text: str) -> list[list[str]]:
        """The pieces of each word."""
        ...


def least_cosine(encoder: object, text: str) -> float:
    """How near a candidate must be to a string of unknown words, for what is read of it."""
    if not isinstance(encoder, Reader) or _is_short(text):
        return 0.0
    words = encoder.pieces(text)
    pieces = [count for word in words for piece in word if (count := _letters(piece))]
    if not pieces or any(map(_is_foreign, text)):
        return 0.0
    read = sum(_letters(piece) for word in words if _is_word(word) for piece in word)
    if read >= _SHARE * sum(pieces):
        return 0.0
    return _NEAR_PIECES if sum(pieces) / len(pieces) <= _PIECE else _NEAR_WORDS


def _is_short(text: str) -> bool:
    """Whether it is abbreviations, whose letters are all that can be known: NSCLC, A. fib."""
    return all(len(word) <= _SHORT and (word.isupper() or "." in text) for word in text.split())


def _is_foreign(letter: str) -> bool:
    return letter.isalpha() and not _EUROPEAN.match(letter)


def _letters(piece: str) -> int:
    return sum(map(str.isalpha, piece))


def _is_word(pieces: list[str]) -> bool:
    """Whether these make a word: as a whole, or by more than half of its letters.

    >>> _is_word(["bradykin", "ese"]), _is_word(["as", "df", "gh"]), _is_word(["iam"])
    (True, False, True)
    """
    letters = [_letters(piece) for piece in pieces]
    if len(pieces) == 1:
        return letters[0] >= _WHOLE
    return 2 * sum(count for count in letters if count > _FRAGMENT) > sum(letters)
