# SPDX-License-Identifier: Apache-2.0
"""Training steps of CTR models, ours and a PyTorch peer in one run; a JSON line each.

    python benchmarks/models/ctr_gpu.py [--cases dlrm dcn ...] [--peer-script PEER.py]

A timed step is everything: its keys were never seen by the step before (64 distinct batches in
turn), they are looked up in a hash table that holds all rows, sorted, gathered; forward, backward,
table update and dense optimizer follow. A timing is a block of steps ended by reading the loss,
divided by their number; the median of the blocks counts. Before it every row has been inserted by
batches that name each row. The peer is a program that prints one JSON line with ``ms`` and takes
``--model``, ``--emb``, ``--opt``, ``--batch``, ``--dim``, ``--rows``, ``--slots``, ``--hot`` and
``--steps``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from ctr_batches import cover_batches, make_batches
from ctr_models import make_model
from op_times import line_of, op_times

import hugectr
from hugectr.base.log import set_level
from hugectr.data import MemoryDataset

#: What the rows of the table of goals run.
CASES: dict[str, dict[str, Any]] = {
    "dlrm": {"model": "dlrm", "dim": 128, "opt": "sgd", "hot": 1},
    "dcn": {"model": "dcn", "dim": 16, "opt": "sgd", "hot": 1},
    "dlrm_hot10": {"model": "dlrm", "dim": 128, "opt": "sgd", "hot": 10},
    "dcn_adam": {"model": "dcn", "dim": 16, "opt": "adam", "hot": 1},
    "dlrm_wide": {"model": "dlrm", "dim": 128, "opt": "sgd", "hot": 1, "top": (4096, 4096, 4096)},
}
#: Of ``--precision``.
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")


def train(model: hugectr.Model, steps: int) -> float:
    """The loss after so many steps."""
    for _ in range(steps):
        model.train()
    return model.get_current_loss()


def insert_all_rows(model: hugectr.Model, a: argparse.Namespace) -> None:
    """Trains over the batches that name every row; the table is full then."""
    train(model, cover_batches(a))
    rows = model.table_stats()[0]["rows"]
    if rows != a.slots * a.rows:
        raise RuntimeError(f"the table holds {rows} rows, not {a.slots * a.rows}")


def warm_steps(a: argparse.Namespace) -> int:
    """Steps of a turn before the timed ones."""
    return int(a.warm or a.batches % a.steps or min(4, a.batches // 2))


def time_ours(a: argparse.Namespace, data: MemoryDataset) -> dict[str, Any]:
    """Milliseconds of a step, and where they go."""
    begin = time.perf_counter()
    model = make_model(a, data)
    insert_all_rows(model, a)
    filled = time.perf_counter() - begin
    losses, blocks = [], []
    stages: dict[str, float] = {}
    missed, moved = 0, 0
    # A round is one turn of the data: some steps to warm up, timed ones, then every row again.
    warm = warm_steps(a)
    per_round = (a.batches - warm) // a.steps
    for turn in range(a.rounds):
        if turn > 0:
            train(model, cover_batches(a) + a.batches - warm - per_round * a.steps)
        train(model, warm)
        model.stage_seconds()
        before = model.table_stats()[0]
        for _ in range(per_round):
            begin = time.perf_counter()
            losses.append(train(model, a.steps))
            blocks.append((time.perf_counter() - begin) / a.steps)
        for name, seconds in model.stage_seconds().items():
            stages[name] = stages.get(name, 0.0) + seconds / (a.rounds * per_round * a.steps)
        after = model.table_stats()[0]
        missed += after["misses"] - before["misses"]
        moved += after["bytes_fetched"] - before["bytes_fetched"]
    ms = 1e3 * float(np.median(blocks))
    timed = len(blocks) * a.steps
    return {
        "ms": round(ms, 3),
        "ms_best": round(1e3 * min(blocks), 3),
        "ms_worst": round(1e3 * max(blocks), 3),
        "msamples_s": round(a.batch / ms / 1e3, 3),
        "timed_steps": timed,
        "stage_ms": {name: round(1e3 * s, 3) for name, s in stages.items()},
        "fill_s": round(filled, 1),
        "unique_plans": after["unique_plans"],
        "misses": round(missed / timed),
        "fetched_mb": round(moved / timed / 1e6, 2),
        "loss": round(losses[-1], 4),
        "gb": round(sum(entry[2] for entry in model.memory_report()) / 2**30, 1),
    }


def timeline(a: argparse.Namespace, data: MemoryDataset) -> list[dict[str, Any]]:
    """Every op of a step of a model that knows all rows."""
    model = make_model(a, data)
    insert_all_rows(model, a)
    train(model, 4)
    return op_times(model, min(a.steps, (a.batches - 4) // 2 - 1))


def losses_of(a: argparse.Namespace, data: MemoryDataset, fuse: str) -> list[float]:
    """Losses of ``a.check_losses`` steps with HUGECTR_FUSE set so."""
    former = os.environ.get("HUGECTR_FUSE")
    os.environ["HUGECTR_FUSE"] = fuse
    try:
        model = make_model(a, data)
        return [train(model, 1) for _ in range(a.check_losses)]
    finally:
        if former is None:
            del os.environ["HUGECTR_FUSE"]
        else:
            os.environ["HUGECTR_FUSE"] = former


def compare_losses(a: argparse.Namespace, data: MemoryDataset) -> dict[str, Any]:
    """The largest relative difference of the losses of the fused and the unfused schedule."""
    fused = np.array(losses_of(a, data, "1"))
    gc.collect()
    unfused = np.array(losses_of(a, data, "0"))
    gc.collect()
    worst = float(np.max(np.abs(fused - unfused) / np.abs(unfused)))
    return {
        "steps": a.check_losses,
        "worst_relative_difference": worst,
        "last": [round(float(fused[-1]), 6), round(float(unfused[-1]), 6)],
    }


def time_peer(a: argparse.Namespace) -> dict[str, Any]:
    """What the peer prints, or why it did not."""
    options = {
        "--model": a.model,
        "--emb": a.peer_emb,
        "--opt": a.opt,
        "--batch": a.batch,
        "--dim": a.dim,
        "--rows": a.rows,
        "--slots": a.slots,
        "--hot": a.hot,
        "--steps": 60,
    }
    command = [a.peer_python, str(a.peer_script)]
    for name, value in options.items():
        command += [name, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1:] or done.returncode}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def run_case(name: str, a: argparse.Namespace) -> dict[str, Any]:
    """Ours and the peer's."""
    a.top = (1024, 1024, 512, 256)
    for key, value in CASES[name].items():
        setattr(a, key, value)
    begin = time.perf_counter()
    data = make_batches(a)
    made = time.perf_counter() - begin
    entry: dict[str, Any] = {
        "case": name,
        "work": f"{a.model}, d {a.dim}, batch {a.batch}, {a.slots} slots of {a.rows} rows, "
        f"{a.hot} keys a slot, {a.opt}, {a.precision}, {a.key} keys, {a.batches} batches, "
        f"{a.embedding} on {a.gpus} GPUs, {a.exchange} exchange"
        f"{'' if a.wire is None else f', {a.wire} on the wire'}"
        f"{'' if a.micro_batches == 1 else f', {a.micro_batches} micro-batches'}"
        f"{'' if a.search else ', no algorithm search'}"
        f"{', resident' if a.resident else ''}"
        f"{f', places for {a.places:.0%} of the rows' if a.places else ''}",
        "make_s": round(made, 1),
    }
    entry["ours"] = time_ours(a, data)
    gc.collect()
    if a.timeline:
        entry["timeline"] = timeline(a, data)
        gc.collect()
    if a.check_losses:
        entry["fused_and_unfused"] = compare_losses(a, data)
    del data
    gc.collect()
    if a.peer_script:
        entry["peer"] = time_peer(a)
        if "ms" in entry["peer"]:
            entry["ratio"] = round(entry["peer"]["ms"] / entry["ours"]["ms"], 2)
    return entry


