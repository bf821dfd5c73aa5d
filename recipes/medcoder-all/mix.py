"""The weights of a trained model, mixed with those that it started from.

python recipes/medcoder-all/mix.py work/run/model --start work/init --minilm MINILM --out work/mixed

A weight becomes 0.8 times the trained one and 0.2 times the old one. Pieces that MiniLM had no part
of keep what they learnt: but for those that USE gave a word to, they began as noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import AutoTokenizer
from vocabulary import parts

from medcoder.model.encoder import TransformerEncoder
from medcoder.model.save import save_encoder

TRAINED = 0.8
PIECES = "embeddings.word_embeddings.weight"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="model folder of the run")
    parser.add_argument("--start", type=Path, required=True, help="what vocabulary.py made")
    parser.add_argument("--minilm", type=Path, required=True, help="Hugging Face folder")
    parser.add_argument("--out", type=Path, required=True, help="model folder to make")
    options = parser.parse_args()
    encoder = TransformerEncoder.load(options.model, pooling="mean", max_length=32)
    start = TransformerEncoder.load(options.start).model.state_dict()
    trained = encoder.model.state_dict()
    mixed = {name: torch.lerp(start[name], trained[name], TRAINED) for name in trained}
    learnt = unknown(AutoTokenizer.from_pretrained(options.minilm), encoder.tokenizer)
    mixed[PIECES][learnt] = trained[PIECES][learnt]
    encoder.model.load_state_dict(mixed)
    save_encoder(encoder, options.out)
    print(f"{len(mixed)} arrays; {len(learnt):,} pieces keep what they learnt")


def unknown(old: object, new: object) -> list[int]:
    """Numbers of new pieces of which the old tokenizer knows no part."""
    added = range(len(old), len(new))
    return [number for number in added if not parts(old, new.convert_ids_to_tokens(number))]


if __name__ == "__main__":
    main()
