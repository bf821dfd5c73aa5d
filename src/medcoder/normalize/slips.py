"""Slips of the fingers: words that differ by one letter."""

from __future__ import annotations

from collections.abc import Sequence

_SHORT = 3  # letters of a word of which one more is another word, not a slip


def as_spelt(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two strings have the same words but for at most one slip in each.

    >>> as_spelt("hart atack".split(), "heart attack".split())
    True
    >>> as_spelt("left foot".split(), "right foot".split())
    False
    """
    return len(words) == len(others) and all(map(one_slip, words, others))


def one_slip(word: str, other: str) -> bool:
    """Whether a letter dropped, added, replaced or swapped with the next makes the words equal.

    >>> [one_slip("atack", word) for word in ("attack", "tack", "atakc", "atacks", "attic")]
    [True, True, True, True, False]
    """
    if word == other:
        return True
    longer, shorter = (word, other) if len(word) >= len(other) else (other, word)
    if len(longer) - len(shorter) > 1 or len(shorter) < _SHORT:
        return False
    place = next((i for i, letter in enumerate(shorter) if letter != longer[i]), len(shorter))
    if len(longer) > len(shorter):
        return longer[place + 1 :] == shorter[place:]
    swapped = longer[place + 1 : place + 2] + longer[place]
    return longer[place + 1 :] == shorter[place + 1 :] or (
        shorter[place : place + 2] == swapped and longer[place + 2 :] == shorter[place + 2 :]
    )
