"""A table of parameters of which an update touches a few rows: AdamW on those rows alone.

An untouched row gets no decay and no moment update, so that time does not grow with the number of
rows. When every update touches every row, this is torch's AdamW.
"""

from __future__ import annotations

import torch
from torch import Tensor


class LazyTable:
    """Rows, their AdamW moments, and the gradients of the rows touched since the last update."""

    def __init__(
        self,
        values: Tensor,
        *,
        slots: int,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        """`slots`: how many rows may be touched between two updates."""
        self.values = values
        self.first = torch.zeros_like(values)
        self.second = torch.zeros_like(values)
        self.updates = torch.zeros(len(values), dtype=torch.int32, device=values.device)
        self.gradients = values.new_zeros(min(slots, len(values)), *values.shape[1:])
        self._weight_decay, self._betas, self._eps = weight_decay, betas, eps

    def gather(self, numbers: Tensor) -> Tensor:
        """Rows (g, ...) to compute with; their gradient goes to `add`."""
        return self.values.index_select(0, numbers).requires_grad_()

    def add(self, slots: Tensor, gradient: Tensor) -> None:
        """Add the gradients (g, ...) of gathered rows; `slots` (g,) says where each is kept."""
        self.gradients.index_add_(0, slots, gradient)

    @torch.no_grad()
    def update(self, touched: Tensor, learning_rate: float, scale: float | Tensor = 1.0) -> None:
        """One AdamW step of the rows `touched`; slot i holds the gradient of touched[i].

        scale: factor on the gradients, from averaging and clipping.
        """
        size = (-1, *[1] * (self.values.dim() - 1))
        gradient = self.gradients[: len(touched)].mul_(scale)
        self.updates[touched] += 1
        count = self.updates[touched].double().view(size)  # as exact as torch, which has a float
        beta1, beta2 = self._betas
        bias1, bias2 = ((1 - beta**count).to(self.values.dtype) for beta in self._betas)
        # In place throughout: with full matrices these are hundreds of megabytes a pass.
        first = self.first.index_select(0, touched).lerp_(gradient, 1 - beta1)
        second = self.second.index_select(0, touched).mul_(beta2)
        second.addcmul_(gradient, gradient, value=1 - beta2)
        self.first.index_copy_(0, touched, first)
        self.second.index_copy_(0, touched, second)
        denominator = second.sqrt_().div_(bias2.sqrt()).add_(self._eps)
        values = self.values.index_select(0, touched).mul_(1 - learning_rate * self._weight_decay)
        values.addcdiv_(first.div_(bias1), denominator, value=-learning_rate)
        self.values.index_copy_(0, touched, values)
        gradient.zero_()

    def squared_norm(self) -> Tensor:
        """Of the gradients kept, for clipping."""
        norm: Tensor = torch.linalg.vector_norm(self.gradients)
        return norm.square()

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps. Gradients are empty between updates."""
        return {
            "values": self.values,
            "first": self.first,
            "second": self.second,
            "updates": self.updates,
        }

    def load(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])
