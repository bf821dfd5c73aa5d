"""Abbreviations of wards, written out: "ESRF on PD", "Z.n. CHE", "unst. angina".

The dictionary is our own: see `medcoder.bundled.senses`.

Abbreviations are matched as words, also of several words ("A fib"), whatever full stops there are.
Case counts where it decides: a word of a language ("hit", "all") is likely itself in small letters.
Which language a string is in is not known: its other words speak for some, and English is the
likeliest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from medcoder.bundled.senses import Sense, bundled_senses
from medcoder.normalize.words import LANGUAGES, Words, bundled_words
from medcoder.text import fold

_TOKEN = re.compile(r"[^\W_]+|#")
_DOTTED = re.compile(r"(?<![^\W_])(?:[^\W\d_]\.)+(?:(?<=\.\w\.)|[^\W\d_](?![^\W_])\.?)")
_MARKUP = ("<", "</")
_LONGEST = 4  # words of an abbreviation
_SHOUTED = 5  # letters of a word in a string of capitals, whose case says nothing
_FOREIGN = 0.35  # how likely a language is before a word speaks for it; English has 1
_NOT_OF_IT = 0.2  # what a word that it does not have leaves of how likely a language is
_LETTERS = 3  # of a word that speaks for languages, at least
_SMALL = 0.4  # how far small letters speak for capitals, where they make a word
_AMONG = 0.02  # the same of a word that its language has, among others: "hand", "on", "all"
_UNDOTTED = 0.1  # how far a word speaks for an abbreviation that is set with a full stop
_PLAIN_WORD = 0.4  # how far a word that a dictionary has in small letters speaks for itself
# Words that hardly say more than which language a string is in. Lists of words have most of them
# in many languages, from names and quotations.
_LITTLE = {
    "en": "the of with and on due to after without by from",
    "de": "der die das und mit bei ohne nach von vom zum zur im am auf ein eine einer des dem den",
    "es": "el la los las del con por y en sin una un de al",
    "fr": "le la les des du avec chez sans et dans sur au aux une un de",
    "nl": "de het een van met zonder bij en na op aan door",
    "it": "il lo la di del della dello con da e senza nel alla un una gli dei",
    "pt": "o os as do da dos das com sem e em no na um uma por de ao",
    "pl": "z w i na po bez do przez oraz nie u ze",
}
_LITTLE_WORDS = {
    word: frozenset(tongue for tongue, some in _LITTLE.items() if word in some.split())
    for words in _LITTLE.values()
    for word in words.split()
}
_CHOICES = 4  # of an abbreviation that are followed
_LEAST = 0.02  # weight of one that is

IsName = Callable[[str], bool]


class Expanded(NamedTuple):
    """A string with its abbreviations written out."""

    text: str
    weight: float  # how likely that is meant
    written_out: tuple[tuple[str, str], ...]  # abbreviations, and what stands for each


class _Spot(NamedTuple):
    """Where an abbreviation stands, and what may be written there."""

    start: int
    end: int
    choices: Sequence[tuple[float, str]]


class _Found(NamedTuple):
    start: int
    end: int
    senses: Sequence[tuple[float, Sense]]  # with how far its case speaks for each
    plain: float  # how far it speaks for a word that is no abbreviation
    alone: bool  # whether it is all of the text


class Abbreviations:
    """A dictionary of abbreviations."""

    def __init__(self, senses: Iterable[Sense], words: Words) -> None:
        self._words = words
        self._senses: defaultdict[str, list[Sense]] = defaultdict(list)
        for sense in senses:
            self._senses[_key(sense.abbreviation)].append(sense)

    def __len__(self) -> int:
        """Number of senses."""
        return sum(map(len, self._senses.values()))

    def __contains__(self, text: str) -> bool:
        """Whether a string as a whole may be an abbreviation, whatever its case."""
        return _key(undotted(text)) in self._senses

    def are_in(self, text: str) -> bool:
        """Whether any may be in a string."""
        plain = undotted(text)
        tokens = [(token.start(), token.end()) for token in _TOKEN.finditer(plain)]
        return next(self._found(plain, tokens), None) is not None

    def is_word(self, text: str) -> bool:
        """Whether a string is a word in small letters, and an abbreviation in capitals alone."""
        return (
            not any(map(str.isupper, text))
            and fold(text) in self._words
            and all(sense.abbreviation.rstrip(".") != text for sense in self.senses_of(text))
        )

    def senses_of(self, abbreviation: str) -> list[Sense]:
        return list(self._senses.get(_key(undotted(abbreviation)), ()))

    def expand(self, text: str, is_name: IsName, *, most: int = _CHOICES) -> list[Expanded]:
        """A string with its abbreviations written out in up to `most` ways, likeliest first.

        Empty where it has none. The weights sum to 1 at most: the rest is for what nobody listed.

        is_name: whether a string is a name that may be answered with. Where words of another
            language stand around, its expansion is written, if that is a name or the English one is
            none; without such words, if it is the only one that is a name. Else the English one
        """
        plain = undotted(text)
        tokens = [(token.start(), token.end()) for token in _TOKEN.finditer(plain)]
        found = list(self._found(plain, tokens))
        if not found:
            return []
        inside = {
            start for spot in found if not spot.plain for start in range(spot.start, spot.end)
        }
        rest = [fold(plain[start:end]) for start, end in tokens if start not in inside]
        likely = self._likely(rest)
        own = {tongue for word in rest for tongue in self._words.languages_of(word)}
        spots = [
            _Spot(spot.start, spot.end, choices)
            for spot in found
            if (choices := self._choices(plain, spot, likely, own, is_name))
        ]
        return _combined(plain, spots, most) if spots else []

    def _found(self, text: str, tokens: Sequence[tuple[int, int]]) -> Iterator[_Found]:
        """Abbreviations in a text: longer ones first, none overlapping."""
        keys = [_key(text[start:end]) for start, end in tokens]
        shouted = _shouted(text)
        position = 0
        while position < len(tokens):
            for count in range(min(_LONGEST, len(tokens) - position), 0, -1):
                senses = self._senses.get(" ".join(keys[position : position + count]))
                if senses is None:
                    continue
                start, end = tokens[position][0], tokens[position + count - 1][1]
                if text[:start].endswith(_MARKUP):  # <td>
                    break
                dotted = text[end : end + 1] == "." and end + 1 < len(text)  # else it ends all
                alone = count == len(tokens)
                yield _Found(
                    start,
                    end + dotted,
                    *self._fitting(senses, text[start:end], shouted, dotted, alone),
                    alone,
                )
                position += count - 1
                break
            position += 1

    def _fitting(
        self, senses: Sequence[Sense], written: str, shouted: bool, dotted: bool, alone: bool
    ) -> tuple[list[tuple[float, Sense]], float]:
        """The senses that suit how it is written, and how far it may be a plain word."""
        exact = [(1.0, sense) for sense in senses if sense.abbreviation.rstrip(".") == written]
        small = shouted or not written[1:] or not any(map(str.isupper, written[1:]))
        if dotted or not small or not written.isalpha():
            return exact or [(1.0, sense) for sense in senses], 0.0
        tongues = self._words.languages_of(fold(written))
        if tongues:  # a word, unless it has the full stop of the abbreviation
            exact = [
                (_UNDOTTED if sense.abbreviation.endswith(".") else fit, sense)
                for fit, sense in exact
            ]
        if exact and not shouted:
            others = tongues - {sense.language for _, sense in exact}
            if alone and tongues:
                return exact, 1.0
            return exact, _PLAIN_WORD if others else 0.0
        if not tongues:
            return [(1.0, sense) for sense in senses], 0.0
        return [(_SMALL, sense) for sense in senses], 1.0

    def _likely(self, words: Sequence[str]) -> dict[str, float]:
        """How likely a string of such words is in each language; the likeliest has 1."""
        likely = {tongue: 1.0 if tongue == "en" else _FOREIGN for tongue in LANGUAGES}
        for word in words:
            tongues = _LITTLE_WORDS.get(word, frozenset())
            if not tongues and len(word) >= _LETTERS:
                tongues = self._words.languages_of(word)
            if tongues:
                for tongue in likely:
                    likely[tongue] *= 1.0 if tongue in tongues else _NOT_OF_IT
        best = max(likely.values())
        return {tongue: value / best for tongue, value in likely.items()}

    def _choices(
        self,
        text: str,
        spot: _Found,
        likely: Mapping[str, float],
        own: set[str],
        is_name: IsName,
    ) -> list[tuple[float, str]]:
        """What may be written for an abbreviation, likeliest first, itself included."""
        written = text[spot.start : spot.end]
        weights: dict[str, float] = {}
        texts: dict[str, str] = {}
        fits: dict[str, float] = {}
        word = 0.0
        if spot.plain:
            tongues = self._words.languages_of(fold(written)) or frozenset(LANGUAGES)
            word = spot.plain * max(likely[tongue] for tongue in tongues)
        shares: dict[str, float] = defaultdict(float)
        for _, sense in spot.senses:
            shares[sense.language] += sense.share
        for fit, sense in spot.senses:
            if fit < 1.0 <= word and not spot.alone:
                fit = _AMONG
            fits[sense.language] = fit * likely[sense.language]
            key = fold(sense.english)
            share = sense.share / max(shares[sense.language], 1.0)
            weights[key] = weights.get(key, 0.0) + share * fits[sense.language]
            texts.setdefault(key, _text(sense, own, is_name))
        if word:
            weights[""], texts[""], fits[""] = word, written, word
        total = sum(fits.values())
        ranked = sorted(weights.items(), key=lambda pair: -pair[1])[:_CHOICES]
        return [(weight / total, texts[key]) for key, weight in ranked if weight >= _LEAST * total]


def _text(sense: Sense, own: set[str], is_name: IsName) -> str:
    if sense.language == "en":
        return sense.expansion
    if sense.language in own:
        stays = is_name(sense.expansion) or not is_name(sense.english)
    else:
        stays = is_name(sense.expansion) and not is_name(sense.english)
    return sense.expansion if stays else sense.english


def _combined(text: str, spots: Sequence[_Spot], most: int) -> list[Expanded]:
    """The likeliest ways to choose for all spots."""
    ways: list[tuple[float, list[str]]] = [(1.0, [])]
    for spot in spots:
        ways = [
            (weight * chosen_weight, [*chosen, choice])
            for weight, chosen in ways
            for chosen_weight, choice in spot.choices
        ]
        ways = sorted(ways, key=lambda way: -way[0])[:most]
    expanded = []
    for weight, chosen in ways:
        parts, last, written_out = [], 0, []
        for spot, choice in zip(spots, chosen, strict=True):
            written = text[spot.start : spot.end]
            parts += [text[last : spot.start], choice]
            last = spot.end
            if choice != written:
                written_out.append((written, choice))
        parts.append(text[last:])
        expanded.append(Expanded(_joined(parts), weight, tuple(written_out)))
    return expanded


def _joined(parts: Sequence[str]) -> str:
    """What is written for an abbreviation is a word of its own, also where signs touch it."""
    text = ""
    for part in parts:
        if text and part and text[-1].isalnum() and part[0].isalnum():
            text += " "
        text += part
    return text


def undotted(text: str) -> str:
    """Abbreviations of letters with full stops, such as T.O.F., without them.

    >>> undotted("known T.O.F. and A.S.")
    'known TOF and AS'
    """
    return _DOTTED.sub(lambda dotted: dotted[0].replace(".", ""), text) if "." in text else text


def _key(abbreviation: str) -> str:
    return " ".join(fold(token[0]) for token in _TOKEN.finditer(abbreviation))


def _shouted(text: str) -> bool:
    """Whether all is in capitals, words too."""
    return text == text.upper() and any(
        len(token[0]) >= _SHOUTED and token[0].isalpha() for token in _TOKEN.finditer(text)
    )


@cache
def bundled_abbreviations() -> Abbreviations:
    """The dictionary that comes with the package."""
    return Abbreviations(bundled_senses(), bundled_words())
