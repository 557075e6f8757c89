# SPDX-License-Identifier: Apache-2.0
"""DLRM on MLPerf's 26 tables, 105.4 GB with row-wise AdaGrad, over places for a part of the rows.

    python benchmarks/models/mlperf_tiers.py --raw FOLDER [--hot one|mlperf] [--scale 1]
        [--device-gb 40] [--modes all tiers] [--vector float32]

Every row is there before the timing: files name them all, one after the other. Then ``--warm``
steps, and ``--blocks`` of ``--steps`` timed ones, on drawn keys, each batch once. Mode ``tiers``
has all rows in host memory and places for ``--device-gb`` on the device; mode ``all`` trains on the
same keys modulo min(rows, R), with the largest R for which all rows have places. The link's rate,
both ways at once, is measured before (by torch, where there is one), and the floor of a step is
what moves the more of its two ways over it. JSON lines on stdout, one a mode; on stderr what is
known before. ``--scale`` makes the tables smaller.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ctr_models import layer, precision, tower
from dcnv2_mlperf import say, train
from dcnv2_raw import RawWriter, finish
from dcnv2_samples import DENSE, HOTNESS, table_rows
from mlperf_tiers_keys import TierSamples, cover_batches, rows_that_fit
from op_times import line_of, op_times

import hugectr
from hugectr.base.log import set_level

DIM = 128
#: GB/s each way, both at once, of copies of 1 GB by the copy engines.
_LINK = """
import time, torch
host = [torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
card = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(2)]
streams = [torch.cuda.Stream() for _ in range(2)]
def both():
    with torch.cuda.stream(streams[0]): card[0].copy_(host[0], non_blocking=True)
    with torch.cuda.stream(streams[1]): host[1].copy_(card[1], non_blocking=True)
