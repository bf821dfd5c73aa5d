"""Surface forms: clean them for keeping, fold them for exact look-up."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medcoder.errors import ArtefactError

if TYPE_CHECKING:
    import polars as pl


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


# Raise it when `fold` gives another key for any string: graphs and indexes keep the version that
# their keys were made with, and are built again when it is not this one.
FOLD_VERSION = 1

# Raise it when `not_a_term` decides otherwise for any name, or other names are derived: the bundled
# graph is built again.
NAMES_VERSION = 3

# Spaces and control characters, by Unicode category, are one space in a clean term.
_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b\u2028\u2029\ufeff]+")
_APOSTROPHES = "'\u2018\u2019\u02bc`"
_ACUTE = "\u00b4"  # typed for one; normalisation would make a space and an accent of it
# Soft hyphens, joiners and marks of direction cannot be seen, and come with copied text.
_UNSEEN = re.compile(f"[{_APOSTROPHES}\u00ad\u061c\u180e\u200c-\u200f\u202a-\u202e\u2060-\u2069]+")
# Signs that change a meaning and stay beside letters, digits and marks: "Rh+", "50%", "<1".
_SIGNS = "+%<>=&"
# Latin and Greek diacritics are often left out when typing, so they do not count. In other scripts
# (Japanese dakuten, Thai vowels, Indic signs) a mark makes another letter, so it stays.
_LATIN_GREEK = "A-Za-z\u00c0-\u024f\u0370-\u03ff\u1e00-\u1fff"
_MARK = re.compile("[\u0300-\u036f]")
_MARKS = re.compile(f"(?<=[{_LATIN_GREEK}])[\u0300-\u036f]+")

# Units count after a number, in any case but for those of a letter: 3 h are hours, 3H is tritium.
_LETTER_UNITS = frozenset("gmlLhdsyuU\u0433\u043b")
_UNITS = _words(
    "kg mg mcg ug ng pg fg lb lbs oz ml dl cl ul fl nl km cm mm nm um inch inches ft mol mmol umol",
    "nmol pmol fmol iu miu uiu unit units mmhg cmh kpa pa bpm rpm min mins minute minutes sec secs",
    "second seconds msec ms hr hrs hour hours day days wk wks week weeks mo mos month months yr",
    "yrs year years kcal cal kj mj kw mv kv ma hz khz mhz ghz db meq mosm osm cells gy cgy mgy sv",
    "msv mci bq kbq mbq gbq ppm ppb per \u043c\u0433 \u043c\u043b \u043a\u0433 \u043c\u043c",
    "\u0441\u043c \u0440\u0442 \u0441\u0442 \u043c\u0438\u043d \u0447\u0430\u0441",
    "\u0434\u043d\u0435\u0439 \u043b\u0435\u0442",
)
_LONG_UNITS = _words("mmhg mmol umol nmol pmol kpa mosm meq kcal")  # short for nothing else
_MONTHS = _words(
    "jan january feb february mar march apr april may jun june jul july aug august sep sept",
    "september oct october nov november dec december januar februar marz mai juni juli oktober",
    "dezember janvier fevrier mars avril juin juillet aout septembre octobre novembre decembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre janeiro fevereiro",
    "marco maio junho julho setembro outubro januari februari maart mei augustus mon monday tue",
    "tuesday wed wednesday thu thursday fri friday sat saturday sun sunday",
)
_OF_DATES = _words(  # after a number
    "am pm utc gmt st nd rd th of de \u5e74 \u6708 \u65e5 \u6642 \u65f6 \u5206 \u79d2",
    "\ub144 \uc6d4 \uc77c \uc2dc \ubd84 \ucd08",
)
_PARTS = re.compile(r"(\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?)|([^\W\d_]+)")
_WORD = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")
_WATER = re.compile("cmh2o", re.IGNORECASE)
_CHARGE = re.compile(r"\w[+\u2212-]{1,2}")  # K+, and the blood group A-
# A word with a long number, and addresses of mail and of pages.
_IDENTIFIER = re.compile(  # MRN 0048213, SN:ACCD4D83-974945595
    r"[\W_]*[^\W\d_]{1,12}[\W_]*(?:[0-9A-F]{4,}[\W_]+)?\d{5,}[\W_]*"
)
_PLACE = re.compile(
    r"\S+@\S+\.\w+|\w+://\S+|www\.\S+"
    r"|(?:[a-z]:|~|\.{1,2})?(?:[\\/][^\s\\/]+){2,}[\\/]?",  # a path
    re.IGNORECASE,
)
_ADDRESS = 256  # characters of them at most
_SCRIPTS = ("LATIN", "GREEK", "CYRILLIC")
_AMOUNT = 64  # characters that a number with its unit, or a date, has at most
_OFTEN = 4  # times that a letter is repeated: AAA and SSS are abbreviations

# ISO 639-2 codes of UMLS and RF2 to BCP 47.
LANGUAGE_TAGS = {
    "ara": "ar", "baq": "eu", "chi": "zh", "cze": "cs", "dan": "da", "dut": "nl", "eng": "en",
    "est": "et", "eus": "eu", "fin": "fi", "fra": "fr", "fre": "fr", "deu": "de", "ger": "de",
    "gre": "el", "ell": "el", "heb": "he", "hrv": "hr", "hun": "hu", "ita": "it", "jpn": "ja",
    "kor": "ko", "lav": "lv", "nld": "nl", "nob": "nb", "nor": "no", "pol": "pl", "por": "pt",
    "rum": "ro", "rus": "ru", "scr": "hr", "slo": "sk", "spa": "es", "swe": "sv", "tur": "tr",
    "ukr": "uk", "vie": "vi", "zho": "zh", "ces": "cs",
}  # fmt: skip


def clean(text: str) -> str:
    """One line, NFC, single spaces, nothing else changed.

    >>> clean("  1-(2-chlorophenyl)-3-\\tmethylurea\\u2028")
    '1-(2-chlorophenyl)-3- methylurea'
    """
    return _SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip()


def fold(text: str) -> str:
    """The key of exact look-up: two strings that fold alike are the same term.

    Compatibility forms, case, apostrophes, punctuation, spacing, invisible characters and the
    accents of Latin and Greek letters do not count. Punctuation alone folds to itself.

    >>> fold("Crohn\u2019s  Disease (NOS)"), fold("épilepsie"), fold("が")
    ('crohns disease nos', 'epilepsie', 'が')
    """
    if text.isascii():
        plain = text.lower()
        bare = plain.translate(_FOLDED)
    else:
        plain = unicodedata.normalize("NFKC", text.replace(_ACUTE, "'")).casefold()
        plain = unicodedata.normalize("NFKC", plain)
        bare = _UNSEEN.sub("", plain)
        if len(bare) < len(plain):  # letters and marks may have met
            bare = unicodedata.normalize("NFKC", bare)
        bare = bare.translate(_FOLDED)
        while _MARK.search(bare):  # no composed form, or marks of two scripts on one letter
            barer = unicodedata.normalize("NFKC", _MARKS.sub("", bare)).translate(_FOLDED)
            if barer == bare:
                break
            bare = barer
    return " ".join(bare.split()) or clean(plain)


def fold_series(texts: pl.Series) -> pl.Series:
    """`fold` of a column: in polars where all is ASCII, in Python elsewhere."""
    bare = (
        texts.str.to_lowercase()
        .str.replace_all(r"['`]", "")
        .str.replace_all(r"[^a-z0-9+%<>=&]+", " ")
        .str.strip_chars(" ")
    )
    rest = (~(is_ascii(texts) & (bare != ""))).arg_true()
    if len(rest) == 0:
        return bare
    # polars itself is not imported here: a graph is read where it is not installed.
    folded = type(texts)([fold(text) for text in texts.gather(rest)], dtype=texts.dtype)
    return bare.scatter(rest, folded)


def is_ascii(texts: pl.Series) -> pl.Series:
    return texts.str.len_bytes() == texts.str.len_chars()


def not_a_term(text: str) -> str | None:
    """What a string is that names nothing, in words; None if it may be a term.

    Numbers, dates, times, numbers with units, signs, single letters of the Latin, Greek and
    Cyrillic scripts, and a letter again and again are no terms. One Chinese, Japanese or Korean
    sign may be, and a number beside a word is part of the term.

    >>> not_a_term("277"), not_a_term("120/80 mmHg"), not_a_term("12 Mar 2019"), not_a_term("x")
    ('a number or a date', 'a number with a unit', 'a date or a time', 'a single letter')
    >>> [not_a_term(text) for text in ("trisomy 21", "T4", "22q11.2", "45,X", "K+", "\u764c")]
    [None, None, None, None, None, None]
    """
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text).replace("\u03bc", "u")
    first = _WORD.search(plain)
    if first is None:
        return "a number or a date" if any(map(str.isnumeric, plain)) else "signs without letters"
    if _DIGIT.search(plain):
        return _amount(plain) if len(plain) <= _AMOUNT else None
    letter = first[0][0]
    if len(first[0]) == 1 or first[0] == letter * len(first[0]):
        letters = [char for char in plain if char.isalpha()]
        if set(letters) == {letter} and unicodedata.name(letter, "").startswith(_SCRIPTS):
            if len(letters) == 1 and not _CHARGE.fullmatch(plain.strip()):
                return "a single letter"
            if len(letters) >= _OFTEN:
                return "a letter again and again"
    return _unit(plain)


def nothing_meant(query: str) -> str | None:
    """What a query is that means nothing, unless it is a name as it stands; None if it may."""
    return not_a_term(query) or identifies(query)


def identifies(text: str) -> str | None:
    """What a string is that names a single person, thing or place, in words; None if it may not.

    Some drugs are called so: it may be a name in a graph, and is none that something else is near.

    >>> identifies("MRN 0048213"), identifies("anna@example.org"), identifies("trisomy 21")
    ('an identifier', 'an address', None)
    >>> identifies("SN:ACCD4D83-974945595"), identifies("CD4 12345 cells")
    ('an identifier', None)
    >>> [identifies(text) for text in ("/home/ann/a.pdf", "C:/scans/a.pdf", "N/V/D")]
    ['an address', 'an address', None]
    """
    if len(text) > _ADDRESS:
        return None
    if _IDENTIFIER.fullmatch(text):
        return "an identifier"
    return "an address" if _PLACE.fullmatch(text) else None


def _amount(plain: str) -> str | None:
    """What numbers with nothing but units, or names of months, are."""
    parts = list(_PARTS.finditer(_WATER.sub("cmh", plain)))
    kind, counted, end = "", False, 0
    for position, part in enumerate(parts):
        word, start = part[2], part.start()
        if word is None:
            counted, end = True, part.end()
            continue
        low = _folded(word)
        last = position + 1 == len(parts)
        between = counted and not last and parts[position + 1][2] is None  # two numbers
        if low in _MONTHS:
            kind = "a date or a time"
        elif not counted:
            return _unit(plain)
        elif low in _OF_DATES or (low == "t" and between) or (low == "z" and last):
            kind = kind or "a date or a time"
        elif _is_unit(word) or _degrees(word, plain[end:start], plain[:end]):
            kind = kind or "a number with a unit"
        elif not (low == "x" and between):
            return None
        end = part.end()
    return kind or "a number or a date"


def _degrees(word: str, gap: str, before: str) -> bool:
    """Whether C or F stands for a temperature: 18F may be an isotope, 37 C and 37.5C are none."""
    return word in ("C", "F") and bool(gap or "." in before or "," in before)


def _unit(plain: str) -> str | None:
    """Units alone: mg/dL, mmHg. A short one may be short for something else: MS, PT."""
    if len(plain) > _AMOUNT or ("/" not in plain and _folded(plain.strip()) not in _LONG_UNITS):
        return None
    words = _WORD.findall(plain)
    return "a unit" if words and all(map(_is_unit, words)) else None


def _is_unit(word: str) -> bool:
    return _folded(word) in _UNITS or word in _LETTER_UNITS


def _folded(word: str) -> str:
    return word.lower() if word.isascii() else fold(word)


def check_fold(meta: Mapping[str, Any], path: Path, *, command: str) -> None:
    """Whether a directory was made with this `fold`; `command` builds it again."""
    version = meta.get("fold", 1)  # the first version was not written down
    if version != FOLD_VERSION:
        raise ArtefactError(
            "its look-up keys are of another version than this medcoder makes",
            where=path,
            values=f"fold {version}, not {FOLD_VERSION}",
            remedy=f"Build it again with: {command}, or use the medcoder that made it "
            f"({meta.get('made_by', 'unknown')})",
        )


def language_tag(code: str) -> str:
    """BCP 47 in lower case from a two- or three-letter code or a tag.

    >>> [language_tag(code) for code in ("ENG", "fr", "zh_TW", "en-US")]
    ['en', 'fr', 'zh-tw', 'en-us']
    """
    primary, dash, rest = code.strip().lower().replace("_", "-").partition("-")
    return LANGUAGE_TAGS.get(primary, primary) + dash + rest


def language_in(tag: str, languages: Collection[str]) -> bool:
    """Whether a tag, or the language that it is a variety of, is among `languages`.

    >>> language_in("pt-br", {"pt"}), language_in("pt", {"pt-br"})
    (True, False)
    """
    return tag in languages or tag.partition("-")[0] in languages


# What a query is read without: signs that variants of a string differ by, and that the meaning of
# a string does not hang on. A comma does: "headache, left" is a headache. So do signs in numbers.
_APART = re.compile(
    r"(?<!\d)[./]|[./](?!\d)|[:;](?!\d)"
    r"|[-\u2010-\u2015_()\[\]{}\"!?*|\u2022\u00b7#~\\]"
)
_COMMAS = re.compile(r"\s*[,\uff0c]\s*(?:,\s*)*")
_QUOTES = re.compile(f"[{_APOSTROPHES}{_ACUTE}]")


def spoken(text: str) -> str:
    """A string as an encoder is to read it: what it would not say aloud is left out.

    Two ways of typing the same, which differ by spacing, a full stop, hyphens or brackets, are
    read as one. Accents and case are the encoder's own.

    >>> spoken("Burn of hand (second-degree)."), spoken("A.B.P.A."), spoken("2.5 cm, L4/5 ")
    ('Burn of hand second degree', 'A B P A', '2.5 cm, L4/5')
    """
    if text.isascii() and text.isalpha():
        return text
    bare = unicodedata.normalize("NFKC", _QUOTES.sub("'", text))
    bare = _COMMAS.sub(", ", _APART.sub(" ", bare))
    return " ".join(bare.split()).strip(" ,'") or text


class _Folded(dict[int, str]):
    """What `fold` makes of a character; each is worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _APOSTROPHES:
            folded = ""
        elif char in _SIGNS or unicodedata.category(char)[0] in "LMN":
            parts = unicodedata.normalize("NFD", char)
            bare = _MARKS.sub("", parts)
            folded = char if bare == parts else bare
        else:
            folded = " "
        self[code] = folded
        return folded


_FOLDED = _Folded()
