# SPDX-License-Identifier: Apache-2.0
"""Steps of a model with 26 tables of unlike size, together and each alone; a JSON line.

    python benchmarks/models/tables26.py [--gpus 2] [--exchange unique] [--precision bf16]

26 SparseEmbeddings with 26 row counts and vectors of 4, 16, 32, 64 and 128, an input each, into a
small dense network: what a step costs is the tables. Batches are as in ``ctr_gpu.py``: every row
has been inserted, then distinct power-law ones come in turn, planned in the timing. The same model
runs in one process with its tables in one group and with HUGECTR_GROUP=0, in turns. ``ops``,
``collectives`` and ``launches`` are those of a step and the plan beside it, on all GPUs together;
launches are without those of CUB and NCCL.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from typing import Any

import numpy as np
from ctr_batches import DENSE, power_law
from ctr_models import layer, precision, tower

import hugectr
from hugectr import _core
from hugectr.base.log import set_level
from hugectr.data import MemoryDataset, from_arrays

TABLES, WIDTHS = 26, (4, 16, 32, 64, 128)


def rows_of(a: argparse.Namespace) -> list[int]:
    """Row counts, spread evenly over the orders of magnitude."""
    return [int(n) for n in np.geomspace(100, a.rows, TABLES)]


def make_batches(a: argparse.Namespace) -> tuple[MemoryDataset, int]:
    """Batches that name every row, then distinct ones; and how many the first are."""
    cover = -(-a.rows // (a.batch * a.hot))
    count = (cover + a.batches) * a.batch
    rng = np.random.default_rng(a.seed)
    offsets = np.arange(0, count * a.hot + 1, a.hot, dtype=np.uint64)
    sparse = {}
    for table, rows in enumerate(rows_of(a)):
        first = np.arange(cover * a.batch * a.hot, dtype=np.int64) % rows
        rest = power_law(rng, a.batches * a.batch * a.hot, rows)
        sparse[f"keys{table}"] = np.concatenate([first, rest]), offsets
    dense = rng.random((count, DENSE), np.float32)
    label = (rng.random((count, 1)) < 0.25).astype(np.float32)
    return from_arrays(label, dense, sparse), cover


def make_model(a: argparse.Namespace, data: MemoryDataset, resident: int) -> hugectr.Model:
    """The model, compiled."""
    solver = hugectr.CreateSolver(
        batchsize=a.batch,
        batchsize_eval=a.batch,
        lr=0.01,
        seed=1,
        device=a.device,
        vvgpu=[list(range(a.gpus))],
        i64_input_key=True,
        **precision(a.precision),
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm, source=data, num_workers=a.workers, resident_batches=resident
    )
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t[a.opt], hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, optimizer)
    inputs = [hugectr.DataReaderSparseParam(f"keys{t}", a.hot, True, 1) for t in range(TABLES)]
    model.add(hugectr.Input(1, "label", DENSE, "dense", inputs))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    flat = []
    for t, rows in enumerate(rows_of(a)):
        d = WIDTHS[t % len(WIDTHS)]
        budget = int(1.3 * rows * d * 4 / a.gpus) // (1 << 20) + 1
        model.add(
            hugectr.SparseEmbedding(
                kind, budget, d, "sum", f"table{t}", f"keys{t}", exchange=a.exchange
            )
        )
        flat.append(layer(model, "Reshape", [f"table{t}"], f"flat{t}", leading_dim=d))
    start = layer(model, "Concat", [*flat, "dense"], "start")
    top = tower(model, "top", start, (256,))
    layer(model, "InnerProduct", [top], "logit", num_output=1)
    layer(model, "BinaryCrossEntropyLoss", ["logit", "label"], "loss")
    model.compile()
    return model


def train(model: hugectr.Model, steps: int) -> float:
    """The loss after so many steps, and the plan of the next."""
    for _ in range(steps):
        model.train()
    loss = model.get_current_loss()
    model.table_stats()
    return loss


def run(a: argparse.Namespace, data: MemoryDataset, cover: int, group: str) -> dict[str, Any]:
    """Median milliseconds of blocks of steps, and the work of a step."""
    os.environ["HUGECTR_GROUP"] = group
    model = make_model(a, data, cover + a.batches)
    train(model, cover)
    train(model, 4)
    model.stage_seconds()
    before = _core.work_counts()
    blocks, losses = [], []
    for _ in range((a.batches - 4) // a.steps):
        begin = time.perf_counter()
        losses.append(train(model, a.steps))
        blocks.append((time.perf_counter() - begin) / a.steps)
    after = _core.work_counts()
    steps = len(blocks) * a.steps
    stages = {name: round(1e3 * s / steps, 3) for name, s in model.stage_seconds().items()}
    return {
        "ms": round(1e3 * float(np.median(blocks)), 3),
        "ms_best": round(1e3 * min(blocks), 3),
        "ms_worst": round(1e3 * max(blocks), 3),
        **{name: round((after[name] - before[name]) / steps, 1) for name in before},
        "stage_ms": stages,
        "loss": losses[-1],
    }


def main() -> int:
    """One JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="bf16")
    parser.add_argument("--opt", default="SGD", choices=("SGD", "Adam", "AdaGrad"))
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--batches", type=int, default=204, help="distinct batches")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the largest table")
    parser.add_argument("--hot", type=int, default=1, help="keys a sample and table")
    parser.add_argument("--steps", type=int, default=20, help="steps of a block")
    parser.add_argument("--rounds", type=int, default=2, help="models of each kind, in turns")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--exchange", default="auto", choices=("auto", "pooled", "unique"))
    a = parser.parse_args()
    set_level(3)
    data, cover = make_batches(a)
    entry: dict[str, Any] = {
        "case": "tables26",
        "work": f"26 tables of 100 to {a.rows} rows, d 4 to 128, batch {a.batch}, {a.hot} keys, "
        f"{a.opt}, {a.precision}, {a.exchange} exchange, {a.gpus} GPUs",
        "grouped": [],
        "alone": [],
    }
    for _ in range(a.rounds):
        for name, group in (("grouped", "1"), ("alone", "0")):
            entry[name].append(run(a, data, cover, group))
            gc.collect()
    print(json.dumps(entry), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
