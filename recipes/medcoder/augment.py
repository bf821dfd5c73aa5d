"""Terms as people misspell, shorten and qualify them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from styles import styled

from medcoder.normalize.calibration_queries import misspell

Terms = Mapping[str, Sequence[tuple[str, str]]]  # concept -> (term, language)
Made = tuple[str, str, str]  # text, concept, language

# Languages in which a letter more or less is a slip of the fingers.
ALPHABETIC = {
    "cs", "da", "de", "el", "en", "es", "fi", "fr", "hr", "hu", "it", "nb", "nl", "no", "pl", "pt",
    "ro", "ru", "sk", "sv", "tr", "uk", "vi",
}  # fmt: skip
# What stands beside a diagnosis and does not change what it is, "{}" being its name.
QUALIFIERS = {
    "en": (
        "mild {}", "severe {}", "moderate {}", "chronic {}", "acute {}", "recurrent {}",
        "known {}", "new {}", "left {}", "right {}", "bilateral {}", "{} left", "{} right",
        "{}, left", "{} bilat", "?{}", "query {}", "susp {}", "probable {}", "hx of {}", "h/o {}",
        "hx {}", "PMH {}", "{} since yesterday", "{} x 3 days", "{} for 2 weeks", "worsening {}",
        "{} on treatment", "{} (stable)", "{} 2019", "pt with {}", "pt has {}", "c/o {}",
        "{}, unspecified", "{} NOS", "unspecified {}", "{} (disorder)", "s/p {}", "{} ongoing",
    ),
    "de": (
        "V.a. {}", "Z.n. {}", "bek. {}", "{} li", "{} re", "{} bds.", "akute {}", "chron. {}",
        "leichte {}", "schwere {}", "rezid. {}", "{} seit 3 Tagen", "{}, nicht näher bezeichnet",
    ),
    "es": (
        "sosp. {}", "antec. de {}", "{} izq", "{} dcha", "{} bilateral", "{} aguda", "{} crónica",
        "{} leve", "{} grave", "{} desde hace 3 días", "{} no especificada", "posible {}",
    ),
    "fr": (
        "susp. {}", "ATCD {}", "{} G", "{} D", "{} bilat.", "{} aiguë", "{} chronique",
        "{} modérée", "{} sévère", "{} depuis 3 jours", "{} sans précision", "{} connue",
    ),
    "nl": (
        "verd. {}", "VG {}", "{} li", "{} re", "{} bdz", "acute {}", "chron. {}", "milde {}",
        "ernstige {}", "recid. {}", "{} sinds 3 dagen", "{} niet gespecificeerd", "bekend met {}",
    ),
}  # fmt: skip
TWICE = 0.3  # of misspelt terms have a second slip


def misspelt(terms: Terms, share: float, rng: np.random.Generator) -> Iterator[Made]:
    """For a share of the concepts, one of their terms with a slip or two."""
    for concept, text, tag in _some(terms, share, ALPHABETIC, (6, 60), rng):
        wrong = misspell(text, rng)
        if rng.random() < TWICE:
            wrong = misspell(wrong, rng)
        wrong = " ".join(wrong.split())
        if wrong and wrong != text:
            yield wrong, concept, tag


def shortened(terms: Terms, share: float, rng: np.random.Generator) -> Iterator[Made]:
    """For a share of the concepts, one of their English terms as a clerk may write it."""
    for concept, text, tag in _some(terms, share, {"en"}, (5, 80), rng):
        made = " ".join(styled(text, rng).split())
        if made.lower() != text.lower():
            yield made, concept, tag


def qualified(terms: Terms, times: int, rng: np.random.Generator) -> Iterator[Made]:
    """So many times, one term of each concept with something beside it that does not change it."""
    for _ in range(times):
        for concept, text, tag in _some(terms, 1.0, set(QUALIFIERS), (3, 50), rng):
            ways = QUALIFIERS[tag]
            way = ways[int(rng.integers(len(ways)))]
            first = way.replace("{}", "").strip(" ?.,()").lower()
            if first not in text.lower():  # no "acute acute bronchitis"
                yield way.format(text), concept, tag


def _some(
    terms: Terms,
    share: float,
    languages: set[str],
    length: tuple[int, int],
    rng: np.random.Generator,
) -> Iterator[tuple[str, str, str]]:
    """One term of these languages and lengths, of a share of the concepts."""
    least, most = length
    for concept, some in terms.items():
        good = [
            (text, tag)
            for text, tag in some
            if tag.partition("-")[0] in languages and least <= len(text) <= most
        ]
        if good and rng.random() < share:
            text, tag = good[int(rng.integers(len(good)))]
            yield concept, text, tag