def main() -> int:
    """Run the cases; one JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES)[:4])
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--key", choices=("int64", "uint32"), default="int64")
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--batches", type=int, default=64, help="distinct batches")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of a slot")
    parser.add_argument("--slots", type=int, default=26)
    parser.add_argument("--steps", type=int, default=20, help="steps of a block")
    parser.add_argument("--rounds", type=int, default=3, help="turns over the batches")
    parser.add_argument("--workers", type=int, default=12, help="reader threads")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm", type=int, default=0, help="steps before timed ones")
    parser.add_argument(
        "--places", type=float, default=0.0, help="on the devices, for this share of rows"
    )
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--gpus", type=int, default=1, help="of this process; --batch is of all")
    parser.add_argument("--embedding", default="Distributed", choices=("Distributed", "Localized"))
    parser.add_argument("--exchange", default="auto", choices=("auto", "pooled", "unique"))
    parser.add_argument("--wire", choices=("fp32", "bf16", "fp16", "fp8"))
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--no-search", dest="search", action="store_false", help="of algorithms")
    parser.add_argument("--no-resident", dest="resident", action="store_false")
    parser.add_argument("--no-cuda-graph", dest="cuda_graph", action="store_false")
    parser.add_argument("--timeline", action="store_true", help="milliseconds of every op")
    parser.add_argument("--check-losses", type=int, default=0, metavar="STEPS")
    parser.add_argument("--peer-script", type=Path)
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter with torch")
    parser.add_argument("--peer-emb", default="bag")
    a = parser.parse_args()
    a.vvgpu = [list(range(a.gpus))]
    if a.batches - warm_steps(a) < a.steps:
        needed = f"{warm_steps(a)} steps to warm up and {a.steps} timed ones (--steps)"
        parser.error(f"--batches {a.batches} are too few for {needed}")
    if a.peer_script and a.gpus > 1:
        parser.error("the peer runs on one GPU: compare with --gpus 1")
    set_level(3)
    for name in a.cases:
        entry = run_case(name, a)
        for row in entry.get("timeline", []):
            print(line_of(row))
        print(json.dumps(entry), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
