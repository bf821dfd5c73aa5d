"""Vectors of the teachers for every term that training may draw.

python recipes/medcoder-all/teachers.py work --minilm MINILM --mpnet MPNET --use RESOURCES

Made are work/minilm.npy, work/mpnet.npy and work/use.npy: a row for each term of work/train.kg,
then for each of work/extra.tsv, zero where a teacher is not asked. What it prints is how training
is told of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from prepare import ANY, TYPO

from medcoder import KG
from medcoder.model.encoder import TransformerEncoder
from medcoder.text import language_in
from medcoder.train.extra import read_extra

# A teacher is asked about what it speaks: MiniLM and mpnet English, slips of the fingers too.
ENGLISH = ("en", TYPO + "en")
SPOKEN = (
    ANY, "en", "es", "fr", "de", "it", "nl", "pt", "pl", "ru", "tr", "zh", "ja", "ko", "ar", "th",
)  # fmt: skip
WEIGHTS = {"minilm": 20, "mpnet": 15, "use": 10}
CHUNK = 65_536

Encode = Callable[[Sequence[str]], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="folder that prepare.py wrote to")
    parser.add_argument("--minilm", type=Path, help="Hugging Face folder")
    parser.add_argument("--mpnet", type=Path, help="Hugging Face folder")
    parser.add_argument("--use", type=Path, help="folder with weights.npz and sp.model")
    options = parser.parse_args()
    texts, languages = all_terms(options.work)
    for name in ("minilm", "mpnet"):
        if folder := getattr(options, name):
            write(options.work / f"{name}.npy", _encoder(folder), texts, languages, ENGLISH)
    if options.use:
        from use import Use

        write(options.work / "use.npy", Use(options.use).encode, texts, languages, SPOKEN)


def all_terms(work: Path) -> tuple[list[str], list[str]]:
    """Texts and languages of the terms of the graph, in its order, then of the extra ones."""
    kg = KG.open(work / "train.kg")
    extra = read_extra(work / "extra.tsv", kg)
    texts = [text for _, block in kg.terms.blocks() for text in block.to_pylist()]
    languages = [kg.languages[number] for number in kg.terms.info[:, 0].tolist()]
    return texts + extra.texts, languages + extra.languages


def write(
    path: Path, encode: Encode, texts: list[str], languages: list[str], spoken: Sequence[str]
) -> None:
    """Half precision, in pieces: over a million terms, 512 wide, are more than a gigabyte."""
    asked = [place for place, tag in enumerate(languages) if language_in(tag, spoken)]
    width = encode(["heart attack"]).shape[1]
    vectors = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.float16, shape=(len(texts), width)
    )
    for start in range(0, len(asked), CHUNK):
        some = asked[start : start + CHUNK]
        vectors[some] = encode([texts[place] for place in some])
    vectors.flush()
    weight = WEIGHTS[path.stem]
    print(f"{len(asked):,} of {len(texts):,} terms")
    print(f"--teacher {path},weight={weight},languages={'+'.join(spoken)}")


def _encoder(folder: Path) -> Encode:
    encoder = TransformerEncoder.load(folder, pooling="mean", max_length=64)
    cuda = torch.cuda.is_available()
    encoder = encoder.to("cuda" if cuda else "cpu").eval()

    def encode(texts: Sequence[str]) -> np.ndarray:
        with torch.autocast("cuda", torch.bfloat16, enabled=cuda):
            return encoder.encode(texts)

    return encode


if __name__ == "__main__":
    main()
