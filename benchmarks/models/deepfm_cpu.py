# SPDX-License-Identifier: Apache-2.0
"""DeepFM on the CPU, ours and a PyTorch peer in one run; both as JSON with their ratio.

    python benchmarks/models/deepfm_cpu.py [--peer PEER.py] [--peer-python PYTHON]

One step is everything: keys never seen by the step before (64 distinct batches in turn), looked up
in hash tables that hold all 2.6 M rows, sort, forward, backward, table update, dense optimizer. A
timing is a block of steps ended by reading the loss, divided by their number; the median of the
blocks counts. The peer is a program that prints one JSON line with ``ms`` and takes ``--opt``,
``--batch``, ``--dim``, ``--rows``, ``--slots``, ``--tower`` and ``--steps``.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import hugectr
from hugectr.base.log import set_level
from hugectr.data import MemoryDataset, from_arrays

ROOT = Path(__file__).resolve().parents[2]
DENSE = 13


def make_data(a: argparse.Namespace) -> MemoryDataset:
    """``batches`` distinct batches; keys of slot s are s * rows + a power-law draw."""
    rng = np.random.default_rng(1)
    n = a.batch * a.batches
    g = -0.2  # 1 - alpha, with alpha = 1.2
    keys = np.empty((n, a.slots), np.int64)
    for slot in range(a.slots):
        draw = ((a.rows**g - 1.0) * rng.random(n) + 1.0) ** (1.0 / g)
        keys[:, slot] = np.clip(draw.astype(np.int64) - 1, 0, a.rows - 1) + slot * a.rows
    label = (rng.random((n, 1)) < 0.25).astype(np.float32)
    return from_arrays(label, rng.random((n, DENSE), np.float32), {"keys": keys})


def make_model(a: argparse.Namespace, optimizer: str, data: MemoryDataset) -> hugectr.Model:
    """The peer's model: 429-400-400-400-1, second-order products, and a linear part."""
    adam = optimizer == "adam"
    kind = hugectr.Optimizer_t.Adam if adam else hugectr.Optimizer_t.SGD
    solver = hugectr.CreateSolver(
        batchsize=a.batch,
        batchsize_eval=a.batch,
        lr=0.001 if adam else 0.01,
        seed=1,
        device="cpu",
        i64_input_key=True,
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm, source=data, num_workers=a.workers
    )
    opt = hugectr.CreateOptimizer(kind, hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, opt)
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, a.slots)
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    table = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    for name, d in (("fm", a.dim), ("wide", 1)):
        model.add(hugectr.SparseEmbedding(table, 0, d, "sum", name, "keys"))

    def add(layer: str, bottoms: list[str], top: str, **parameters: Any) -> None:
        model.add(hugectr.DenseLayer(hugectr.Layer_t[layer], bottoms, [top], **parameters))

    add("Reshape", ["fm"], "flat", leading_dim=a.slots * a.dim)
    add("FmOrder2", ["flat"], "pairs", out_dim=a.dim)
    add("ReduceSum", ["pairs"], "second", axis=1)
    add("Reshape", ["wide"], "wide_flat", leading_dim=a.slots)
    add("ReduceSum", ["wide_flat"], "first", axis=1)
    add("Concat", ["flat", "dense"], "relu0")
    for i in (1, 2, 3):
        add("InnerProduct", [f"relu{i - 1}"], f"fc{i}", num_output=a.tower)
        add("ReLU", [f"fc{i}"], f"relu{i}")
    add("InnerProduct", ["relu3"], "deep", num_output=1)
    add("Add", ["deep", "second", "first"], "logit")
    add("BinaryCrossEntropyLoss", ["logit", "label"], "loss")
    model.compile()
    return model


