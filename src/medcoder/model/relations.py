"""Forms of the term-relation-term similarity S_rel: (rows of a relation table, h, t) -> (a, k, k).

A form says what one relation's parameters are and how they move a head towards its tails. There
are a steps side by side; the k heads of each are g groups of m, one relation a group, so `rows`
has a * g entries. The table of forms is `medcoder.model.RELATIONS`.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize


class Relation(Protocol):
    """One form; `scale` is the spread of the initial values, `rank` matters to low-rank alone."""

    def initial(
        self, count: int, width: int, *, rank: int, scale: float, generator: torch.Generator
    ) -> Tensor:
        """The table: `count` relations, the first dimension."""
        ...

    def similarity(self, rows: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        """S_rel (a, k, k) from rows (a * g, ...), heads and tails (a, k, l), not normalised."""
        ...


class Bilinear:
    """S_rel_ij = cos(M_r^T e_i, e_j), a full matrix for each relation (the paper)."""

    def initial(
        self, count: int, width: int, *, rank: int, scale: float, generator: torch.Generator
    ) -> Tensor:
        table = torch.randn(count, width, width, generator=generator).mul_(scale)
        table.diagonal(dim1=1, dim2=2).add_(1.0)  # near the identity: S_rel starts as S
        return table

    def similarity(self, rows: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        grouped = _grouped(rows, heads)
        return _cosine(torch.bmm(grouped, rows).view_as(heads), tails)  # e^T M = (M^T e)^T


class Diagonal:
    """M_r with a diagonal alone: l parameters a relation."""

    def initial(
        self, count: int, width: int, *, rank: int, scale: float, generator: torch.Generator
    ) -> Tensor:
        return torch.randn(count, width, generator=generator).mul_(scale).add_(1.0)

    def similarity(self, rows: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        return _cosine((_grouped(rows, heads) * rows[:, None]).view_as(heads), tails)


class LowRank:
    """M_r = I + U V^T: 2 l rank parameters a relation."""

    def initial(
        self, count: int, width: int, *, rank: int, scale: float, generator: torch.Generator
    ) -> Tensor:
        spread = (scale / rank**0.5) ** 0.5  # so that of U V^T is `scale`
        return torch.randn(count, 2, width, rank, generator=generator).mul_(spread)

    def similarity(self, rows: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        left, right = rows.unbind(1)  # (a * g, l, rank) each
        grouped = _grouped(rows, heads)
        moved = grouped + torch.bmm(torch.bmm(grouped, left), right.transpose(1, 2))
        return _cosine(moved.view_as(heads), tails)


class Translation:
    """S_rel_ij = -|e_i + r - e_j|, embeddings not normalised (the paper's TransE-like ablation)."""

    def initial(
        self, count: int, width: int, *, rank: int, scale: float, generator: torch.Generator
    ) -> Tensor:
        return torch.randn(count, width, generator=generator).mul_(scale)

    def similarity(self, rows: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        moved = (_grouped(rows, heads) + rows[:, None]).view_as(heads)
        squares = moved.square().sum(2)[:, :, None] + tails.square().sum(2)[:, None, :]
        squares = squares - 2 * moved @ tails.transpose(1, 2)  # (a, k, k)
        return -squares.clamp(min=1e-6).sqrt()


def _grouped(rows: Tensor, heads: Tensor) -> Tensor:
    """Heads (a, k, l) as (a * g, m, l): those of one relation together."""
    return heads.reshape(len(rows), -1, heads.shape[2])


def _cosine(ones: Tensor, others: Tensor) -> Tensor:
    return normalize(ones, dim=2) @ normalize(others, dim=2).transpose(1, 2)
