"""Encode terms laid end to end, almost without padding, through a BERT-like Hugging Face model.

The modules and weights are the model's own; only the way through them differs. Terms fill windows
of 128 tokens, about ten a window, and attend within themselves: every token-wise layer sees real
tokens almost alone, where a batch padded to 32 is two thirds padding, and attention works on
blocks of a size that its kernels are made for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, layer_norm, scaled_dot_product_attention

Array = npt.NDArray[Any]
WINDOW = 128


@dataclass
class Packed:
    """Terms in windows; what is left of a window belongs to no term: its owner is n."""

    tokens: Tensor  # (w * window,) int32 ids
    positions: Tensor  # (w * window,) int32 place of each token in its term
    owners: Tensor  # (w * window,) int32 number of the term that each token belongs to
    starts: Tensor  # (n,) int32 where each term begins
    lengths: Tensor  # (n,) int32
    window: int

    @property
    def terms(self) -> int:
        return len(self.starts)


def pack(tokens: Array, lengths: Array, *, device: torch.device | str = "cpu") -> Packed:
    """Tokens of terms, end to end (t,), and how many each has (n,); none has more than 512."""
    window = max(WINDOW, -(-int(lengths.max(initial=1)) // 64) * 64)
    starts = _starts(lengths, window)
    size = -(-int((starts + lengths).max(initial=1)) // window) * window
    owner = np.repeat(np.arange(len(lengths)), lengths)
    within = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    where = np.repeat(starts, lengths) + within
    columns = np.zeros((3, size), np.int32)
    columns[2] = len(lengths)
    columns[:, where] = tokens, within, owner
    flat = np.concatenate([columns.ravel(), starts, lengths]).astype(np.int32)
    sent = torch.from_numpy(flat)
    if torch.device(device).type == "cuda":
        sent = sent.pin_memory().to(device, non_blocking=True)
    ids, positions, owners, begins, sizes = torch.split(sent, [size] * 3 + [len(lengths)] * 2)
    return Packed(ids, positions, owners, begins, sizes, window)


def _starts(lengths: Array, window: int) -> Array:
    """Where each term begins when none crosses the end of a window."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    first, shift = 0, 0
    while first < len(lengths):
        # Terms from `first` on go into one window, as many as fit.
        begin = starts[first]
        stop = max(int(np.searchsorted(ends, begin + window, side="right")), first + 1)
        starts[first:stop] += shift * window - begin
        first, shift = stop, shift + 1
    return starts