def fill_tables(model: hugectr.Model, a: argparse.Namespace) -> None:
    """Give both tables all rows, so that lookups walk full tables."""
    rng = np.random.default_rng(2)
    keys = np.arange(a.slots * a.rows, dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, d in (("fm", a.dim), ("wide", 1)):
            path = Path(folder) / name
            path.mkdir()
            keys.tofile(path / "key")
            ((rng.random((len(keys), d), np.float32) - 0.5) * 0.1).tofile(path / "emb_vector")
            paths.append(path)
        model.load_sparse_weights(paths)


def time_ours(a: argparse.Namespace, optimizer: str, data: MemoryDataset) -> dict[str, Any]:
    """Milliseconds of a step, and where they go."""
    model = make_model(a, optimizer, data)
    fill_tables(model, a)
    rows = [table["rows"] for table in model.table_stats()]
    if rows != [a.slots * a.rows] * 2:
        raise RuntimeError(f"tables hold {rows} rows, not {a.slots * a.rows} each")
    losses = []
    for _ in range(a.warmup):
        model.train()
    losses.append(model.get_current_loss())
    model.stage_seconds()
    blocks = []
    for _ in range(a.blocks):
        begin = time.perf_counter()
        for _ in range(a.steps):
            model.train()
        losses.append(model.get_current_loss())
        blocks.append((time.perf_counter() - begin) / a.steps)
    stages = {name: s / a.blocks / a.steps for name, s in model.stage_seconds().items()}
    synced = []
    for _ in range(a.steps):
        begin = time.perf_counter()
        model.train()
        model.get_current_loss()
        synced.append(time.perf_counter() - begin)
    return {
        "ms": round(1e3 * float(np.median(blocks)), 1),
        "ms_blocks": [round(1e3 * b, 1) for b in blocks],
        "ms_synchronised": round(1e3 * float(np.median(synced)), 1),
        "ksamples_s": round(a.batch / float(np.median(blocks)) / 1e3, 1),
        "stage_ms": {name: round(1e3 * s, 1) for name, s in stages.items()},
        "loss": [round(float(x), 4) for x in losses],
    }


def time_peer(a: argparse.Namespace, optimizer: str) -> dict[str, Any]:
    """What the peer prints."""
    options = {
        "--model": "deepfm",
        "--opt": optimizer,
        "--batch": a.batch,
        "--dim": a.dim,
        "--rows": a.rows,
        "--slots": a.slots,
        "--tower": a.tower,
        "--steps": max(20, a.steps),
    }
    command = [a.peer_python, str(a.peer)]
    for name, value in options.items():
        command += [name, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def peer_missing(a: argparse.Namespace) -> str:
    """Why the peer can not run, or ""."""
    if not Path(a.peer).is_file():
        return f"no peer at {a.peer}: give its path with --peer"
    if a.peer_python == sys.executable:
        found = importlib.util.find_spec("torch") is not None
    else:
        command = [a.peer_python, "-c", "import torch"]
        found = subprocess.run(command, capture_output=True, check=False).returncode == 0
    if found:
        return ""
    return (
        f"{a.peer_python} has no torch: 'python3 -m venv torch-venv && torch-venv/bin/pip install "
        "torch', then --peer-python torch-venv/bin/python"
    )


def _best_seconds(work: Any, repeats: int = 7) -> float:
    """Ceilings count at their best: what the machine can do when left alone."""
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def ceilings(a: argparse.Namespace, data: MemoryDataset) -> dict[str, Any]:
    """GEMM rate and copy bandwidth of this machine now, and what a step needs of them."""
    rng = np.random.default_rng(3)
    widths = [a.slots * a.dim + DENSE, a.tower, a.tower, a.tower]
    flops = seconds = 0.0
    for n, m in itertools.pairwise(widths):
        x, w = rng.random((a.batch, n), np.float32), rng.random((n, m), np.float32)
        dy = rng.random((a.batch, m), np.float32)
        products: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]] = [
            (x, w),
            (dy, w.T),
            (x.T, dy),
        ]
        for left, right in products:
            seconds += _best_seconds(lambda left=left, right=right: left @ right)
            flops += 2.0 * a.batch * n * m
    source = np.ones(1 << 26, np.float32)
    target = np.empty_like(source)
    copy = 2 * source.nbytes / _best_seconds(lambda: np.copyto(target, source))
    keys = data.sparse["keys"][0].reshape(a.batches, -1)
    unique = float(np.mean([len(np.unique(batch)) for batch in keys[:4]]))
    return {
        "gemm_gflop": round(flops / 1e9, 2),
        "gemm_gflop_s": round(flops / seconds / 1e9, 1),
        "gemm_ms": round(1e3 * seconds, 1),
        "copy_gb_s": round(copy / 1e9, 1),
        "keys": a.batch * a.slots,
        "unique_rows": round(unique),
    }


def main() -> int:
    """Run everything; the JSON goes to standard output."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default_peer = ROOT.parent / "shared" / "peers" / "torch_cpu.py"
    parser.add_argument("--peer", type=Path, default=default_peer)
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter with torch")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--opt", choices=("adam", "sgd", "both"), default="both")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--batches", type=int, default=64, help="distinct batches")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a slot")
    parser.add_argument("--slots", type=int, default=26)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--tower", type=int, default=400)
    parser.add_argument("--workers", type=int, default=1, help="reader threads")
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--steps", type=int, default=20, help="steps of a block")
    parser.add_argument("--blocks", type=int, default=3)
    a = parser.parse_args()
    set_level(3)
    missing = "" if a.no_peer else peer_missing(a)
    if missing:
        print(missing, file=sys.stderr)
    data = make_data(a)
    result: dict[str, Any] = {
        "work": f"DeepFM, batch {a.batch}, {a.slots} slots of {a.rows} rows, d {a.dim} and 1",
        "ceilings": ceilings(a, data),
    }
    if missing:
        result["peer_missing"] = missing
    for optimizer in ("adam", "sgd") if a.opt == "both" else (a.opt,):
        print(f"{optimizer} ...", file=sys.stderr)
        ours = time_ours(a, optimizer, data)
        ours["gemm_share"] = round(result["ceilings"]["gemm_ms"] / ours["ms"], 3)
        entry: dict[str, Any] = {"ours": ours}
        if not a.no_peer and not missing:
            entry["peer"] = time_peer(a, optimizer)
            entry["ratio"] = round(entry["peer"]["ms"] / ours["ms"], 2)
        result[optimizer] = entry
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
