"""Words of a string that say something about a finding and are not it: history, side, dates.

The cues of nine languages are in `cues.tsv` beside this file:

- `cue`: as it is written. Case and accents do not count, but for a single letter, and after "=".
- `kind`: history, family, negated, doubt, side, severity, course, context. A `name` looks like a
  cue and is none: "not otherwise specified". A `date` is a word that dates are made of.
- `value`: "left", "mild", "chronic"; of a date, which part of it the word is.
- `place`: before (only other cues stand before it), after (only other cues stand after it), or any.
  A negation counts at either end only: "migraine without aura" is no absence of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from operator import attrgetter
from typing import NamedTuple

from medcoder.normalize.parse.cues import DATE, Entry, bundled_cues, plain
from medcoder.types import ATTRIBUTES, Attribute

# What is taken off first, and what of it before the rest: what says least comes first.
_FIRST = ("context", "date", "doubt", "history", "family", "negated")
_LATER = ("severity", "side", "course")
_ALL = {_FIRST: 2, _LATER: 3}  # of as many, every choice is a form; more are taken off in turn

_BY_PLACE = attrgetter("start")
_ROUNDS = 4  # that a string is tidied
_NEAR = 40  # characters before a letter, or at the end of a string, that are looked at

# Letters after these are a kind of it, or of a list: hepatitis D, vitamin D, hepatitis B and D.
_LETTERED = re.compile(
    r"(?:\b(?:vitamine?[ae]?s?|vit|h\W?epatit\w+|groupe?|grupo|gruppe?|type?|tipo|grad[eo]|stage"
    r"|stade|class[eia]?|fa[ck]t\w+|fattore|antig\w+|immunoglobulin\w*|ig|rh|rhesus|chromosome?"
    r"|cyclin|cathepsin|complex\w*|protein\w*|subtype|variant|score|child|apo\w*|lamin|troponin\w*"
    r"|haplogroup|coenzyme|phase|[a-z],)|[/&+.'-])\W*$"
)
_LISTED = re.compile(r"\b(?:and|or|et|ou|und|y|e|i|[a-z])\W*$")

# Words that join a thing to what was taken off. A name that begins with one keeps it.
_JOIN = (
    "of|for|to|with|the|an|in|on|at|and|by|about|as|de|del|des|du|da|do|dos|das|di|della|dello"
    "|la|le|les|el|los|las|il|lo|un|une|una|uno|um|uma|et|en|y|con|com|per|por|para|pour|avec"
    "|von|vom|mit|und|bei|am|im|an|einer|eines|einem|einen|eine|ein|der|die|das|dem|den"
    "|van|het|een|met|voor|op|aan|bij|na|po|z|ze|w|we|u|oraz|\u0441|\u0441\u043e|\u0432|\u043d\u0430"
    "|\u043f\u043e|\u0438|or|oder|ou|o|lub|but|has|had|was|is"
)
_NAMED = (
    r"(?i:von\s+(?:willebrand|recklinghausen|hippel|gierke|meyenburg)|de\s+(?:quervain|lange|toni"
    r"|morsier|novo)|di\s+george|in\s+situ|le\s+fort|van\s+der|la\s+crosse)"
)
_LEADING = re.compile(
    rf"^(?:(?!{_NAMED})(?:(?=\w\w)(?:{_JOIN})\s+|a\s+(?!fib|flutter|tach|v\b)|d['\u2019]\s*))+"
)
_TRAILING = re.compile(rf"(?:\s+(?:(?=\w\w)(?:{_JOIN})|d['\u2019])(?!\w))+$")
_SAYS_NOTHING = re.compile(rf"(?:[\W_]|\b(?:\d+|{_JOIN}|a|e|i|d)\b)*")
_JOINS = re.compile(rf"(?:[\W_]|\b(?:{_JOIN}|a|e|i|d)\b)*")
_WORDS = re.compile(r"[^,;()\[\]{}\s]+")
_HANGING, _STROKES = " ,;:=", "-\u2013\u2014./&"
_EMPTY = re.compile(r"[(\[{][\s,;:.?-]*[)\]}]")
_TIDY = (  # runs of spaces and of commas first: the others are slow on them
    (re.compile(r"\s+"), " "),
    (re.compile(r" ?([,;:])(?: ?[,;:])+"), r"\1"),
    (re.compile(r"(?<=[(\[{])[\s,;:]+|[\s,;:]+(?=[)\]}])"), ""),
    (re.compile(r" (?=[,;](?: |$))"), ""),
)


class Cue(NamedTuple):
    """Words that say something about a thing, where they stand in a string."""

    kind: str  # one of KINDS
    value: str  # "left", "mild", "2014"; empty where the kind says all
    text: str  # as written: "h/o"
    start: int
    end: int


_Spot = tuple[re.Match[str], Sequence[Entry]]  # what looks like a cue, and rows that it may be


def find_cues(text: str) -> list[Cue]:
    """The cues of a string in order, the longest where several begin; none overlap.

    >>> [(cue.kind, cue.value, cue.text) for cue in find_cues("h/o severe asthma since 2014")]
    [('history', '', 'h/o'), ('severity', 'severe', 'severe'), ('date', '2014', 'since 2014')]
    >>> find_cues("disease, not otherwise specified")
    []
    """
    read, cues = plain(text), bundled_cues()
    spots = [
        (match, entries)
        for match in cues.find(read)
        if (entries := _entries(text, read, match, cues.table))
    ]
    return list(_standing(text, read, spots)) if spots else []


def readings(text: str, cues: Iterable[Cue]) -> Iterator[tuple[str, tuple[Cue, ...]]]:
    """Forms of a string, from itself to that without any of its cues, and what each is without.

    At most 12, all different. What decides or dates a thing, or says nothing of it, goes before
    what may be part of its name; those with least taken off come first.

    >>> text = "h/o severe acute pancreatitis"
    >>> [form for form, _ in readings(text, find_cues(text))]  # doctest: +NORMALIZE_WHITESPACE
    ['h/o severe acute pancreatitis', 'severe acute pancreatitis', 'acute pancreatitis',
     'severe pancreatitis', 'pancreatitis']
    """
    yield text, ()
    cues = sorted(cues, key=_BY_PLACE)
    first, later = (
        _choices([cue for kind in kinds for cue in cues if cue.kind == kind], _ALL[kinds])
        for kinds in (_FIRST, _LATER)
    )
    seen = {text}
    for some in (*first, *((*first[-1], *some) for some in later[1:])):
        removed = tuple(sorted(some, key=_BY_PLACE))
        form = without(text, removed) if removed else text
        if form not in seen and any(map(str.isalpha, form)):
            seen.add(form)
            yield form, removed


def without(text: str, cues: Iterable[Cue]) -> str:
    """A string without these cues, and without the signs and little words that are left hanging.

    >>> text = "pain in the knee (left), chronic"
    >>> without(text, find_cues(text)), without("carcinoma , stage 4 ", ())
    ('pain in the knee', 'carcinoma, stage 4')
    """
    pieces, last = [], 0
    for cue in sorted(cues, key=_BY_PLACE):
        pieces.append(text[last : cue.start])
        last = cue.end
    if not pieces:
        return _tidy(text)
    pieces.append(text[last:])
    bare = [_WORDS.sub("", piece) if _JOINS.fullmatch(piece) else piece for piece in pieces]
    form = _tidy(" ".join(bare))
    if _JOINS.fullmatch(pieces[0]):
        form = _LEADING.sub("", form)
    if _JOINS.fullmatch(pieces[-1]):
        joint = _TRAILING.search(form, max(0, len(form) - _NEAR))
        form = form[: joint.start()] if joint else form
    return _tidy(form)


def attributes(cues: Iterable[Cue]) -> tuple[Attribute, ...]:
    """What cues say of a thing; context says nothing of it.

    >>> attributes(find_cues("known asthma, severe"))
    (Attribute(kind='severity', value='severe', text='severe'),)
    """
    return tuple(Attribute(cue.kind, cue.value, cue.text) for cue in cues if cue.kind in ATTRIBUTES)


def _choices(cues: Sequence[Cue], every: int) -> list[tuple[Cue, ...]]:
    """Which of some cues are taken off together: none first, all last."""
    if len(cues) <= every:
        return [some for size in range(len(cues) + 1) for some in combinations(cues, size)]
    return [tuple(cues[:size]) for size in sorted({0, 1, 2, 3, len(cues)})]


def _tidy(text: str) -> str:
    """A string without brackets around nothing, and signs and spaces that separate nothing."""
    for _ in range(_ROUNDS):
        before = text
        for pattern, instead in _TIDY:
            text = pattern.sub(instead, text)
        text = _EMPTY.sub(" ", text)
        text = text.lstrip(f"{_HANGING}/)]}}").rstrip(f"{_HANGING}([{{")
        words = text.split(" ")
        while words and not words[0].strip(_STROKES):
            del words[0]
        while words and not words[-1].strip(_STROKES):
            del words[-1]
        text = " ".join(words)
        if text == before:
            break
    return text


def _standing(text: str, plain: str, spots: Sequence[_Spot]) -> Iterator[Cue]:
    """The cues among what looks like one: those that stand where the table has them."""
    says = _says(plain, spots)
    if not any(says):  # the last that may be the thing itself is: "h/o old"
        thing = next((spot for spot in reversed(spots) if spot[1][0].place != "any"), None)
        spots = [spot for spot in spots if spot is not thing]
        says = _says(plain, spots)
    chosen: list[Entry | None] = []
    said = [position for position, says_it in enumerate(says) if says_it]
    first, last = (said[0], said[-1]) if said else (len(says), -1)
    clear = True  # whether nothing but cues has come so far
    for position, (_, entries) in enumerate(spots):
        clear = clear and not says[position]
        chosen.append(_fitting(entries, "before", clear and last > position))
        clear = clear and chosen[-1] is not None
    clear = True
    for position in range(len(spots) - 1, -1, -1):
        clear = clear and not says[position + 1]
        if chosen[position] is None:
            chosen[position] = _fitting(spots[position][1], "after", clear and first <= position)
        clear = clear and chosen[position] is not None
    for (match, _), entry in zip(spots, chosen, strict=True):
        if entry is not None:
            start, end = match.span()
            value = text[slice(*match.span(match.lastgroup))] if match.lastgroup else entry.value
            yield Cue(entry.kind, value, text[start:end], start, end)


def _says(plain: str, spots: Sequence[_Spot]) -> list[bool]:
    """Whether there are words before each spot, and after the last."""
    edges = [0, *(edge for match, _ in spots for edge in match.span()), len(plain)]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [_SAYS_NOTHING.fullmatch(plain, *pair) is None for pair in pairs]


def _fitting(entries: Iterable[Entry], place: str, at_edge: bool) -> Entry | None:
    """The first row that may stand there."""
    for entry in entries:
        if entry.place == "any" and entry.kind != "negated":
            return entry
        if at_edge and entry.place in (place, "any"):
            return entry
    return None


def _entries(
    text: str, plain: str, match: re.Match[str], table: dict[str, list[Entry]]
) -> Sequence[Entry]:
    """The rows that a part of a string may be, as it is written and by what comes next."""
    start, end = match.span()
    if match.lastgroup:
        return (DATE,)
    letter = match[0].strip("()")
    if letter in ("l", "r", "g", "d") and (
        _LETTERED.search(plain, max(0, start - _NEAR), start)
        or (letter in "gd" and _LISTED.search(plain, max(0, start - _NEAR), start))
    ):
        return ()
    written = " ".join(text[start:end].split())
    return [
        entry
        for entry in table[" ".join(match[0].split())]
        if entry.written in ("", written)
        and (entry.followed is None or entry.followed.match(text, end))
    ]
