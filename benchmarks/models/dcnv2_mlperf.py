# SPDX-License-Identifier: Apache-2.0
"""The model of MLPerf Training's recommender, DLRM-DCNv2, in samples a second.

    python benchmarks/models/dcnv2_mlperf.py --batch 8192 --precision bf16 --scale 0.25
    python benchmarks/models/dcnv2_mlperf.py --raw FOLDER --samples 20000000 --scale 0.25

26 tables of d 128, 214 keys a sample (dcnv2_samples.py), bottom 512-256-128, three crosses of rank
512 on 3456 numbers, top 1024-1024-512-256-1, AdaGrad. A timed step is everything, on keys the step
has not seen before; inputs lie on the device (``--raw``: are read from a Raw file of multi-hot
records, which is written first and lies in the page cache). One JSON line; what is known before it
goes to stderr, a JSON line each. ``--scale`` and ``--max-rows`` make the tables smaller,
``--narrow`` the vectors and layers (for a look on a CPU), and the line says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from ctr_models import layer, precision, tower
from dcnv2_raw import Planted, RawWriter, finish, read_once, samples_that_fit
from dcnv2_samples import (
    DENSE,
    HOTNESS,
    ONE_INPUT,
    RECORD_BYTES,
    ROWS,
    Inputs,
    Samples,
    make_samples,
    table_rows,
)
from op_times import line_of, op_times
from slot_order import even_order

import hugectr
from hugectr import _core
from hugectr.base.log import set_level
from hugectr.data import MemoryDataset

DIM, CROSSES, RANK = 128, 3, 512
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")
#: Floating-point operations of the dense part for a sample, forward and backward.
MFLOP = 96.2


def say(a: argparse.Namespace, **found: Any) -> None:
    """A line on stderr, so that what is known stays known when the run is cut."""
    line = {"s": round(time.perf_counter() - a.begin, 1), **found}
    print(json.dumps(line), file=sys.stderr, flush=True)


def data_input(inputs: Inputs = ONE_INPUT) -> hugectr.Input:
    """A label, 13 numbers, and sparse inputs of fixed numbers of keys a slot."""
    sparse = [
        hugectr.DataReaderSparseParam(name, [HOTNESS[i] for i in tables], True, len(tables))
        for name, tables in inputs.items()
    ]
    return hugectr.Input(1, "label", DENSE, "dense", sparse)


def slots_of(a: argparse.Namespace) -> str:
    """The order of slots that is asked for; else the one that several devices are fastest with,
    where it is free: a Raw file has its slots in the given one, and a plan places each table."""
    if a.slots == "even" and (a.raw or a.plan != "none"):
        raise SystemExit(
            "--slots even: a Raw file has its slots in the given order, and a plan a table for each"
        )
    free = a.gpus > 1 and not a.raw and a.plan == "none"
    return a.slots or ("even" if free else "given")


def inputs_of(a: argparse.Namespace, data: Samples | None = None) -> Inputs:
    """Which tables are slots of which input, and in which order: that of a file's records, or one
    for these samples."""
    if a.plan != "none":
        return {f"keys{i}": (i,) for i in range(len(ROWS))}
    if a.slots == "even" and data is not None:
        return {"keys": even_order(data.distinct(a.batch), a.gpus)}
    return ONE_INPUT


def raw_settings(a: argparse.Namespace) -> dict[str, Any]:
    """How Raw files of multi-hot records are read."""
    found = {"num_workers": a.workers, "num_samples": a.samples, "float_label_dense": True}
    if a.reader == "RawAsync":
        found["async_param"] = hugectr.AsyncParam(multi_hot_reader=True, num_threads=a.workers)
    return found


def make_model(
    a: argparse.Namespace,
    source: MemoryDataset | str,
    evaluation: str = "",
    eval_samples: int = 0,
    inputs: Inputs | None = None,
) -> hugectr.Model:
    """The model, compiled, with a table for each sparse input; None: those of a Raw file."""
    inputs = inputs or inputs_of(a)
    rows = table_rows(a.scale, a.max_rows)
    apart = a.plan != "none"
    solver = hugectr.CreateSolver(
        batchsize=a.batch,
        batchsize_eval=a.batch,
        max_eval_batches=max(1, eval_samples // a.batch),
        lr=a.lr,
        seed=1,
        device=a.device,
        vvgpu=[list(range(a.gpus))],
        i64_input_key=a.key == "int64",
        plan="auto" if apart else None,
        **precision(a.precision),
    )
    reader: dict[str, Any] = {"num_workers": a.workers}
    if isinstance(source, MemoryDataset):
        kind = hugectr.DataReaderType_t.Norm
        reader["resident_batches"] = a.batches
    else:
        kind = hugectr.DataReaderType_t[a.reader]
        reader = raw_settings(a)
        reader |= {"eval_source": evaluation, "eval_num_samples": eval_samples}
    optimizer = hugectr.CreateOptimizer(
        hugectr.Optimizer_t[a.optimizer],
        hugectr.Update_t.Local,
        initial_accu_value=0.0,
        epsilon=1e-8,
    )
    read = hugectr.DataReaderParams(kind, source=source, **reader)
    model = hugectr.Model(solver, read, optimizer)
    model.add(data_input(inputs))
    dim, thin = DIM // a.narrow, lambda *widths: tuple(width // a.narrow for width in widths)
    kind = hugectr.Embedding_t.LocalizedSlotSparseEmbeddingHash
    if apart:  # whose rows may be anywhere
        kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    flat = []
    for name, tables in inputs.items():
        model.add(
            hugectr.SparseEmbedding(
                kind,
                0,
                dim,
                "sum",
                f"emb_{name}",
                name,
                slot_size_array=[rows[i] for i in tables],
                exchange=a.exchange,
                wire=a.wire,
            )
        )
        wide = len(tables) * dim
        flat.append(layer(model, "Reshape", [f"emb_{name}"], f"flat_{name}", leading_dim=wide))
    bottom = tower(model, "bottom", "dense", thin(512, 256, DIM))
    start = layer(model, "Concat", [bottom, *flat], "start")
    cross = layer(
        model, "MultiCross", [start], "cross", num_layers=CROSSES, projection_dim=RANK // a.narrow
    )
    top = tower(model, "top", cross, thin(1024, 1024, 512, 256))
    layer(model, "InnerProduct", [top], "logit", num_output=1)
    layer(model, "BinaryCrossEntropyLoss", ["logit", "label"], "loss")
    model.compile()
    return model


def train(model: hugectr.Model, steps: int) -> float:
    """Seconds of so many steps, waited for."""
    begin = time.perf_counter()
    for _ in range(steps):
        model.train()
    model.get_current_loss()
    return time.perf_counter() - begin


def time_steps(a: argparse.Namespace, model: hugectr.Model) -> dict[str, Any]:
    """The median of blocks of steps."""
    train(model, a.warm or a.batches)
    model.stage_seconds()
    blocks = [train(model, a.steps) / a.steps for _ in range(a.blocks)]
    seconds = float(np.median(blocks))
    steps = a.blocks * a.steps
    stages = {name: round(1e3 * each / steps, 3) for name, each in model.stage_seconds().items()}
    if a.timeline:
        for row in op_times(model, a.steps):
            print(line_of(row))
    return {
        "ms": round(1e3 * seconds, 3),
        "ms_best": round(1e3 * min(blocks), 3),
        "ms_worst": round(1e3 * max(blocks), 3),
        "msamples_s": round(a.batch / seconds / 1e6, 3),
        "msamples_s_a_device": round(a.batch / a.gpus / seconds / 1e6, 3),
        "dense_tflop_s_a_device": round(MFLOP * a.batch / a.gpus / seconds / 1e6, 1),
        "stage_ms": stages,
        "table_rows": sum(int(table["rows"]) for table in model.table_stats()),
        "loss": round(model.get_current_loss(), 4),
    }


def resident(a: argparse.Namespace) -> dict[str, Any]:
    """Steps on batches that lie on the device."""
    rows = table_rows(a.scale, a.max_rows)
    data = make_samples(a.batches * a.batch, rows, a.alpha, a.seed)
    inputs = inputs_of(a, data)
    return time_steps(a, make_model(a, data.to_memory(inputs), inputs=inputs))


def from_raw(a: argparse.Namespace) -> dict[str, Any]:
    """Steps on a Raw file in the page cache, and the reader alone."""
    asked, a.samples = a.samples, samples_that_fit(a.raw, a.samples)
    file = a.raw / "dcnv2.raw"
    writer = RawWriter(Planted(table_rows(a.scale, a.max_rows), a.alpha, a.seed), a.processes)
    begin = time.perf_counter()
    try:
        finish(writer.start(file, 0, a.samples))
        writer.close()
        written = time.perf_counter()
        read_once(file, a.workers)
        read = time.perf_counter()
        size = a.samples * RECORD_BYTES / 1e9
        found = {"asked_samples": asked, "samples": a.samples, "file_gb": round(size, 2)}
        found |= {
            "write_s": round(written - begin, 1),
            "cat_gb_s": round(size / (read - written), 2),
        }
        say(a, **found)
        alone = read_alone(a, str(file))
        say(a, **alone)
        # Every row is there, and the device's memory has its size, after the file was read once.
        a.warm = a.warm or a.samples // a.batch
        return {**time_steps(a, make_model(a, str(file))), **alone, **found}
    finally:
        writer.close()
        file.unlink(missing_ok=True)


def read_alone(a: argparse.Namespace, file: str) -> dict[str, Any]:
    """A pass of the reader over the file, up to batches on the devices, with nothing trained."""
    inputs = data_input()
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t[a.reader], source=file, **raw_settings(a)
    )
    solver = {
        "batchsize": a.batch,
        "batchsize_eval": a.batch,
        "device": a.device,
        "vvgpu": [list(range(a.gpus))],
        "i64_input_key": a.key == "int64",
    }
    steps = max(1, a.samples // a.batch - 1)
    found = _core.read_through(solver, reader.to_spec(inputs), inputs.to_spec(), steps)
    return {
        "reader_msamples_s": round(found["samples"] / found["seconds"] / 1e6, 3),
        "reader_gb_s": round(found["bytes"] / found["seconds"] / 1e9, 3),
        "workers": a.workers,
    }


def arguments() -> argparse.ArgumentParser:
    """What the model and its samples are, and how long."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8192, help="of all devices")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--precision", default="bf16", choices=PRECISIONS)
    parser.add_argument("--optimizer", default="AdaGrad", choices=("AdaGrad", "RowWiseAdaGrad"))
    parser.add_argument("--exchange", default="auto", choices=("auto", "pooled", "unique"))
    parser.add_argument("--wire", choices=("fp32", "bf16", "fp16", "fp8"))
    parser.add_argument(
        "--plan", default="none", choices=("none", "auto"), help="auto: a table a slot, placed so"
    )
    parser.add_argument(
        "--slots",
        choices=("given", "even"),
        help="even: in an order in which devices, which get them in turn, have about as many "
        "distinct keys; so if it is not said, on several devices, without --raw and --plan",
    )
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--scale", type=float, default=1.0, help="rows of the tables, times this")
    parser.add_argument("--max-rows", type=int, default=0, help="of a table; 0: no bound")
    parser.add_argument("--alpha", type=float, default=1.1, help="of the large tables' power law")
    parser.add_argument("--batches", type=int, default=64, help="distinct ones")
    parser.add_argument(
        "--warm", type=int, default=0, help="steps; 0: every batch once, so that all rows are there"
    )
    parser.add_argument("--steps", type=int, default=14, help="of a block")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeline", action="store_true", help="milliseconds of every op")
    parser.add_argument("--raw", type=Path, help="folder of the Raw file")
    parser.add_argument("--samples", type=int, default=1 << 20, help="of the Raw file")
    parser.add_argument("--processes", type=int, default=0, help="that write; 0: one a processor")
    parser.add_argument("--reader", default="Raw", choices=("Raw", "RawAsync"))
    parser.add_argument("--key", default="int64", choices=("int64", "uint32"))
    parser.add_argument("--narrow", type=int, default=1, help="widths are divided by this")
    return parser


def work_of(a: argparse.Namespace) -> str:
    """What a run does, in words."""
    rows = table_rows(a.scale, a.max_rows)
    work = f"DLRM-DCNv2, {sum(rows):,} of {sum(ROWS):,} rows, batch {a.batch}, {a.precision}, "
    work += f"{a.optimizer}, {a.gpus} x {a.device}, {a.exchange} exchange, {a.key}"
    work += f", {a.wire} on the wire" if a.wire else ""
    work += ", 26 tables, plan auto" if a.plan != "none" else ""
    work += ", slots even" if a.slots == "even" else ""
    return work + (f", widths / {a.narrow}" if a.narrow > 1 else "")


def main() -> int:
    """One JSON line."""
    a = arguments().parse_args()
    a.slots = slots_of(a)
    a.begin = time.perf_counter()
    set_level(3)
    found = from_raw(a) if a.raw else resident(a)
    found["seconds"] = round(time.perf_counter() - a.begin, 1)
    print(json.dumps({"work": work_of(a), **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
