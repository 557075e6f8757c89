# SPDX-License-Identifier: Apache-2.0
"""Shapes of the kernel that moves rows, in turns on one model whose cache has settled; JSON lines.

    python benchmarks/embedding/tiers_moves.py [--opt SGD] [--shapes 2,0,0,21 0,0,0,21 ...]

As ``tiers.py`` in mode ``cache``; a shape is what ``HUGECTR_MOVE_ROWS`` says while it is measured:
1: a kernel a table, 2: that without a counter, 0: one kernel; blocks (0: one a multiprocessor);
rows ahead whose page is touched; log2 of a page.
"""

from __future__ import annotations

import argparse
import json
import os
import time

from tiers import make_data, make_model, totals

import hugectr
from hugectr.base.log import set_level

SHAPES = (
    "2,0,0,21 1,0,0,21 0,0,0,21 0,66,0,21 0,32,0,21 0,132,512,21 0,66,128,21 0,66,512,21 "
    "0,66,2048,21 0,32,512,21 1,66,512,21 0,66,512,16"
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--opt", default="SGD", choices=("SGD", "Adam"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shapes", nargs="*", default=SHAPES.split())
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=1 << 20)
    a = parser.parse_args()
    a.dim, a.share, a.alpha, a.seed, turns, warm = 128, 0.1, 1.05, 0, 3, 70
    a.batches = warm + turns * len(a.shapes) * a.steps
    set_level(2)
    data, cover = make_data(a)
    row = 4 * a.dim * {"SGD": 1, "Adam": 3}[a.opt] + 8
    places = int(a.rows * a.share)
    model = make_model(a, data, hugectr.Memory(device=a.tables * places * row))
    for _ in range(cover + warm):
        model.train()
    model.get_current_loss()
    times: dict[str, list[float]] = {shape: [] for shape in a.shapes}
    before = totals(model)["misses"]
    for _ in range(turns):
        for shape in a.shapes:
            os.environ["HUGECTR_MOVE_ROWS"] = shape
            start = time.perf_counter()
            for _ in range(a.steps):
                model.train()
            model.get_current_loss()
            times[shape].append(1000 * (time.perf_counter() - start) / a.steps)
    misses = (totals(model)["misses"] - before) / (a.batches - warm)
    for shape, found in times.items():
        line = {"opt": a.opt, "shape": shape, "ms": round(sorted(found)[1], 3), "misses": misses}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
