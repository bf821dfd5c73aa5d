"""Any Hugging Face or sentence-transformers checkpoint, by folder or name on the hub. Needs torch.

Weights are float32, whatever the file holds, and terms have at most 32 tokens, as in the paper.

| pooling | vector of a term |
|---|---|
| cls | the last hidden state of the first token |
| mean | the mean of those of all real tokens, [CLS] and [SEP] too, never of padding |
| legacy | what the published evaluation code does: padded to 32 tokens, no attention mask, the |
| | mean over all 32 places, padding too. Only for comparison with figures made so |
| legacy-pooler | the same, with the tanh pooler of the first token instead of the mean: what the |
| | published training code does, and what the rest of medcoder calls legacy |

Without a pooling, what the folder says counts (that of sentence-transformers, or ours), then cls.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from medcoder.encode.modules import SETTINGS
from medcoder.errors import ArtefactError, UsageError
from medcoder.evaluate.embeddings.static import unit
from medcoder.evaluate.results import Floats, Kind, Vectors
from medcoder.model.encoder import TransformerEncoder
from medcoder.model.packed import Packed, pack, unpack

Pooling = Literal["cls", "mean", "legacy", "legacy-pooler"]
MAX_LENGTH = 32
_TOKENS = 65_536  # tokens encoded at a time
_TOKENS_CPU = 2_048  # of more, what a layer makes does not stay in the cache
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
_HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_HUB_OTHERS = ["onnx/*", "openvino/*"]  # the same weights again


class PaddedMean(TransformerEncoder):
    """The pooling `legacy`."""

    def forward(self, packed: Packed) -> Tensor:
        """Embeddings (n, l), not normalised."""
        tokens, _ = unpack(packed, width=self.max_length, fill=self.tokenizer.pad_token_id)
        hidden: Tensor = self.model(input_ids=tokens).last_hidden_state  # (n, max_length, l)
        return hidden.mean(1)

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2b(f"legacy {super().fingerprint}".encode(), digest_size=16).hexdigest()


class ContextualEmbedding:
    """A model, its tokenizer, a pooling."""

    def __init__(
        self, encoder: TransformerEncoder, *, name: str, kind: Kind = "contextual"
    ) -> None:
        """`contextual_encoder` makes an encoder of any pooling."""
        self.encoder = encoder
        self.name = name
        self.kind: Kind = kind

    @property
    def pooling(self) -> Pooling:
        if isinstance(self.encoder, PaddedMean):
            return "legacy"
        return "legacy-pooler" if self.encoder.pooling == "legacy" else self.encoder.pooling

    @cached_property
    def fingerprint(self) -> str:
        """Of weights, tokenizer, pooling and length."""
        return self.encoder.fingerprint

    @cached_property
    def settings(self) -> dict[str, Any]:
        config = self.encoder.model.config
        return {
            "pooling": self.pooling,
            "max_length": self.encoder.max_length,
            "dimension": self.encoder.width,
            "vocabulary": len(self.encoder.tokenizer),
            "architecture": config.model_type,
            "parameters": sum(weight.numel() for weight in self.encoder.model.parameters()),
            "precision": "float32",
        }

    def pooled(self, pooling: Pooling) -> ContextualEmbedding:
        """The same model with another pooling."""
        encoder = contextual_encoder(self.encoder, pooling)
        return ContextualEmbedding(encoder, name=self.name, kind=self.kind)

    def raw(self, texts: Sequence[str], *, ids: Sequence[str] | None = None) -> Vectors:
        """Vectors as they leave the pooling, of any length."""
        return Vectors(encode(self.encoder, texts), np.ones(len(texts), np.bool_))

    def embed(
        self,
        texts: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        corpus: Sequence[str] | None = None,
    ) -> Vectors:
        rows, known = self.raw(texts)
        return Vectors(unit(rows), known)


def load(
    target: str,
    *,
    name: str | None = None,
    pooling: str | None = None,
    max_length: int = MAX_LENGTH,
    threads: int | None = None,
) -> ContextualEmbedding:
    """A folder or a name of the hub, on the GPU if there is one."""
    if pooling is not None and pooling not in get_args(Pooling):
        raise UsageError(
            "no such pooling",
            values=repr(pooling),
            remedy=f"There are: {', '.join(get_args(Pooling))}",
        )
    if threads is not None:
        torch.set_num_threads(threads)
    folder = _folder(target)
    if pooling is None:
        encoder = TransformerEncoder.load(folder, max_length=max_length)
    else:
        plain = TransformerEncoder.load(folder, pooling="cls", max_length=max_length)
        encoder = contextual_encoder(plain, pooling)
    encoder.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    own = Path(target).expanduser().absolute().name
    return ContextualEmbedding(
        encoder,
        name=name or (own if pooling is None else f"{own} ({pooling})"),
        kind="ours" if (folder / SETTINGS).exists() else "contextual",
    )


def contextual_encoder(encoder: TransformerEncoder, pooling: str) -> TransformerEncoder:
    """The model and tokenizer of an encoder with a pooling of this file."""
    model, tokenizer, length = encoder.model, encoder.tokenizer, encoder.max_length
    if pooling == "legacy":
        return PaddedMean(model, tokenizer, pooling="mean", max_length=length)
    known: Any = "legacy" if pooling == "legacy-pooler" else pooling
    return TransformerEncoder(model, tokenizer, pooling=known, max_length=length)


@torch.inference_mode()
def encode(encoder: TransformerEncoder, texts: Sequence[str]) -> Floats:
    """Vectors (n, l), not normalised. Equal texts cost once, and batches are of like lengths."""
    training = encoder.training
    encoder.eval()
    device = next(encoder.parameters()).device
    distinct = {text: position for position, text in enumerate(dict.fromkeys(texts))}
    tokens = encoder.tokenize(list(distinct))
    padded = isinstance(encoder, PaddedMean) or encoder.pooling == "legacy"
    costs = [encoder.max_length if padded else len(ids) for ids in tokens]
    order = sorted(range(len(tokens)), key=lambda position: len(tokens[position]))
    vectors = np.empty((len(tokens), encoder.width), np.float32)
    start, most = 0, _TOKENS_CPU if device.type == "cpu" else _TOKENS
    while start < len(order):
        stop, total = start, 0
        while stop < len(order) and (total < most or stop == start):
            total += costs[order[stop]]
            stop += 1
        batch = pack_terms([tokens[position] for position in order[start:stop]], device=device)
        vectors[order[start:stop]] = encoder(batch).float().cpu().numpy()
        start = stop
    encoder.train(training)
    return vectors[[distinct[text] for text in texts]]


def pack_terms(tokens: Sequence[Sequence[int]], *, device: torch.device) -> Packed:
    """Terms as lists of tokens, laid end to end."""
    lengths = np.array([len(ids) for ids in tokens])
    return pack(np.concatenate([np.asarray(ids) for ids in tokens]), lengths, device=device)


def _folder(target: str) -> Path:
    """The folder itself, or where the files of the hub are put."""
    folder = Path(target).expanduser()
    if folder.exists():
        return folder
    if not _HUB_NAME.fullmatch(target):
        raise ArtefactError("there is no such folder", where=folder, remedy="Check the path")
    # All of it comes as a folder, since the pooling is in files that only a folder shows.
    import huggingface_hub

    try:
        downloaded = Path(
            huggingface_hub.snapshot_download(
                target, allow_patterns=_HUB_FILES, ignore_patterns=_HUB_OTHERS
            )
        )
        if not any(downloaded.glob("*.safetensors")):
            huggingface_hub.snapshot_download(target, allow_patterns=["*.bin"])
    except (OSError, ValueError) as error:
        raise ArtefactError(
            "there is no such folder, and the hub gave none of that name",
            where=target,
            values=error,
            remedy="Check the name and the connection, or download the model and name its folder",
        ) from error
    return downloaded
