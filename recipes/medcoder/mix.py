"""The mean of what was trained and what it began as, which gives back what training took."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModel

from medcoder.model.encoder import TransformerEncoder

PUBLIC = 30_522  # pieces of the public checkpoint, which come first


def mix(encoder: TransformerEncoder, start: Path, share: float) -> None:
    """`share` of each weight, the rest of the folder `start`; new rows of pieces stay."""
    before = AutoModel.from_pretrained(start, dtype=torch.float32).state_dict()
    for name, weight in encoder.model.state_dict().items():
        if weight.is_floating_point():
            old = PUBLIC if name.endswith("word_embeddings.weight") else len(weight)
            weight[:old].lerp_(before[name][:old], 1 - share)
