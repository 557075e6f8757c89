# SPDX-License-Identifier: Apache-2.0
"""Full checkpoints of a table over a disk: with its segments linked, and written in full.

    python benchmarks/checkpoint/linked_save.py FOLDER [--rows 400000] [--dim 64] [--host 0.2]

Trains over keys that name every row, in no order, so that most rows lie on the disk, then a few
steps; saves in turns with links and without, a few steps between two saves (FOLDER holds the disk
tier and the checkpoints: one file system). A JSON line: seconds, bytes written and the
checkpoint's, and what a resume of each takes; a table over a disk of its own, the page cache
dropped where that is allowed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import hugectr
from hugectr import checkpoints
from hugectr.base.log import set_level
from hugectr.checkpoints.linked import LinkedShard
from hugectr.checkpoints.manifest import read_manifest
from hugectr.data import MemoryDataset

BATCH = 4096


def make_model(a: argparse.Namespace, folder: Path) -> hugectr.Model:
    """One table with Adam's states, of which host memory holds a share."""
    rng = np.random.default_rng(a.seed)
    cover = -(-a.rows // BATCH)
    keys = np.concatenate(
        [
            rng.permutation(a.rows)[np.arange(cover * BATCH) % a.rows],
            rng.integers(0, a.rows, 64 * BATCH),
        ]
    )
    label = (rng.random((len(keys), 1)) < 0.5).astype(np.float32)
    data = MemoryDataset(
        label,
        np.zeros((len(keys), 1), np.float32),
        {"keys": (keys, np.arange(len(keys) + 1, dtype=np.uint64))},
    )
    row = 12 * a.dim
    host = int(a.host * a.rows) * (row + 20)
    memory = hugectr.Memory(
        device=3 * BATCH * (row + 8), host=max(host, 6 * BATCH * (row + 28)),
        disk=f"{folder}:{max(4 * a.rows * row, 256 << 20)}B",
    )  # fmt: skip
    solver = hugectr.CreateSolver(
        batchsize=BATCH, batchsize_eval=BATCH, lr=0.001, seed=1, i64_input_key=True, device="cpu",
        metrics_spec={},
    )  # fmt: skip
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data)
    adam = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, adam)
    model.add(
        hugectr.Input(1, "label", 1, "dense", [hugectr.DataReaderSparseParam("keys", 1, True, 1)])
    )
    kind, layer = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash, hugectr.Layer_t
    model.add(hugectr.SparseEmbedding(kind, 0, a.dim, "sum", "rows", "keys", memory=memory))
    model.add(hugectr.DenseLayer(layer.Reshape, ["rows"], ["flat"], leading_dim=a.dim))
    model.add(hugectr.DenseLayer(layer.InnerProduct, ["flat"], ["logit"], num_output=1))
    model.add(hugectr.DenseLayer(layer.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def train(model: hugectr.Model, steps: int) -> None:
    for _ in range(steps):
        model.train()
    model.get_current_loss()


def forget_pages() -> None:
    """What is read next comes from the disk, where this may be asked for."""
    os.sync()
    with suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("1")


def save(model: hugectr.Model, folder: Path, linked: bool) -> dict[str, Any]:
    """One save, and what came of it."""
    beside = LinkedShard.is_beside
    if not linked:  # as on another file system
        LinkedShard.is_beside = lambda *_: False  # type: ignore[method-assign]
    os.sync()
    begin = time.perf_counter()
    model.save(folder)
    seconds = time.perf_counter() - begin
    LinkedShard.is_beside = beside  # type: ignore[method-assign]
    path = checkpoints.latest(folder)
    assert path is not None
    files = read_manifest(path)["files"]
    segments = sum(entry["bytes"] for name, entry in files.items() if ".segment" in name)
    everything = sum(entry["bytes"] for entry in files.values())
    return {
        "s": round(seconds, 3),
        "written_mb": round((everything - segments) / 1e6, 1),
        "mb": round(everything / 1e6, 1),
    }


def resume(a: argparse.Namespace, folder: Path, disk: Path) -> float:
    model = make_model(a, disk)
    forget_pages()
    begin = time.perf_counter()
    model.resume(folder)
    return round(time.perf_counter() - begin, 3)


def main() -> int:
    """A JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument(
        "--host", type=float, default=0.2, help="rows that host memory has room for"
    )
    parser.add_argument("--steps", type=int, default=6, help="between two saves")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    set_level(3)
    shutil.rmtree(a.folder, ignore_errors=True)
    a.folder.mkdir(parents=True)
    model = make_model(a, a.folder / "disk")
    train(model, -(-a.rows // BATCH) + 16)
    found: dict[str, list[dict[str, Any]]] = {"linked": [], "full": []}
    for _ in range(a.turns):
        for name, list_of in found.items():
            train(model, a.steps)
            shutil.rmtree(a.folder / name, ignore_errors=True)
            list_of.append(save(model, a.folder / name, name == "linked"))
    stats = model.table_stats()[0]
    del model
    resumed = {
        name: [resume(a, a.folder / name, a.folder / "other") for _ in range(2)] for name in found
    }
    print(json.dumps({
        "work": f"{a.rows:,} rows x {a.dim}, Adam, host {a.host:.0%}", "rows": stats["rows"],
        "disk_rows": stats["disk_rows"], "saves": found, "resume_s": resumed,
        "load": os.getloadavg()[0],
    }))  # fmt: skip
    shutil.rmtree(a.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
