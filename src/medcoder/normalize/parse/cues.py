"""The table of cues, and the patterns that find them in a string.

The patterns of cues that begin with the same letter are made when a string first needs them: all of
them would take longer than an answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from medcoder.errors import ArtefactError
from medcoder.types import ATTRIBUTES

FILE = Path(__file__).with_name("cues.tsv")
COLUMNS = ("cue", "language", "kind", "value", "place")
KINDS = (*ATTRIBUTES, "context")
PLACES = ("before", "any", "after")  # in the order in which they are tried

_START = r"(?<![^\W_])(?<![^\W_]-)"
_END = r"(?![^\W_]|[-'][^\W_])"
_YEAR = r"(?:19|20)\d\d"
_AMOUNT = r"\s*(?:(?:mc?g|ml|g|iu|ie|ui|k?cal|units?|cells)\b|%|/)"
_PREGNANT = r"\s*(?:of\s+)?(?:gestation|pregnan|gravid|ssw\b|zwanger|amenorr|de\s+gesta)"
_GERMAN_NOUN = r"\s+(?:auf\b|[A-Z\u00c4\u00d6\u00dc][a-z\u00e4\u00f6\u00fc\u00df]{2})"
_SHOUTED = r"(?!\s+(?:FOR|TO)\b)\s+[^\W\d_][^a-z]*$"
_ALONE = r"(?:$|[\s)\],;:]|\.(?:\s|$))(?!\s*\d)"

# What has to follow a cue, by how the table writes it. "no 3" is a number, "post viral" no past.
_FOLLOWED = {
    "no": re.compile(r"(?![.\u00ba\u00b0]|[.:]?\s*\d)"),
    "post": re.compile(r"(?!\s+\w+(?:al|ic|ive|ous|ary|oid|ed)\b)", re.IGNORECASE),
    **dict.fromkeys(("chr", "chr."), re.compile(r"(?!\.?\s*[\dXY])")),
    **dict.fromkeys(("=Zn", "=ZN", "=VA", "=Va.", "=Li", "=Re"), re.compile(_GERMAN_NOUN)),
    **dict.fromkeys(("=RT", "=LT"), re.compile(_SHOUTED)),
    **dict.fromkeys(("=L", "=R", "=G", "=D"), re.compile(_ALONE)),
}


class Entry(NamedTuple):
    """A row of the table."""

    kind: str
    value: str
    place: str
    written: str  # exactly so, if it is not empty
    followed: re.Pattern[str] | None  # what has to come next


DATE = Entry("date", "", "any", "", None)
_WORD, _WORD_END = re.compile(r"[^\W_]+"), r"(?![^\W_])"
_WORDY = ("moment", "count")  # parts of dates that stand for numbers
_SPOTS = re.compile(rf"{_START}[^\W_]|[^\w\s]|_")  # where a cue may begin


class Cues:
    """The cues that there are, and where strings have something like one."""

    def __init__(self, rows: Iterable[dict[str, str]]) -> None:
        table: defaultdict[str, list[Entry]] = defaultdict(list)
        self._dates: defaultdict[str, list[str]] = defaultdict(list)
        names = []
        for row in rows:
            cue, exact = row["cue"], row["cue"].startswith("=") and len(row["cue"]) > 1
            key = plain(cue.removeprefix("=") if exact else cue)
            if row["kind"] == "date":
                self._dates[row["value"]].append(key)
            elif row["kind"] == "name":
                names.append(key)
            else:
                followed = _FOLLOWED.get(cue)
                written = cue[1:] if exact else ""
                table[key].append(Entry(row["kind"], row["value"], row["place"], written, followed))
        for entries in table.values():
            entries.sort(key=lambda entry: PLACES.index(entry.place))
        for name in names:
            table[name] = []
        self.table = dict(table)
        self._keys: defaultdict[str, list[str]] = defaultdict(list)
        for key in table:
            self._keys[key[0]].append(key)
        # Dates have a digit, or one of these words.
        self._of_dates = {max(_words(key), key=len) for part in _WORDY for key in self._dates[part]}
        self._patterns: dict[str, re.Pattern[str] | None] = {}

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """What looks like a cue in a plain string: the longest where several begin."""
        dated = any(map(str.isdigit, text)) or not self._of_dates.isdisjoint(_words(text))
        dates = self._date_pattern() if dated else None
        end = 0
        for spot in _SPOTS.finditer(text):
            start = spot.start()
            if start < end:
                continue
            match = dates.match(text, start) if dates and text[start].isalnum() else None
            if match is None:
                pattern = self._pattern(text[start])
                match = pattern.match(text, start) if pattern else None
            if match is not None:
                end = match.end()
                yield match

    def _pattern(self, letter: str) -> re.Pattern[str] | None:
        if letter not in self._patterns:
            keys = self._keys.get(letter)
            self._patterns[letter] = re.compile(_either(keys)) if keys else None
        return self._patterns[letter]

    def _date_pattern(self) -> re.Pattern[str]:
        if "" not in self._patterns:
            parts = {part: _either(keys, end=_WORD_END) for part, keys in self._dates.items()}
            self._patterns[""] = re.compile(_date(parts))
        pattern = self._patterns[""]
        assert pattern is not None
        return pattern


@cache
def bundled_cues() -> Cues:
    """Those that come with the package."""
    return Cues(_rows())


def _words(text: str) -> Sequence[str]:
    return _WORD.findall(text)


def _date(part: dict[str, str]) -> str:
    """A pattern of dates, of how long something lasts, and of ages; `part` has words of them."""
    day, some = r"\d{1,2}(?:st|nd|rd|th|er|[.\u00ba])?", r"\d{1,3}(?:[.,]\d)?(?:\s*-\s*\d{1,3})?\+?"
    year = rf"{_YEAR}s?(?:\s*(?:\u0433(?:\u043e\u0434[\u0430\u0443]?|\.)?|r(?:oku|\.)))?"
    month = rf"(?:{day}\s*(?:of\s+|de\s+)?)?{part['month']}[.,]?\s*(?:de\s+)?(?:{_YEAR}|'\d\d)"
    core = (
        r"\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d\d)",
        rf"{_YEAR}[-./](?:0?[1-9]|1[0-2])(?:[-./]\d{{1,2}})?",
        rf"(?:0?[1-9]|1[0-2])[./-]{_YEAR}",
        month,
        rf"{_YEAR}\s*-\s*(?:{_YEAR}|\d\d)",
        rf"{year}(?!{_AMOUNT}|[.,/]\d)",
        rf"{some}[\s-]*{part['unit']}",
        r"(?<!va )(?<!visus )\d{1,2}/(?:52|12|7)",
    )
    lead = rf"(?:{part['lead']}\s+|x\s*)"
    tail = rf"(?:[\s-]+{part['tail']})*{_END}(?!{_PREGNANT})"
    short = rf"{some}\s*{part['short']}|{part['count']}\s+{part['unit']}"
    return (
        rf"{lead}{{0,2}}(?P<date>{'|'.join(core)}){tail}|{lead}(?P<since>{short}){tail}"
        rf"|(?P<moment>{part['moment']}){_END}"
    )


def _either(keys: Iterable[str], *, end: str = _END) -> str:
    """A pattern of any of these strings, the longest first; what they begin with comes once."""
    return _tails(sorted(set(keys)), "", end)


def _tails(tails: Sequence[str], last: str, end: str) -> str:
    shared: defaultdict[str, list[str]] = defaultdict(list)
    for tail in tails:
        shared[tail[:1]].append(tail[1:])
    branches = [
        (r"\s+" if char == " " else re.escape(char)) + _tails(rest, char, end)
        for char, rest in shared.items()
        if char
    ]
    if "" in shared:
        branches.append(end if last.isalnum() else "")
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _rows() -> Iterator[dict[str, str]]:
    try:
        header, *lines = FILE.read_text(encoding="utf-8").split("\n")
        if tuple(header.split("\t")) != COLUMNS:
            raise ValueError(f"its columns are {header!r}")
        for line in filter(None, lines):
            yield dict(zip(COLUMNS, line.split("\t"), strict=True))
    except (OSError, ValueError) as error:
        raise ArtefactError(
            "the table of cues cannot be read", where=FILE, values=error,
            remedy="Install medcoder again",
        ) from error  # fmt: skip


def plain(text: str) -> str:
    """A string in small letters without accents, each character where it was."""
    return text.lower() if text.isascii() else text.translate(_PLAIN)


class _Plain(dict[int, str]):
    """What stands for a character; each is worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        plain = char.lower()
        bare = unicodedata.normalize("NFD", plain)[:1]
        if "a" <= bare <= "z" or bare == "\u0435" or len(plain) > 1:
            plain = bare
        self[code] = plain
        return plain


_PLAIN = _Plain(
    {0x2019: "'", 0x2018: "'", 0xB4: "'", 0x2010: "-", 0x2011: "-", 0x2013: "-", 0x142: "l",
     0x141: "l"}
)  # fmt: skip
