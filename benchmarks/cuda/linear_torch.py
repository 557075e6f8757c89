# SPDX-License-Identifier: Apache-2.0
"""The products of linear_bench with PyTorch on the same GPU, a JSON line a layer.

    python benchmarks/cuda/linear_torch.py [--batch 65536] [--dtype bfloat16]

``matmul_us`` are the bare products (forward; both gradients); ``autograd_us`` is what a model pays
for linear + ReLU: forward, and backward with mask and bias gradient, as eager PyTorch runs them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import torch
from torch.nn import functional

LAYERS = [(13, 512), (512, 256), (256, 128), (480, 1024), (1024, 1024), (1024, 512), (512, 256)]
LAYERS += [(256, 1), (429, 1024), (1024, 1024), (1453, 1)]


def microseconds(work: Callable[[], object], runs: int = 20, repeats: int = 5) -> float:
    """Median over ``repeats`` of the mean of ``runs``."""
    for _ in range(5):
        work()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(runs):
            work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / runs)
    return round(1e3 * sorted(times)[repeats // 2], 1)


def layer(batch: int, n: int, m: int, dtype: torch.dtype) -> dict[str, object]:
    """Times of one layer; widths are padded to multiples of 8, as a user would."""
    n8, m8 = (-(-size // 8) * 8 for size in (n, m))
    x, dy = (torch.randn(batch, w, device="cuda", dtype=dtype) for w in (n8, m8))
    w = torch.randn(n8, m8, device="cuda", dtype=dtype) * 0.05
    b = torch.zeros(m8, device="cuda", dtype=dtype)
    products = [
        microseconds(lambda: x @ w),
        microseconds(lambda: dy @ w.t()) if n not in (13, 480, 429, 1453) else 0.0,
        microseconds(lambda: x.t() @ dy),
    ]
    leaves = [t.clone().requires_grad_() for t in (x, w.t().contiguous(), b)]

    def step() -> None:
        functional.relu(functional.linear(*leaves)).backward(dy)
        for leaf in leaves:
            leaf.grad = None

    with torch.no_grad():
        forward = microseconds(lambda: functional.relu(functional.linear(x, w.t(), b)))
    return {
        "layer": f"{n}->{m}",
        "matmul_us": [products[0], round(products[1] + products[2], 1)],
        "autograd_us": [forward, round(microseconds(step) - forward, 1)],
    }


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--dtype", default="bfloat16")
    a = parser.parse_args()
    name = torch.cuda.get_device_name()
    print(json.dumps({"gpu": name, "torch": torch.__version__, "batch": a.batch}), flush=True)
    for n, m in LAYERS:
        print(json.dumps(layer(a.batch, n, m, getattr(torch, a.dtype))), flush=True)


if __name__ == "__main__":
    main()
