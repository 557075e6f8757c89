# SPDX-License-Identifier: Apache-2.0
"""The rules of the dense nets that PyTorch has in another form."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class Adam(torch.optim.Optimizer):
    """Adam as v3, TensorFlow and ``SparseAdam`` have it: epsilon beside the root of v as it is.

    ``torch.optim.Adam`` adds it to the root of v / (1 - beta2^t), so that in the first step it is
    32 times less beside the gradient. It tells where gradients are that small, as those of queries
    and keys are while vectors are near 0.

    Parameters
    ----------
    weights : iterable of Tensor
    lr, eps : float
    """

    def __init__(self, weights: Iterable[Tensor], lr: float, eps: float) -> None:
        super().__init__(weights, {"lr": lr, "eps": eps})
        self._step = 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update the weights by their gradients."""
        self._step += 1
        correction = (1 - 0.999**self._step) ** 0.5 / (1 - 0.9**self._step)
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(weight), torch.zeros_like(weight)
                state["m"].mul_(0.9).add_(weight.grad, alpha=0.1)
                state["v"].mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
                rate = group["lr"] * correction
                weight.addcdiv_(state["m"], state["v"].sqrt() + group["eps"], value=-rate)
