# SPDX-License-Identifier: Apache-2.0
"""Steps of tables that have places on the device for a share of their rows; JSON lines.

    python benchmarks/embedding/tiers.py [--tables 10] [--rows 2000000] [--dim 128] [--keys 1048576]
        [--share 0.1] [--opt SGD] [--device cuda] [--warm 70 --steps 16 --batches 134]

The work of ``fbgemm_tier.py``'s shape: one key a slot, power law 1.05, popular rows anywhere in a
table, all rows inserted first, then distinct batches, each once, planned in the timing (the peer's
70 to settle and 64 timed ones are the options above). A
network that only adds numbers up stands behind the tables. Modes in turns, in one process: ``all``
rows on the device, ``cache`` with places for a share of them, ``host`` with none. With each goes
what was missed and the bytes that moved a step, each way; on a GPU the floor is those bytes over
the link's rate (``--link`` GB/s each way, both ways at once), measured beside it.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import hugectr
from hugectr.base.log import set_level
from hugectr.data import MemoryDataset

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from op_times import line_of, op_times


def power_law(rng: np.random.Generator, n: int, rows: int, alpha: float) -> npt.NDArray[np.int64]:
    """Keys of 0 .. rows - 1; popular ones lie anywhere."""
    g = 1 - alpha
    drawn = ((float(rows) ** g - 1) * rng.random(n) + 1) ** (1 / g)
    return (np.clip(drawn.astype(np.int64) - 1, 0, rows - 1) * 2654435761) % rows


def make_data(a: argparse.Namespace) -> tuple[MemoryDataset, int]:
    """Batches that name every row, then distinct ones; and how many the first are."""
    batch = a.keys // a.tables
    # Two batches that follow each other must fit into the cache's places.
    fresh = max(1, min(batch, int(a.rows * a.share) // 3))
    cover = -(-a.rows // fresh)
    count = (cover + a.batches) * batch
    rng = np.random.default_rng(a.seed)
    offsets = np.arange(count + 1)
    sparse = {}
    for table in range(a.tables):
        first = (np.arange(cover)[:, None] * fresh + np.arange(batch) % fresh).reshape(-1) % a.rows
        rest = power_law(rng, a.batches * batch, a.rows, a.alpha)
        sparse[f"keys{table}"] = np.concatenate([first, rest]), offsets
    label = (rng.random((count, 1)) < 0.25).astype(np.float32)
    return MemoryDataset(label, np.zeros((count, 1), np.float32), sparse), cover


def make_model(a: argparse.Namespace, data: MemoryDataset, memory: Any) -> hugectr.Model:
    """The model, compiled."""
    batch = a.keys // a.tables
    solver = hugectr.CreateSolver(
        batchsize=batch, batchsize_eval=batch, lr=0.01, seed=1, i64_input_key=True,
        device=a.device, metrics_spec={}, memory=memory,
    )  # fmt: skip
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data)
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t[a.opt], hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, optimizer)
    names = [f"keys{table}" for table in range(a.tables)]
    inputs = [hugectr.DataReaderSparseParam(name, 1, True, 1) for name in names]
    model.add(hugectr.Input(1, "label", 1, "dense", inputs))
    kind, layer = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, hugectr.Layer_t
    for t, name in enumerate(names):
        model.add(hugectr.SparseEmbedding(kind, 0, a.dim, "sum", f"rows{t}", name))
        flat, part = [f"flat{t}"], [f"part{t}"]
        model.add(hugectr.DenseLayer(layer.Reshape, [f"rows{t}"], flat, leading_dim=a.dim))
        model.add(hugectr.DenseLayer(layer.ReduceSum, flat, part, axis=1))
    parts = [f"part{t}" for t in range(a.tables)]
    model.add(hugectr.DenseLayer(layer.Add, [*parts, "dense"], ["logit"]))
    model.add(hugectr.DenseLayer(layer.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def totals(model: hugectr.Model) -> dict[str, int]:
    stats = model.table_stats()
    names = ("hits", "misses", "bytes_fetched", "bytes_written_back", "bytes", "host_bytes")
    return {name: sum(table[name] for table in stats) for name in names}


def measure(a: argparse.Namespace, data: MemoryDataset, cover: int, mode: str) -> dict[str, Any]:
    """Median milliseconds of a step of four runs of 16, after as many to settle."""
    row = 4 * a.dim * {"SGD": 1, "AdaGrad": 2, "Adam": 3}[a.opt] + 8
    places = {"all": None, "cache": int(a.rows * a.share), "host": 0}[mode]
    memory = None if places is None else hugectr.Memory(device=a.tables * places * row)
    model = make_model(a, data, memory)
    for _ in range(cover + a.warm):
        model.train()
    model.get_current_loss()
    before, times = totals(model), []
    for _ in range(4):
        start = time.perf_counter()
        for _ in range(a.steps):
            model.train()
        model.get_current_loss()
        times.append((time.perf_counter() - start) / a.steps)
    after, steps = totals(model), 4 * a.steps
    found = {
        "mode": mode,
        "ms": round(1000 * sorted(times)[1], 3),
        "misses": (after["misses"] - before["misses"]) / steps,
        "distinct": (after["hits"] + after["misses"] - before["hits"] - before["misses"]) / steps,
        "fetched_mb": (after["bytes_fetched"] - before["bytes_fetched"]) / steps / 1e6,
        "sent_mb": (after["bytes_written_back"] - before["bytes_written_back"]) / steps / 1e6,
        "device_mb": after["bytes"] / 1e6,
        "host_mb": after["host_bytes"] / 1e6,
        "loss": model.get_current_loss(),
    }
    if a.timeline:
        for op in op_times(model, a.steps):
            print(line_of(op))
    if a.link:
        found["floor_ms"] = max(found["fetched_mb"], found["sent_mb"]) / a.link
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--keys", type=int, default=1 << 20)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--alpha", type=float, default=1.05)
    parser.add_argument("--steps", type=int, default=8, help="of each of four blocks")
    parser.add_argument("--warm", type=int, default=32, help="steps before timed ones")
    parser.add_argument("--batches", type=int, default=64, help="distinct ones, each trained once")
    parser.add_argument("--opt", default="SGD", choices=("SGD", "AdaGrad", "Adam"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--link", type=float, default=0.0, help="GB/s each way, both at once")
    parser.add_argument("--modes", nargs="*", default=["all", "cache", "host"])
    parser.add_argument("--timeline", action="store_true", help="milliseconds of every op")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    if a.warm + 4 * a.steps > a.batches:
        parser.error(
            f"--warm and four times --steps are more than {a.batches} batches: every row again"
        )
    set_level(2)
    data, cover = make_data(a)
    for mode in a.modes:
        print(json.dumps(vars(a) | measure(a, data, cover, mode)), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
