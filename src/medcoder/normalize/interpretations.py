"""What a string may say: abbreviations written out, and what stands beside the thing taken off.

The whole string is tried first: what is part of a name ("acute pancreatitis") stays. Then, with as
little taken off as possible, the forms of it with and without their abbreviations written out, and
in other spellings. The first form that is a name is looked up; if none is, the form without what
decides or dates it. An abbreviation that stands for several things gives several interpretations,
each with its weight.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Protocol

from medcoder.normalize.abbreviations import Abbreviations, Expanded, IsName
from medcoder.normalize.parse.nothing import is_placeholder
from medcoder.normalize.parse.qualifiers import Cue, attributes, find_cues, readings, without
from medcoder.normalize.parse.spelling import spellings
from medcoder.text import fold, identifies, nothing_meant
from medcoder.types import Attribute

DECIDING = ("negated", "family", "history", "doubt")  # in the order in which they decide
_STAYS = ("course", "side")  # what is read with the thing where no form of it is a name
_OWN = 0.3  # weight of what a terminology itself calls so, beside the senses of an abbreviation
_SENSES = 4  # of a string that are looked up

# How names say that something was, or is in the family.
_PAST = re.compile(
    r"\b(?:history of|status(?!\s+[a-z])|presence of|absence of|acquired absence|old|sequelae?"
    r"|replacement|aftercare|encounter for follow)\b",
    re.IGNORECASE,
)
_FAMILY = re.compile(r"\bfamily history\b", re.IGNORECASE)
_DENIES = re.compile(r"(?:no|not)\b", re.IGNORECASE)  # NAD: no abnormality detected
# Of nothing that was looked for and not found, but of what is missing: "no energy".
_PLAIN_NO = re.compile(
    r"(?:no|not|can't|cannot|without|kein\w*|nicht|ohne|sin|pas d[e\u2019']|sans|plus d[e\u2019']"
    r"|geen|niet|zonder|non|senza|nessun\w*|n\u00e3o|sem|nie|brak|bez"
    r"|\u043d\u0435\u0442|\u0431\u0435\u0437|\u043d\u0435)\b",
    re.IGNORECASE,
)
_MARKS = ("?", "??", "???", "(?)")
_SAID = {
    # Of diseases; of what was done; of a heart attack.
    "history": ("personal history of {}", "{} status", "old {}"),
    "family": ("family history of {}",),
}


class Names(Protocol):
    """What is known of strings without a look at what they may mean."""

    def is_certain(self, text: str) -> bool:
        """Whether it is a code, or a name that the user gave: it is what it is."""
        ...

    def is_name(self, text: str) -> bool:
        """Whether it is a name that may be answered with."""
        ...

    def is_known(self, text: str) -> bool:
        """Whether it is a name at all, of which nothing is taken off."""
        ...


class Interpretation(NamedTuple):
    """A string to look up, and how likely it is what is meant."""

    text: str
    weight: float = 1.0
    written_out: bool = False  # whether abbreviations were


class Understood(NamedTuple):
    """What a string says."""

    meant: tuple[Interpretation, ...]  # of the thing itself, most likely first; none: of nothing
    decides: str = ""  # history, family, negated, doubt
    cue: str = ""  # the words that decide
    # "personal history of ..." for what was, or is in the family; a string that may be a phrase
    said: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    steps: tuple[str, ...] = ()
    named: bool = False  # whether all that it may mean are names

    @property
    def asked(self) -> list[str]:
        """All that is looked up for it."""
        return [*(some.text for some in self.meant), *self.said]


def understand(text: str, names: Names, abbreviations: Abbreviations | None) -> Understood:
    """What a clean string says.

    abbreviations: those that are written out, if any are
    """
    if identifies(text) and not names.is_name(text):  # a question mark in an address is no doubt
        return Understood((Interpretation(text),))
    marks = [cue for cue in find_cues(text) if cue.text in _MARKS] if "?" in text else []
    if marks and (rest := without(text, marks)):  # look-up does not see them, and they say doubt
        return _marked(understand(rest, names, abbreviations), marks)
    whole, is_name = names.is_name(text), names.is_name
    own = abbreviations is None or text not in abbreviations or abbreviations.is_word(text)
    if names.is_certain(text) or (whole and own):
        return Understood((Interpretation(text),), named=True)
    if not whole and is_placeholder(text):
        return Understood(())
    if not whole and nothing_meant(text):  # a number, a date: nothing is to be read in it
        return Understood((Interpretation(text),))
    cues = [] if whole or names.is_known(text) else find_cues(text)
    form, removed, expanded = _form(text, cues, is_name, abbreviations)
    meant = _meant(form, expanded, own=is_name(form), is_name=is_name)
    named = all(is_name(some.text) for some in meant)
    if not removed and len(meant) == 1 and meant[0].text == text:
        return Understood(meant, named=named)
    kinds = {cue.kind: cue.text for cue in reversed(removed)}
    if expanded and _DENIES.match(expanded[0].text):
        kinds.setdefault("negated", form)
    decides = next((kind for kind in DECIDING if kind in kinds), "")
    said: tuple[str, ...] = ()
    if decides in _SAID:
        said = tuple(form.format(some.text) for form in _SAID[decides] for some in meant[:2])
    elif decides == "negated" and _PLAIN_NO.match(text):
        said = (text,)
    return Understood(
        meant=meant,
        decides=decides,
        cue=kinds.get(decides, ""),
        said=said,
        attributes=attributes(removed),
        steps=(*_taken_off(removed), *_written_out(form, meant, expanded)),
        named=named,
    )


def _marked(understood: Understood, marks: Sequence[Cue]) -> Understood:
    """What a string says that has such marks beside."""
    return understood._replace(
        decides=understood.decides or "doubt",
        cue=understood.cue if understood.decides else marks[0].text,
        attributes=(*attributes(marks), *understood.attributes),
        steps=(*_taken_off(marks), *understood.steps),
    )


def says(decides: str, term: str) -> bool:
    """Whether a term is of what was, or is in the family.

    >>> says("history", "Personal history of malignant neoplasm of testis")
    True
    >>> says("family", "Personal history of malignant neoplasm of testis")
    False
    >>> [says("history", term) for term in ("Tracheostomy status", "Status asthmaticus")]
    [True, False]
    """
    if decides == "family":
        return bool(_FAMILY.search(term))
    return bool(_PAST.search(term)) and not _FAMILY.search(term)


def _form(
    text: str, cues: Sequence[Cue], is_name: IsName, abbreviations: Abbreviations | None
) -> tuple[str, tuple[Cue, ...], list[Expanded]]:
    """The form of a string that is looked up, what was taken off, and its expansions."""
    short = abbreviations if abbreviations is not None and abbreviations.are_in(text) else None

    def expand(form: str) -> list[Expanded]:
        if short is None or (form not in short and named(form)):
            return []  # a name of which a word may be an abbreviation is what it says: HIP PAIN
        return short.expand(form, is_name, most=_SENSES)

    @cache
    def named(form: str) -> bool:
        return is_name(form) or any(map(is_name, spellings(form)))

    seen: dict[str, list[Expanded]] = {}
    for form, removed in readings(text, cues) if cues else [(text, ())]:
        seen[form] = expand(form)
        if named(form) or any(named(some.text) for some in seen[form]):
            return form, removed, seen[form]
    if not cues:
        return text, (), seen[text]
    off = tuple(cue for cue in cues if cue.kind not in _STAYS)
    form = without(text, off)
    if not form or not any(map(str.isalpha, form)):
        form, off = text, ()
    if form not in seen:
        seen[form] = expand(form)
    return form, off, seen[form]


def _meant(
    form: str, expanded: Sequence[Expanded], *, own: bool, is_name: IsName
) -> tuple[Interpretation, ...]:
    weights: dict[str, float] = {}
    for text, weight, _ in expanded:
        spelt = _spelt(text, is_name)
        weights[spelt] = weights.get(spelt, 0.0) + weight
    left = 1.0 - sum(weights.values())
    if own or not weights:
        weights[form] = weights.get(form, 0.0) + (_OWN if weights else 1.0)
        left = 0.0 if weights[form] == 1.0 else left
    if not expanded:
        return (Interpretation(_spelt(form, is_name)),)
    total = sum(weights.values()) + max(left, 0.0)
    ranked = sorted(weights.items(), key=lambda pair: -pair[1])
    return tuple(Interpretation(text, weight / total, text != form) for text, weight in ranked)


def _spelt(text: str, is_name: IsName) -> str:
    """The string in the spelling that is a name; as it is, if none is."""
    return text if is_name(text) else next(filter(is_name, spellings(text)), text)


def _taken_off(removed: Sequence[Cue]) -> list[str]:
    return [
        f"took off {cue.text!r}: {cue.kind}{f' ({cue.value})' if cue.value else ''}"
        for cue in removed
    ]


def _written_out(
    form: str, meant: Sequence[Interpretation], expanded: Sequence[Expanded]
) -> list[str]:
    if not expanded and meant[0].text != form:
        return [f"read {form!r} as {meant[0].text!r}"]
    return [
        f"read {form!r} as {some.text!r} ({round(100 * some.weight)} in 100)"
        for some in meant
        if fold(some.text) != fold(form)
    ]
