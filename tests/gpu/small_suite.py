# SPDX-License-Identifier: Apache-2.0
"""What runs under compute-sanitizer: a few training steps and evaluations of each kind.

One GPU exchanges nothing, so the ops of the exchange of rows run by themselves.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

import numpy as np
from census import train
from model import placed_models
from oracle import streaming_net

import hugectr
from hugectr import _core

for embedding in ("Distributed", "Localized"):
    for optimizer, update in (("SGD", "Local"), ("Adam", "Local"), ("Adam", "Global")):
        curve, model = train("cuda", optimizer, 6, embedding=embedding, update=update)
        model.eval()
        print(embedding, optimizer, update, curve[-1], dict(model.get_eval_metrics()))


def exchange_ops(n: int, d: int) -> None:
    """Two devices ask one owner for rows of few keys, one of them very hot."""
    u32 = np.uint32
    rng = np.random.default_rng(n)
    rows = np.sort(rng.integers(0, 50, n) * (rng.random(n) < 0.5)).astype(u32)
    buckets = rng.permutation(n).astype(u32)
    requests, places = np.zeros(n, u32), np.zeros(n + 1, u32)
    run = {"rows": rows, "buckets": buckets, "requests": requests, "places": places}
    attributes = {"row_count": 50, "buckets_per_part": (n + 1) // 2}
    _core.run_op("request_rows", run, attributes, "cuda")
    distinct = np.unique(requests)
    order = np.argsort(requests, kind="stable").astype(u32)
    offsets = np.searchsorted(requests[order], distinct).astype(u32)
    count = np.array([distinct.size])
    counts = {"requests": distinct, "run_offsets": np.append(offsets, n).astype(u32)}
    counts |= {"run_count": count, "rows": distinct.copy(), "counts": np.zeros((2, 2), np.int64)}
    _core.run_op("count_requests", counts, {"row_count": 50}, "cuda")
    placed = {"run_offsets": np.zeros(distinct.size + 1, u32), "numbers": order.copy()}
    placed |= {"offsets": offsets, "keys": order, "row_offsets": places, "buckets": buckets}
    placed["sorted_buckets"] = order.copy()
    _core.run_op("place_requests", placed, {"row_starts": [0], "key_starts": [0]}, "cuda")
    own = {"row_offsets": places, "own_offsets": places.copy()}
    _core.run_op("rebase_offsets", own, {}, "cuda")
    for real in (np.float32, np.float16):
        gradient = rng.standard_normal((n, 1, d)).astype(real)
        sums = np.zeros((distinct.size, d), real)
        summed = {"sorted_buckets": placed["sorted_buckets"], "run_offsets": placed["run_offsets"]}
        summed |= {"gradient": gradient, "sums": sums}
        _core.run_op("embedding_gradient", summed, {}, "cuda")
        looked_up = {"rows": placed["numbers"], "row_offsets": places, "weights": sums}
        _core.run_op("embedding_lookup", looked_up | {"out": gradient}, {}, "cuda")
        print("exchange", n, d, real.__name__, float(np.abs(gradient).max()))


for n, d in ((1, 8), (300, 12), (5000, 16)):
    exchange_ops(n, d)


def some_steps(name: str, model: hugectr.Model) -> None:
    """Training with an evaluation in between."""
    for step in range(8):
        assert model.train()
        if step == 3:
            model.eval()
    print(name, model.get_current_loss())


# Tables placed in every way, the same with a cache of places over host memory, moved by the device
# and by the host, and rows that go.
tables = placed_models.random_tables(1)
adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, update_type=hugectr.Update_t.Local)
few = {"memory": hugectr.Memory(device="250KB")}
for name, mover, more in (
    ("placed", "device", {}),
    ("tiers", "device", few),
    ("tiers, moved by the host", "host", few),
):
    os.environ["HUGECTR_MOVE_ROWS"] = mover
    some_steps(name, placed_models.make_model(tables, [[0]], adam, device="cuda", **more))
data = streaming_net.stream(np.random.default_rng(1), 8)
for life in ({"evict": "lru"}, {"evict": "lfu", "decay": 0.5}, {"admit_after": 2}):
    life |= {"max_rows": 60, "evict_every": 2} if "evict" in life else {}
    some_steps(str(life), streaming_net.build(data, life, device="cuda", evaluates=True))
