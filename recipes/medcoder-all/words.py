"""Words of other languages with the English word that means the same, mined with USE.

python recipes/medcoder-all/words.py TERMS.parquet --use RESOURCES --out work/words.tsv

Candidates are the words of USE's own vocabulary, of the terms of the graph and of `data/`, in the
languages that USE speaks. Each is tied to the English word that is nearest to it, if that is nearer
than the surroundings of the two let one expect: some words are near to very many others, and
without that they would draw a crowd of strangers.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
import torch
from prepare import COLUMNS, take
from teachers import SPOKEN
from use import Use
from wordfreq import zipf_frequency

from tables import read_lay, read_parallel

NEAREST = 20  # English words that are looked at, and the surroundings of a word
ALIKE = 0.62  # least cosine
NEARER = 0.2  # least margin over the surroundings: 2 cos(a, b) - mean near a - mean near b
OFTEN = 2  # a word of a term counts if it comes so often
SHORTEST = 3  # letters
COMMON = 3.0  # from this frequency (of 10^9 words, its logarithm) a word is taken for English
OTHERS = ("de", "fr", "es", "it", "nl", "pt", "pl", "tr")
# Chinese and Japanese have no blanks, so that a piece within a text may be a word there. In Korean,
# particles stick to the words.
WITHOUT_BLANKS = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2,}")
WORD = re.compile(r"[^\W\d_]+")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("terms", type=Path, metavar="TERMS", help="merged table of terms, Parquet")
    parser.add_argument("--use", type=Path, required=True, help="folder: weights.npz, sp.model")
    parser.add_argument("--out", type=Path, required=True, help="table to write")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "data" / "train")
    options = parser.parse_args()
    use = Use(options.use)
    pieces = (use.words.id_to_piece(place) for place in range(use.words.get_piece_size()))
    words = dict.fromkeys(whole_words(pieces))
    graph = take(pl.read_parquet(options.terms, columns=COLUMNS), all_sources=False)
    words |= dict.fromkeys(words_of(terms_of(graph, options.data)))
    english = [word for word in words if is_english(word)]
    known = set(english)
    others = [word for word in words if word not in known]
    found = pairs(use.encode(others), use.encode(english))
    clusters = defaultdict(list)
    for other, number in found:
        clusters[english[number]].append(others[other])
    with options.out.open("w", encoding="utf-8") as file:
        file.write("concept\tterm\n")
        for number, (word, members) in enumerate(sorted(clusters.items())):
            file.writelines(f"WORD:{number}\t{term}\n" for term in [word, *members])
    print(f"{len(others):,} words, {len(found):,} of them tied to {len(clusters):,} English ones")


def whole_words(pieces: Iterable[str]) -> Iterable[str]:
    """Pieces that are words: those that begin one, and those of scripts without blanks."""
    for piece in pieces:
        if piece.startswith("▁"):
            word = piece[1:]
            if len(word) >= SHORTEST and word.isalpha():
                yield word.lower()
        elif WITHOUT_BLANKS.fullmatch(piece):
            yield piece


def terms_of(graph: pl.DataFrame, data: Path) -> Iterable[str]:
    """Texts in the languages that USE speaks."""
    spoken = graph.filter(pl.col("lang").is_in(SPOKEN))
    yield from spoken["term"]
    yield from (one.phrase for one in read_lay(data) if one.language in SPOKEN)
    for row in read_parallel(data):
        for language, terms in row.terms.items():
            if language in SPOKEN:
                yield from terms


def words_of(texts: Iterable[str]) -> Iterable[str]:
    counts = Counter(word for text in texts for word in WORD.findall(text.lower()))
    for word, count in counts.items():
        if count >= OFTEN and SHORTEST <= len(word) <= 24 and not WITHOUT_BLANKS.search(word):
            yield word


def is_english(word: str) -> bool:
    if not word.isascii():
        return False
    here = zipf_frequency(word, "en")
    return here >= COMMON and here >= max(zipf_frequency(word, tag) for tag in OTHERS) - 0.3


def pairs(others: np.ndarray, english: np.ndarray) -> list[tuple[int, int]]:
    """Numbers of words, each with that of its English one."""
    here, there = torch.from_numpy(others), torch.from_numpy(english)
    around_there = _near(there, here)[0].mean(1)  # (e,)
    cosine, nearest = _near(here, there)  # (n, 20)
    margin = 2 * cosine - cosine.mean(1, keepdim=True) - around_there[nearest]
    best = margin.argmax(1, keepdim=True)
    good = (cosine.gather(1, best) >= ALIKE) & (margin.gather(1, best) >= NEARER)
    chosen = nearest.gather(1, best)[:, 0].tolist()
    return [(place, chosen[place]) for place in good[:, 0].nonzero()[:, 0].tolist()]


def _near(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    found = [(some @ other.T).topk(min(NEAREST, len(other)), 1) for some in one.split(2048)]
    return torch.cat([top.values for top in found]), torch.cat([top.indices for top in found])


if __name__ == "__main__":
    main()
