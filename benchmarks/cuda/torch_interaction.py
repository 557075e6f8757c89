# SPDX-License-Identifier: Apache-2.0
"""Peer of interaction_bench: the same dot products with PyTorch, as DLRM's own code writes them.

Run: python benchmarks/cuda/torch_interaction.py [BATCH] [SLOTS] [WIDTH ...]

Prints one JSON object a line: milliseconds of the forward and of the backward pass.
"""

from __future__ import annotations

import sys

import torch
from torch_timing import print_passes


def interaction(mlp: torch.Tensor, emb: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """mlp, the pairs below the diagonal of X X^T, and one zero column."""
    x = torch.cat([mlp[:, None], emb], dim=1)
    gram = torch.bmm(x, x.transpose(1, 2)).flatten(1)
    return torch.cat([mlp, gram.index_select(1, pairs), mlp.new_zeros(len(mlp), 1)], dim=1)


def time_width(batch: int, slots: int, width: int, pairs: torch.Tensor) -> None:
    """Prints times of one width in bfloat16."""
    mlp, emb = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for shape in ((batch, width), (batch, slots, width))
    )
    fields = {"batch": batch, "slots": slots, "width": width, "dtype": "bfloat16"}
    print_passes(fields, lambda: interaction(mlp, emb, pairs), (mlp, emb))


def main() -> None:
    """Times every width."""
    numbers = [int(a) for a in sys.argv[1:]]
    batch, slots = (numbers + [65536, 26][len(numbers) :])[:2]
    n, m = torch.tril_indices(slots + 1, slots + 1, -1, device="cuda")
    for width in numbers[2:] or (16, 32, 64, 128, 256):
        time_width(batch, slots, width, n * (slots + 1) + m)


if __name__ == "__main__":
    main()
