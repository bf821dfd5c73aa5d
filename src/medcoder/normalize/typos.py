"""Slips: words that differ by a letter.

A slip is possible only in a word of six letters or more: in a shorter one another letter makes
another word or another abbreviation (CML and AML, JIA and TIA). What is in capitals, a word of a
language or a known abbreviation is what it says.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from rapidfuzz.distance import OSA

SLIP_LETTERS = 6  # of a word: in a shorter one, another letter makes another word
NEAR_LETTERS = 4  # of a word that is like another by its letters all the same
_WORD = re.compile(r"[^\W_]+")
_ABBREVIATION = 4  # letters at most; longer ones may be words of a list in capitals
# Scripts that set no spaces, or in which a sign is a syllable or a word: Thai to Burmese, Khmer,
# Hangul, Kana, Han. What stands between spaces there is a phrase, and a sign of it no slip.
_SIGNS = re.compile(
    "[\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


def as_spelt(
    words: Sequence[str], known: Sequence[bool], others: Sequence[str], *, least: int = SLIP_LETTERS
) -> bool:
    """Whether two strings have the same words but for at most a slip in each.

    known: which of the words are right as they are, and have no slip
    least: letters of a word that may have one

    >>> as_spelt("heart attakc".split(), [True, False], "heart attack".split())
    True
    >>> as_spelt("ureteral fistla".split(), [True, False], "urethral fistula".split())
    False
    """
    return len(words) == len(others) and all(
        word == other or (not right and one_slip(word, other, least=least))
        for word, right, other in zip(words, known, others, strict=True)
    )


def is_abbreviation(term: str) -> bool:
    """Whether a term is a few capitals: another letter makes another abbreviation, and no slip.

    >>> is_abbreviation("SSNS"), is_abbreviation("Gout"), is_abbreviation("MUMPS VIRUS")
    (True, False, False)
    """
    return len(term) <= _ABBREVIATION and term.isalpha() and term.isupper()


def one_slip(word: str, other: str, *, least: int = SLIP_LETTERS) -> bool:
    """Whether a letter dropped, added, replaced or swapped with the next makes a word another.

    A digit or a sign such as + or < is never a slip: another makes another gene, type or code.
    Nor is there one in scripts where a single sign is a syllable or a word.

    >>> [one_slip("fistla", word) for word in ("fistula", "fista", "fistal", "fistlas", "fiesta")]
    [True, True, True, True, False]
    >>> one_slip("cyp2d6", "cyp2d7"), one_slip("her2+", "her2"), one_slip("jia", "tia")
    (False, False, False)
    """
    if word == other:
        return True
    if _fixed(word) != _fixed(other) or _SIGNS.search(word) or _SIGNS.search(other):
        return False
    return len(word) >= least and OSA.distance(word, other, score_cutoff=1) <= 1


def in_capitals(text: str) -> set[str]:
    """The words of a string that are in capitals, in small letters.

    >>> sorted(in_capitals("JIA of the knee, ITP"))
    ['itp', 'jia']
    """
    return {word.lower() for word in _WORD.findall(text) if word.isupper()}


def _fixed(word: str) -> str:
    """All but letters and the marks on them."""
    if word.isalpha():
        return ""
    return "".join(
        letter
        for letter in word
        if not (letter.isalpha() or unicodedata.category(letter)[0] == "M")
    )
