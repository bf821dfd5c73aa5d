"""Multi-Similarity loss with hard-pair mining (Wang et al. 2019), as CODER uses it twice."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor


def multi_similarity(
    similarity: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    alpha: Annotated[float, "above 0"] = 2.0,
    beta: Annotated[float, "above 0"] = 50.0,
    lam: float = 0.5,
    eps: Annotated[float, "at least 0"] = 0.1,
) -> Tensor:
    """Mean over anchors of the soft positive and negative terms of their hard pairs.

    For anchor i, with the pairs that mining keeps

        N_i = { j negative : S_ij > min over positives k of S_ik - eps }
        P_i = { j positive : S_ij < max over negatives k of S_ik + eps }

    the loss is

        log(1 + sum over P_i of exp(-alpha (S_ij - lam))) / alpha
      + log(1 + sum over N_i of exp(beta (S_ij - lam))) / beta

    An anchor without a positive has an empty N_i too, one without a negative an empty P_i.

    Args:
        similarity: S, (anchors, items), any floating dtype; the loss is computed in float32 at
            the least.
        positive: boolean, (anchors, items). A pair is never an item with itself.
        negative: boolean, (anchors, items), disjoint from `positive`.
        alpha, beta: sharpness over positives and negatives.
        lam: the similarity that divides the two.
        eps: margin of the mining.

    Reference: paper, The contrastive learning framework for KG with synonyms; the defaults are of
    its Training settings of CODER.
    """
    kept_positive, kept_negative = mine(similarity, positive, negative, eps=eps)
    scores = similarity.to(torch.promote_types(similarity.dtype, torch.float32)) - lam
    pulled = _soft_sum(-alpha * scores, kept_positive) / alpha  # (anchors,)
    pushed = _soft_sum(beta * scores, kept_negative) / beta  # (anchors,)
    return (pulled + pushed).mean()


def mine(
    similarity: Tensor, positive: Tensor, negative: Tensor, *, eps: float = 0.1
) -> tuple[Tensor, Tensor]:
    """The hard pairs P and N as masks like `positive` and `negative`."""
    scores = similarity.detach().to(torch.promote_types(similarity.dtype, torch.float32))
    # Over nothing, the minimum is +inf and the maximum -inf: the other set is then empty.
    least_positive = scores.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
    most_negative = scores.masked_fill(~negative, -torch.inf).amax(1, keepdim=True)
    return positive & (scores < most_negative + eps), negative & (scores > least_positive - eps)


def _soft_sum(exponents: Tensor, kept: Tensor) -> Tensor:
    """log(1 + sum of exp) over the kept entries of each row, without overflow."""
    masked = exponents.masked_fill(~kept, -torch.inf)
    zero = masked.new_zeros(len(masked), 1)  # exp(0)
    return torch.logsumexp(torch.cat([masked, zero], 1), 1)
