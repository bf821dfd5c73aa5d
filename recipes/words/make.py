"""Make the list of words that are no slips: src/medcoder/bundled/words.

python recipes/words/make.py SENTENCES OUT [--scowl FILE ...] [--opentaal FILE]

SENTENCES: a folder with tatoeba.parquet (CC BY 2.0 FR) and tico19.parquet (CC0), columns lang, en,
text. SCOWL and OpenTaal are Debian's packages wamerican, wbritish and wdutch. Our own phrases and
names of data/train (CC0) come from this repository. What each list is, and its licence, is in
OUT/manifest.toml, which is written by hand.

A word counts where it is met often enough that it is hardly a slip itself. English words are those
of SCOWL and of our names alone: sentences and phrases in English have slips, some on purpose. OUT
gets two files of little-endian numbers: the low 32 bits of the hash of each word, in ascending
order, and a bit for each of the languages of `medcoder.normalize.words` that has it.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from medcoder.kg.keys import hash_text
from medcoder.normalize.words import LANGUAGES, LOW
from medcoder.text import fold

OWN = Path(__file__).resolve().parents[2] / "data" / "train"
LONGEST = 16  # letters
OTHER = len(LANGUAGES)  # the bit of all other languages
SENTENCES, PHRASES = 3, 3  # times that a word is met at least


def words(text: str) -> set[str]:
    """Those of a text, folded; not those in capitals, which are abbreviations."""
    plain = " ".join(word for word in text.split() if not (len(word) > 1 and word.isupper()))
    return {word for word in fold(plain).split() if word.isalpha() and len(word) <= LONGEST}


def sentences(folder: Path) -> Iterator[tuple[str, str]]:
    for name in ("tatoeba", "tico19"):
        table = pq.read_table(folder / f"{name}.parquet", columns=["lang", "en", "text"])
        for language, english, text in zip(*table.to_pydict().values(), strict=True):
            yield "en", english
            yield language, text


def rows(folder: str) -> Iterator[tuple[str, dict[str, str]]]:
    for file in sorted((OWN / folder).glob("*.tsv")):
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                yield file.stem, row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sentences", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scowl", type=Path, nargs="*", default=[])
    parser.add_argument("--opentaal", type=Path, nargs="*", default=[])
    asked = parser.parse_args()
    met: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for language, text in sentences(asked.sentences):
        met[language].update(words(text))
    bits: defaultdict[str, int] = defaultdict(int)

    def add(language: str, word: str) -> None:
        bits[word] |= 1 << (LANGUAGES.index(language) if language in LANGUAGES else OTHER)

    met.pop("en")
    for language, counted in met.items():
        for word, count in counted.items():
            if count >= SENTENCES:
                add(language, word)
    phrases: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for language, row in rows("lay"):
        if language == "en":
            continue
        phrases[language].update(words(row["phrase"]))
    for language, counted in phrases.items():
        for word, count in counted.items():
            if count >= PHRASES:
                add(language, word)
    for _, row in rows("parallel"):
        for language, text in row.items():
            if len(language) == 2:
                for word in words(text or ""):
                    add(language, word)
    for language, files in (("en", asked.scowl), ("nl", asked.opentaal)):
        for file in files:
            for word in file.read_text(encoding="utf-8").split("\n"):
                if word and " " not in word and word[0].islower():
                    for part in words(word):
                        add(language, part)
    by_hash: defaultdict[int, int] = defaultdict(int)
    for word, languages in bits.items():
        by_hash[hash_text(word) & LOW] |= languages
    hashes = np.array(sorted(by_hash), "<u4")
    hashes.tofile(asked.out / "hash.uint32")
    np.array([by_hash[key] for key in hashes.tolist()], "<u2").tofile(
        asked.out / "languages.uint16"
    )


if __name__ == "__main__":
    main()
