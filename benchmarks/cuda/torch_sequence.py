# SPDX-License-Identifier: Apache-2.0
"""Peer of sequence_bench: scaled_dot_product_attention and nn.GRU of PyTorch.

Run: python benchmarks/cuda/torch_sequence.py [BATCH] [WIDTH] [HEADS] [STEPS ...]

Prints one JSON object a line: milliseconds of the forward and of the backward pass. Queries, keys
and values are (batch, steps, width), as a linear layer makes them; each is seen as heads without a
copy. nn.GRU takes (batch, steps, width) too, and runs on cuDNN.
"""

from __future__ import annotations

import sys

import torch
from torch_timing import print_passes


def main() -> None:
    """Times every number of steps in bfloat16 and float32."""
    numbers = [int(a) for a in sys.argv[1:]]
    batch, width, heads = (numbers + [4096, 64, 4][len(numbers) :])[:3]
    for dtype in (torch.bfloat16, torch.float32):
        for steps in numbers[3:] or (50, 200):
            shape = {"batch": batch, "steps": steps, "width": width, "dtype": str(dtype)[6:]}
            q, k, v = (
                torch.randn(batch, steps, width, device="cuda", dtype=dtype, requires_grad=True)
                for _ in range(3)
            )

            def attention(
                inputs: tuple[torch.Tensor, ...] = (q, k, v), size: int = steps
            ) -> torch.Tensor:
                split = [x.view(batch, size, heads, -1).transpose(1, 2) for x in inputs]
                o = torch.nn.functional.scaled_dot_product_attention(*split)
                return o.transpose(1, 2).reshape(batch, size, width)

            print_passes({"op": "attention", **shape}, attention, [q, k, v])
            gru = torch.nn.GRU(width, width, batch_first=True, device="cuda", dtype=dtype)

            def run(layer: torch.nn.GRU = gru, x: torch.Tensor = q) -> torch.Tensor:
                return layer(x)[0]

            print_passes({"op": "gru", **shape}, run, [q, *gru.parameters()])


if __name__ == "__main__":
    main()
