"""A table of parameters of which an update touches a few rows: AdamW on those rows alone.

An untouched row gets no decay and no moment update, so that time does not grow with the number of
rows. When every update touches every row, this is torch's AdamW.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        self.updates = torch.zeros(len(values), device=values.device)
        self.gradients = values.new_zeros(min(slots, len(values)), *values.shape[1:])
        self._weight_decay, self._betas, self._eps = weight_decay, betas, eps
        # Views of the rows, made once: making some hundreds takes longer than updating them.
        stored = self.values, self.first, self.second, self.updates
        self._rows = list(zip(*(tensor.unbind() for tensor in stored), strict=True))
        self._slots = self.gradients.unbind()

    def gather(self, numbers: Tensor) -> Tensor:
        """Rows (g, ...) to compute with; their gradient goes to `add`."""
        return self.values.index_select(0, numbers).requires_grad_()

    def add(self, slots: Tensor, gradient: Tensor) -> None:
        """Add the gradients (g, ...) of gathered rows; `slots` (g,) says where each is kept."""
        self.gradients.index_add_(0, slots, gradient)

    @torch.no_grad()
    def update(
        self, touched: Sequence[int], learning_rate: float, scale: float | Tensor = 1.0
    ) -> None:
        """One AdamW step of the rows `touched`; slot i holds the gradient of touched[i].

        scale: factor on the gradients, from averaging and clipping.
        """
        if not len(touched):
            return
        self.gradients[: len(touched)].mul_(scale)
        rows = [self._rows[number] for number in touched]
        values, first, second, updates = map(list, zip(*rows, strict=True))
        torch._foreach_add_(updates, 1)
        beta1, beta2 = self._betas
        # The kernel of torch's own fused AdamW, in place on the rows: gathering and scattering
        # them would read and write hundreds of megabytes several times over.
        torch._fused_adamw_(
            values,
            list(self._slots[: len(touched)]),
            first,
            second,
            [],
            updates,
            lr=learning_rate,
            beta1=beta1,
            beta2=beta2,
            weight_decay=self._weight_decay,
            eps=self._eps,
            amsgrad=False,
            maximize=False,
        )
        self.gradients[: len(touched)].zero_()

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
