# SPDX-License-Identifier: Apache-2.0
"""What the nets of ``examples/`` in PyTorch are made of, with the first values that v3 draws."""

from __future__ import annotations

from torch import Tensor, nn

Batch = dict[str, Tensor]


def table(rows: int, dim: int) -> nn.Embedding:
    found = nn.Embedding(rows, dim, sparse=True)
    nn.init.uniform_(found.weight, -0.05, 0.05)
    return found


def xavier_(weight: Tensor) -> None:
    """Normal values as v3 draws them: wider than Glorot's by 1 / .8796, the deviation of a normal
    that is cut off at two deviations, and not cut off."""
    nn.init.normal_(weight, 0, (2 / sum(weight.shape)) ** 0.5 / 0.8796)


def linear(wide: int, out: int) -> nn.Linear:
    found = nn.Linear(wide, out)
    xavier_(found.weight)
    nn.init.normal_(found.bias, 0, out**-0.5)
    return found


def tower(wide: int, widths: list[int], last: int = 0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in widths:
        layers += [linear(wide, width), nn.ReLU()]
        wide = width
    if last:
        layers.append(linear(wide, last))
    return nn.Sequential(*layers)
