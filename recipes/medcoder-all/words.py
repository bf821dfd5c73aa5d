"""Clusters of words that mean the same in several languages, mined from the vocabulary of USE.

python recipes/medcoder-all/words.py --use RESOURCES --out work/words.tsv
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from use import Use

NEAREST = 12
ALIKE = 0.66  # cosine from which two words are taken to mean the same
SHORTEST = 4  # letters; below that, pieces are often no words
# Chinese and Japanese have no blanks, so that a piece within a text may be a word there.
WITHOUT_BLANKS = re.compile("[\u3040-\u30ff\u4e00-\u9fff]{2,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--use", type=Path, required=True, help="folder: weights.npz, sp.model")
    parser.add_argument("--out", type=Path, required=True, help="table to write")
    options = parser.parse_args()
    use = Use(options.use)
    pieces = (use.words.id_to_piece(place) for place in range(use.words.get_piece_size()))
    words = list(dict.fromkeys(word.lower() for word in whole_words(pieces)))
    found = clusters(use.encode(words))
    with options.out.open("w", encoding="utf-8") as file:
        file.write("concept\tterm\n")
        for number, members in enumerate(found):
            file.writelines(f"WORD:{number}\t{words[member]}\n" for member in members)
    print(f"{len(words):,} words, {sum(map(len, found)):,} of them in {len(found):,} clusters")


def whole_words(pieces: Iterator[str]) -> Iterator[str]:
    """Pieces that are words: those that begin one, and those of scripts without blanks."""
    for piece in pieces:
        if piece.startswith("▁"):
            word = piece[1:]
            if len(word) >= SHORTEST and word.isalpha():
                yield word
        elif WITHOUT_BLANKS.fullmatch(piece):
            yield piece


def clusters(vectors: np.ndarray) -> list[list[int]]:
    """Words with their nearest, densest first; each word is in one cluster at most."""
    near, scores = _nearest(torch.from_numpy(vectors))
    scores = np.where(scores >= ALIKE, scores, 0)
    taken = np.zeros(len(vectors), bool)
    found = []
    for word in np.argsort(-scores.sum(1)).tolist():
        if taken[word]:
            continue
        others = near[word][(scores[word] > 0) & ~taken[near[word]]].tolist()
        if others:
            found.append([word, *others])
            taken[found[-1]] = True
    return found


def _nearest(vectors: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The words nearest to each (n, 12), not itself, and their cosines."""
    found, count = [], min(NEAREST, len(vectors) - 1)
    for start in range(0, len(vectors), 2048):
        scores = vectors[start : start + 2048] @ vectors.T
        rows = torch.arange(len(scores))
        scores[rows, rows + start] = -1
        found.append(scores.topk(count, 1))
    near = torch.cat([top.indices for top in found]).numpy()
    return near, torch.cat([top.values for top in found]).numpy()


if __name__ == "__main__":
    main()