both(); torch.cuda.synchronize(); begin = time.perf_counter()
for _ in range(5): both()
torch.cuda.synchronize(); print(5 * (1 << 30) / (time.perf_counter() - begin) / 1e9)
"""


def link_rate(a: argparse.Namespace) -> float:
    """As given, or measured by another process; 0: not known."""
    if a.link or a.device == "cpu":
        return float(a.link)
    run = subprocess.run([a.torch, "-c", _LINK], capture_output=True, text=True, check=False)
    return round(float(run.stdout), 1) if run.returncode == 0 else 0.0


def row_bytes(a: argparse.Namespace) -> int:
    """Vector and one number of row-wise AdaGrad."""
    return DIM * (2 if a.vector == "bfloat16" else 4) + 4


def make_model(a: argparse.Namespace, source: str, data: TierSamples) -> hugectr.Model:
    """The model, compiled, with one table of 26 slots."""
    solver = hugectr.CreateSolver(
        batchsize=a.batch,
        batchsize_eval=a.batch,
        lr=0.005,
        seed=1,
        device=a.device,
        i64_input_key=False,
        metrics_spec={},
        **precision(a.precision),
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Raw,
        source=source,
        num_workers=a.workers,
        num_samples=data.samples,
        float_label_dense=True,
    )
    optimizer = hugectr.CreateOptimizer(
        hugectr.Optimizer_t.RowWiseAdaGrad, hugectr.Update_t.Local, epsilon=1e-8
    )
    model = hugectr.Model(solver, reader, optimizer)
    keys = hugectr.DataReaderSparseParam("keys", list(data.hot), True, len(data.hot))
    model.add(hugectr.Input(1, "label", DENSE, "dense", [keys]))
    model.add(
        hugectr.SparseEmbedding(
            hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash,
            0,
            DIM,
            "sum",
            "emb",
            "keys",
            slot_size_array=list(data.modulo),
            vector_type=a.vector,
            memory=hugectr.Memory(device=int(a.device_gb * 1e9)),
        )
    )
    bottom = tower(model, "bottom", "dense", (512, 256, DIM))
    pairs = layer(model, "Interaction", [bottom, "emb"], "pairs")
    top = tower(model, "top", pairs, (1024, 1024, 512, 256))
    layer(model, "InnerProduct", [top], "logit", num_output=1)
    layer(model, "BinaryCrossEntropyLoss", ["logit", "label"], "loss")
    model.compile()
    return model


def counts(model: hugectr.Model) -> dict[str, int]:
    """Of the table, since the beginning."""
    stats = model.table_stats()[0]
    names = ("rows", "hits", "misses", "bytes_fetched", "bytes_written_back", "bytes", "host_bytes")
    return {name: int(stats[name]) for name in names}


def cover(
    a: argparse.Namespace, writer: RawWriter, data: TierSamples, folder: Path
) -> tuple[hugectr.Model, Path]:
    """A model with all rows, and the file of drawn samples."""
    files = [folder / f"{number}.raw" for number in range(data.cover + 1)]
    left = cover_batches(data.modulo, data.hot, a.batch)
    model: hugectr.Model | None = None
    waiting = writer.start(files[0], 0, data.samples)
    for number, file in enumerate(files):
        finish(waiting)
        if number < data.cover:
            waiting = writer.start(files[number + 1], number + 1, data.samples)
        if model is None:
            model = make_model(a, str(file), data)
        else:
            model.set_source(str(file))
            files[number - 1].unlink()
        if number == data.cover:
            break
        steps = min(left, data.samples // a.batch)
        left -= steps
        seconds = train(model, steps)
        there = counts(model)
        say(a, covered=there["rows"], of=sum(data.modulo), device_gb=there["bytes"] / 1e9,
            host_gb=there["host_bytes"] / 1e9, cover_ms=1e3 * seconds / steps)  # fmt: skip
    assert model is not None
    return model, files[-1]


def time_block(a: argparse.Namespace, model: hugectr.Model, link: float) -> dict[str, Any]:
    """Milliseconds of a step, and what moved in it."""
    before = counts(model)
    ms = 1e3 * train(model, a.steps) / a.steps
    after = counts(model)
    step = {name: (after[name] - before[name]) / a.steps for name in before}
    moved = max(step["bytes_fetched"], step["bytes_written_back"])
    found = {
        "ms": round(ms, 3),
        "misses": round(step["misses"]),
        "distinct": round(step["hits"] + step["misses"]),
        "fetched_mb": round(step["bytes_fetched"] / 1e6, 2),
        "sent_mb": round(step["bytes_written_back"] / 1e6, 2),
    }
    if link and moved:
        found |= {"floor_ms": round(moved / link / 1e6, 3)}
        found |= {"floor_share": round(moved / link / 1e6 / ms, 3)}
    return found


def measure(a: argparse.Namespace, mode: str, link: float) -> dict[str, Any]:
    """One mode."""
    rows = table_rows(a.scale)
    places = int(a.device_gb * 1e9) // (row_bytes(a) + 8)
    modulo = rows if mode == "tiers" else rows_that_fit(rows, places)
    hot = HOTNESS if a.hot == "mlperf" else (1,) * len(rows)
    batches = a.warm + a.blocks * a.steps
    files = -(-cover_batches(modulo, hot, a.batch) // batches)
    data = TierSamples(rows, modulo, hot, a.alpha, a.seed, files, batches * a.batch)
    begin = time.perf_counter()
    writer = RawWriter(data, a.processes)
    try:
        with tempfile.TemporaryDirectory(dir=a.raw) as folder:
            model, _ = cover(a, writer, data, Path(folder))
            writer.close()
            covered = time.perf_counter() - begin
            train(model, a.warm)
            model.stage_seconds()
            blocks = []
            for _ in range(a.blocks):
                blocks.append(time_block(a, model, link))
                say(a, mode=mode, **blocks[-1])
            steps = a.blocks * a.steps
            stages = {k: round(1e3 * v / steps, 3) for k, v in model.stage_seconds().items()}
            if a.timeline:
                for row in op_times(model, a.steps):
                    print(line_of(row), file=sys.stderr, flush=True)
    finally:
        writer.close()
    there = counts(model)
    ms = float(np.median([block["ms"] for block in blocks]))
    return {
        "mode": mode,
        "rows": there["rows"],
        "all_rows": sum(modulo),
        "ms": ms,
        "msamples_s": round(a.batch / ms / 1e3, 3),
        "cover_s": round(covered, 1),
        "device_gb": round(there["bytes"] / 1e9, 2),
        "host_gb": round(there["host_bytes"] / 1e9, 2),
        "loss": round(model.get_current_loss(), 4),
        "stage_ms": stages,
        "blocks": blocks,
    }


def main() -> int:
    """A JSON line a mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raw", type=Path, help="folder of Raw files, in memory if it can be")
    parser.add_argument("--hot", default="one", choices=("one", "mlperf"))
    parser.add_argument("--scale", type=float, default=1.0, help="rows of the tables, times this")
    parser.add_argument("--device-gb", type=float, default=40.0, help="for places of rows")
    parser.add_argument("--modes", nargs="+", default=["all", "tiers"], choices=("all", "tiers"))
    parser.add_argument("--vector", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--precision", default="bf16", choices=("fp32", "tf32", "fp16", "bf16"))
    parser.add_argument("--alpha", type=float, default=1.05)
    parser.add_argument("--warm", type=int, default=100, help="steps on drawn keys, not timed")
    parser.add_argument("--steps", type=int, default=25, help="of a block")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--processes", type=int, default=8, help="that write files")
    parser.add_argument("--link", type=float, default=0.0, help="GB/s each way; 0: measured")
    parser.add_argument("--torch", default="python3", help="a Python with torch, for the link")
    parser.add_argument("--timeline", action="store_true", help="milliseconds of every op")
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    a.begin = time.perf_counter()
    set_level(3)
    if a.raw:
        a.raw.mkdir(parents=True, exist_ok=True)
    link = link_rate(a)
    work = f"DLRM on MLPerf's tables x {a.scale}, RowWiseAdaGrad, {a.vector} rows, {a.hot} hot, "
    work += f"batch {a.batch}, {a.precision}, {a.device}, places {a.device_gb} GB"
    say(a, work=work, link_gb_s=link)
    speed: dict[str, float] = {}
    for mode in a.modes:
        found = measure(a, mode, link)
        gc.collect()
        speed[mode] = found["msamples_s"]
        if len(speed) == 2:
            found["of_all"] = round(speed["tiers"] / speed["all"], 3)
        print(json.dumps({"work": work, "link_gb_s": link, **found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
