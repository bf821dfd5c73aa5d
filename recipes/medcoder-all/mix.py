"""The weights of trained models, averaged, and mixed with those that they started from.

python recipes/medcoder-all/mix.py work/run*/model --start work/init --minilm MINILM --out mixed

A weight becomes 0.8 times the trained one, the mean of the runs, and 0.2 times the old one. Pieces
that MiniLM had no part of keep what they learnt: but for those that USE gave a word to, they began
as noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import AutoTokenizer
from vocabulary import parts

from medcoder.model.encoder import TransformerEncoder, save_encoder

TRAINED = 0.8
PIECES = "embeddings.word_embeddings.weight"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path, nargs="+", help="model folders of runs with one start")
    parser.add_argument("--start", type=Path, required=True, help="what vocabulary.py made")
    parser.add_argument("--minilm", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    parser.add_argument("--trained", type=float, default=TRAINED, help="share, from 0 to 1")
    parser.add_argument("--keep-from", type=int, help="pieces from this number on stay as trained")
    options = parser.parse_args()
    encoder = TransformerEncoder.load(options.models[0], pooling="mean", max_length=32)
    start = TransformerEncoder.load(options.start).model.state_dict()
    trained = mean([TransformerEncoder.load(model).model.state_dict() for model in options.models])
    mixed = {name: torch.lerp(start[name], trained[name], options.trained) for name in trained}
    learnt = unknown(AutoTokenizer.from_pretrained(options.minilm), encoder.tokenizer)
    mixed[PIECES][learnt] = trained[PIECES][learnt]
    if options.keep_from is not None:
        mixed[PIECES][options.keep_from :] = trained[PIECES][options.keep_from :]
    encoder.model.load_state_dict(mixed)
    save_encoder(encoder, options.out)
    print(f"{len(mixed)} arrays; {len(learnt):,} pieces keep what they learnt")


def mean(runs: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: torch.stack([run[name] for run in runs]).mean(0) for name in runs[0]}


def unknown(old: object, new: object) -> list[int]:
    """Numbers of new pieces of which the old tokenizer knows no part."""
    added = range(len(old), len(new))
    return [number for number in added if not parts(old, new.convert_ids_to_tokens(number))]


if __name__ == "__main__":
    main()