def unpack(packed: Packed, *, width: int | None = None, fill: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens as a padded matrix (n, width), and the mask of the real ones."""
    width = width or int(packed.lengths.max())
    position = torch.arange(width, device=packed.tokens.device)
    real = position < packed.lengths[:, None]
    index = (packed.starts[:, None] + position).clamp(max=len(packed.tokens) - 1)
    return packed.tokens[index].masked_fill(~real, fill).long(), real


def supports(model: nn.Module) -> bool:
    """Whether the model is a BERT, RoBERTa or MPNet, which this file knows the inside of."""
    config: Any = model.config
    return config.model_type in ("bert", "roberta", "xlm-roberta", "mpnet") and (
        getattr(config, "position_embedding_type", None) in (None, "absolute")
    )


def first_tokens(model: Any, packed: Packed) -> Tensor:
    """The last hidden state of the first token of each term, (n, l)."""
    if not supports(model):
        tokens, real = unpack(packed)
        hidden: Tensor = model(input_ids=tokens, attention_mask=real.long()).last_hidden_state
        return hidden[:, 0]
    return _through(model, packed).index_select(0, packed.starts)


def mean_tokens(model: Any, packed: Packed) -> Tensor:
    """The mean of the last hidden states of the tokens of each term, (n, l)."""
    if not supports(model):
        tokens, real = unpack(packed)
        hidden: Tensor = model(input_ids=tokens, attention_mask=real.long()).last_hidden_state
        sums = (hidden * real[:, :, None]).sum(1)
    else:
        hidden = _through(model, packed).float()  # bfloat16 has too few digits for sums
        sums = hidden.new_zeros(packed.terms + 1, hidden.shape[1])
        sums = sums.index_add(0, packed.owners, hidden)[:-1]  # the last row is of no term
    return sums / packed.lengths[:, None]


def _through(model: Any, packed: Packed) -> Tensor:
    """The last hidden state of every token, (w * window, l)."""
    owners = packed.owners.view(-1, packed.window)
    seen = (owners[:, :, None] == owners[:, None, :])[:, None]  # (w, 1, window, window)
    hidden = _embed(model, packed)
    if model.config.model_type == "mpnet":
        # It adds a bias by distance, which is the same in a window as in a term.
        bias = model.encoder.compute_position_bias(hidden.view(*owners.shape, -1)[:1])
        seen = torch.where(seen, bias.to(hidden.dtype), -torch.inf)  # (w, heads, window, window)
    for layer in model.encoder.layer:
        hidden = _layer(layer, hidden, seen)
    return hidden


def _embed(model: Any, packed: Packed) -> Tensor:
    embeddings = model.embeddings
    positions = packed.positions
    kind = model.config.model_type
    if kind != "bert":  # the others count places after the padding token
        positions = positions + embeddings.padding_idx + 1
    if kind == "mpnet" and packed.terms:  # it does not count tokens with the number of padding
        of_a_term = packed.owners < packed.terms
        real = ((packed.tokens != embeddings.padding_idx) & of_a_term).int()
        first = packed.starts[packed.owners.clamp(max=packed.terms - 1)]
        count = real.cumsum(0)
        positions = (count - count[first] + real[first]) * real + embeddings.padding_idx
    total = embeddings.word_embeddings(packed.tokens) + embeddings.position_embeddings(positions)
    if kind != "mpnet":
        total = total + embeddings.token_type_embeddings.weight[0]
    hidden: Tensor = embeddings.dropout(embeddings.LayerNorm(total))
    if total.is_cuda and torch.is_autocast_enabled("cuda"):
        hidden = hidden.to(torch.get_autocast_dtype("cuda"))
    return hidden


def _layer(layer: Any, hidden: Tensor, seen: Tensor) -> Tensor:
    """seen: which tokens see each other, or what is added to their scores."""
    attention, training = layer.attention, layer.training
    if hasattr(attention, "attn"):  # MPNet
        inner, output = attention.attn, attention
        parts, dense = (inner.q, inner.k, inner.v), inner.o
    else:
        inner, output = attention.self, attention.output
        parts, dense = (inner.query, inner.key, inner.value), output.dense
    shape = (seen.shape[0], seen.shape[2], inner.num_attention_heads, -1)
    query, key, value = (
        part(hidden).view(shape).transpose(1, 2)  # (w, heads, window, d)
        for part in parts
    )
    rate = inner.dropout.p if training else 0.0
    mixed = scaled_dot_product_attention(query, key, value, attn_mask=seen, dropout_p=rate)
    mixed = dense(mixed.transpose(1, 2).reshape(hidden.shape))
    hidden = _norm(output.LayerNorm, hidden + dropout(mixed, output.dropout.p, training))
    wide = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(hidden))
    last = layer.output
    return _norm(last.LayerNorm, hidden + dropout(last.dense(wide), last.dropout.p, training))


def _norm(module: Any, hidden: Tensor) -> Tensor:
    """A layer norm that stays in half precision where autocast would go to float32 and back.

    The kernel adds up in float32 either way; what is saved is twice the bytes between layers.
    """
    if not hidden.is_cuda or hidden.dtype not in (torch.bfloat16, torch.float16):
        normed: Tensor = module(hidden)
        return normed
    weight, bias = module.weight.to(hidden.dtype), module.bias.to(hidden.dtype)
    with torch.autocast("cuda", enabled=False):
        return layer_norm(hidden, module.normalized_shape, weight, bias, module.eps)
