# SPDX-License-Identifier: Apache-2.0
"""What the peers in PyTorch share: the clock, and a line of JSON for both passes of an op."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

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


def print_passes(
    fields: dict[str, object], forward: Callable[[], torch.Tensor], inputs: Sequence[torch.Tensor]
) -> None:
    """Times forward and the gradients of all inputs, and prints them behind the fields."""
    y = forward()
    dy = torch.randn_like(y)
    times = {
        "forward_ms": milliseconds(forward),
        "backward_ms": milliseconds(lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)),
    }
    print(json.dumps({"peer": "torch", **fields, **times}), flush=True)
