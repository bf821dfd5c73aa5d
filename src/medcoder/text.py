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

# Raise it when `fold` gives another key for any string: graphs and indexes keep the version that
# their keys were made with, and are built again when it is not this one.
FOLD_VERSION = 1

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
