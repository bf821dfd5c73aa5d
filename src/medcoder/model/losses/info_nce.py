"""In-batch InfoNCE with any number of positives per anchor."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor


def info_nce(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    temperature: Annotated[float, "above 0"] = 0.05,
) -> Tensor:
    """Mean over positive pairs of -log(exp(S_ip / t) / (exp(S_ip / t) + sum_n exp(S_in / t))).

    The mean is first over the positives of an anchor, then over the anchors that have one.

    Args:
        similarity: S, (anchors, items), any floating dtype; computed in float32 at the least.
        positive: boolean, (anchors, items). A pair is never an item with itself.
        negative: boolean, (anchors, items), disjoint from `positive`.
        temperature: t, the smaller the sharper.

    Relations: a softmax where `multi_similarity` has a margin and two sharpnesses; it keeps every
    pair instead of mining hard ones, and wants many distinct concepts in a batch.
    """
    logits = similarity.to(torch.promote_types(similarity.dtype, torch.float32)) / temperature
    masked = logits.masked_fill(~negative, -torch.inf)
    floor = torch.full_like(masked[:, :1], torch.finfo(masked.dtype).min)
    others = torch.logsumexp(torch.cat([masked, floor], 1), 1, keepdim=True)  # (anchors, 1)
    # -log(e^p / (e^p + e^o)) = softplus(o - p)
    each = torch.nn.functional.softplus(others - logits)
    pairs = positive.sum(1)
    by_anchor = (each * positive).sum(1) / pairs.clamp(min=1)
    return by_anchor.sum() / (pairs > 0).sum().clamp(min=1)
