# SPDX-License-Identifier: Apache-2.0
"""Peer of interaction_bench: the same dot products with PyTorch, as DLRM's own code writes them.

Run: python benchmarks/cuda/torch_interaction.py [BATCH] [SLOTS] [WIDTH ...]

Prints one JSON object a line: milliseconds of the forward and of the backward pass.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import torch


def milliseconds(work: Callable[[], object], repeats: int = 20) -> float:
    """Median time of one call, by CUDA events, after a warm-up."""
    for _ in range(5):
        work()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[repeats // 2]


def interaction(mlp: torch.Tensor, emb: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """mlp, the pairs below the diagonal of X X^T, and one zero column."""
    x = torch.cat([mlp[:, None], emb], dim=1)
    gram = torch.bmm(x, x.transpose(1, 2)).flatten(1)
    return torch.cat([mlp, gram.index_select(1, pairs), mlp.new_zeros(len(mlp), 1)], dim=1)


def figures(batch: int, slots: int, width: int, pairs: torch.Tensor) -> dict[str, object]:
    """Times of one width in bfloat16."""
    mlp, emb = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for shape in ((batch, width), (batch, slots, width))
    )
    y = interaction(mlp, emb, pairs)
    dy = torch.randn_like(y)
    return {
        "peer": "torch",
        "batch": batch,
        "slots": slots,
        "width": width,
        "dtype": "bfloat16",
        "forward_ms": milliseconds(lambda: interaction(mlp, emb, pairs)),
        "backward_ms": milliseconds(
            lambda: torch.autograd.grad(y, (mlp, emb), dy, retain_graph=True)
        ),
    }


def main() -> None:
    """Times every width."""
    numbers = [int(a) for a in sys.argv[1:]]
    batch, slots = (numbers + [65536, 26][len(numbers) :])[:2]
    n, m = torch.tril_indices(slots + 1, slots + 1, -1, device="cuda")
    for width in numbers[2:] or (16, 32, 64, 128, 256):
        print(json.dumps(figures(batch, slots, width, n * (slots + 1) + m)), flush=True)


if __name__ == "__main__":
    main()
