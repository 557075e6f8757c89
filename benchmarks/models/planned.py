# SPDX-License-Identifier: Apache-2.0
"""What the planner predicts of a step and what the step takes, for five kinds of models.

    python benchmarks/models/planned.py [--gpus 2] [--machine h200] [--cases dlrm sequence]
    python benchmarks/models/planned.py --device cpu --scale 0.01
    python benchmarks/models/planned.py --gpus 2 --cases giant --placements auto by_key one_device

DLRM, DCNv2, 100 tables of mixed d, one giant table beside 100 small ones, and a sequence that a
small attention weighs; one JSON line each. Every model trains on resident batches: each of them
once, so that all rows are there, then ``--steps`` in blocks. ``measured_ms`` are the stages of the
first device and ``step``, the median of blocks on the clock; ``ops`` are milliseconds of the
dearest ops, each alone on the device, ``layers`` predicted and measured ones of each op of the
dense network. ``--kernels`` adds every kernel of a step, by PyTorch's profiler where there is one:
times a step and microseconds. ``--placements`` runs each case with all tables placed so, one after
the other, and as planned ("auto"): also for 26 equal tables, for those of MLPerf with rows / 20 and
for 26 slots in which few of 100 M rows come often, which are no part of the five. A case that fails
says why in its line, and the others go on; one that would begin after ``--seconds`` is left out and
says so.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ctr_models import layer, precision, tower
from dcnv2_samples import HOTNESS, ROWS as MLPERF_ROWS

import hugectr
from hugectr import cuda
from hugectr.base.log import set_level
from hugectr.data import MemoryDataset, from_arrays
from hugectr.model.measuring import measure_machine
from hugectr.model.placing import machine_of
from hugectr.plan.dense_work import OpWork
from hugectr.plan.machine import Machine

DENSE = 13
#: Numbers of a step that are shown for the dearest ops.
OPS = 30


@dataclass(frozen=True)
class Table:
    """Its rows of a slot, and what a sample asks of it."""

    rows: int
    d: int
    slots: int = 1
    hot: int = 1
    combiner: str = "sum"
    alpha: float = 1.2


@dataclass(frozen=True)
class Case:
    """Tables, samples a device, the optimizer, and the network behind them."""

    tables: tuple[Table, ...]
    batch: int
    optimizer: str
    network: str


def mixed_tables() -> tuple[Table, ...]:
    """100 tables of 100 to 2 M rows, vectors of 4 to 128, one to three keys."""
    rows = np.geomspace(100, 2_000_000, 100)
    widths = (4, 16, 32, 64, 128)
    return tuple(
        Table(int(n), widths[i % len(widths)], 1, 1 + i % 3, "sum") for i, n in enumerate(rows)
    )


def giant_and_small() -> tuple[Table, ...]:
    """One table of 50 M rows, and 100 of 100 to 10,000."""
    small = np.geomspace(100, 10_000, 100)
    return Table(50_000_000, 64, 1, 4, "sum", 1.05), *(Table(int(n), 16) for n in small)


CASES: dict[str, Case] = {
    "dlrm": Case((Table(1_000_000, 128, 26),), 65536, "SGD", "dlrm"),
    "dcnv2": Case((Table(400_000, 128, 26, 8),), 8192, "AdaGrad", "dcnv2"),
    "tables100": Case(mixed_tables(), 16384, "SGD", "mlp"),
    "giant": Case(giant_and_small(), 16384, "AdaGrad", "mlp"),
    "sequence": Case(
        (Table(2_000_000, 64, 1, 50, "concat"), Table(2_000_000, 64)), 8192, "Adam", "attention"
    ),
}

#: Of ``--cases`` beside the five: what plans are compared on with one placement for all tables.
COMPARED: dict[str, Case] = {
    "equal26": Case((Table(1_000_000, 128),) * 26, 16384, "SGD", "mlp"),
    "mlperf26": Case(
        tuple(
            Table(max(rows // 20, min(rows, 100)), 128, 1, hot)
            for rows, hot in zip(MLPERF_ROWS, HOTNESS, strict=True)
        ),
        8192,
        "AdaGrad",
        "mlp",
    ),
    # Where the model of cost finds frequent rows on every device least far behind by key.
    "frequent": Case((Table(100_000_000, 128, 26, alpha=1.05),), 8192, "SGD", "mlp"),
}

PLACEMENTS = ("by_key", "one_device", "replicated", "by_column", "hybrid")


def power_law(
    rng: np.random.Generator, count: int, rows: int, alpha: float
) -> npt.NDArray[np.int64]:
    """Categories 0 .. rows - 1 with P(k) ~ k**-alpha, rounded down."""
    power = 1.0 - alpha
    draw = ((float(rows) ** power - 1.0) * rng.random(count) + 1.0) ** (1.0 / power)
    return np.clip(draw.astype(np.int64) - 1, 0, rows - 1)


def scaled(table: Table, scale: float) -> Table:
    """With fewer rows."""
    rows = max(min(table.rows, 100), int(table.rows * scale))
    return Table(rows, table.d, table.slots, table.hot, table.combiner, table.alpha)


def make_data(tables: list[Table], samples: int, seed: int) -> MemoryDataset:
    """Samples whose keys are power-law ones; slot s of a table has keys from s * rows on."""

    def keys_of(one: tuple[int, Table]) -> Any:
        number, table = one
        rng = np.random.default_rng([seed, number])
        keys = np.empty((samples, table.slots, table.hot), np.int64)
        for slot in range(table.slots):
            drawn = power_law(rng, samples * table.hot, table.rows, table.alpha)
            keys[:, slot] = drawn.reshape(samples, table.hot) + slot * table.rows
        offsets = np.arange(0, samples * table.slots * table.hot + 1, table.hot, dtype=np.uint64)
        return keys.reshape(-1), offsets

    rng = np.random.default_rng(seed)
    with ThreadPoolExecutor() as pool:
        sparse = list(pool.map(keys_of, enumerate(tables)))
    dense = rng.random((samples, DENSE), np.float32)
    label = (rng.random((samples, 1)) < 0.25).astype(np.float32)
    return from_arrays(label, dense, {f"keys{i}": found for i, found in enumerate(sparse)})


def add_network(model: hugectr.Model, kind: str, tables: list[Table]) -> None:
    """What stands behind the tables, up to the loss."""
    flat = [
        layer(model, "Reshape", [f"table{i}"], f"flat{i}", leading_dim=t.d * t.slots)
        for i, t in enumerate(tables)
        if t.combiner != "concat"
    ]
    if kind == "dlrm":
        bottom = tower(model, "bottom", "dense", (512, 256, tables[0].d))
        top = layer(model, "Interaction", [bottom, "table0"], "pairs")
        top = tower(model, "top", top, (1024, 1024, 512, 256))
    elif kind == "dcnv2":
        bottom = tower(model, "bottom", "dense", (512, 256, tables[0].d))
        start = layer(model, "Concat", [bottom, *flat], "start")
        top = layer(model, "MultiCross", [start], "cross", num_layers=3, projection_dim=512)
        top = tower(model, "top", top, (1024, 1024, 512, 256))
    elif kind == "attention":
        top = layer(model, "Concat", [attended(model, tables[0]), *flat, "dense"], "start")
        top = tower(model, "top", top, (512, 256))
    else:
        top = layer(model, "Concat", [*flat, "dense"], "start")
        top = tower(model, "top", top, (512, 256))
    layer(model, "InnerProduct", [top], "logit", num_output=1)
    layer(model, "BinaryCrossEntropyLoss", ["logit", "label"], "loss")


def attended(model: hugectr.Model, table: Table) -> str:
    """The mean of a history's vectors, weighed by a small network of each, (batch, d)."""
    steps = layer(model, "Reshape", ["table0"], "steps", leading_dim=table.d)
    scores = layer(model, "InnerProduct", [steps], "unit", num_output=32)
    scores = layer(model, "ReLU", [scores], "unit_relu")
    scores = layer(model, "InnerProduct", [scores], "scores", num_output=1)
    scores = layer(model, "Reshape", [scores], "rows", leading_dim=table.hot)
    weights = layer(model, "Softmax", [scores], "weights")
    row = layer(model, "Reshape", [weights], "row", leading_dim=table.hot, time_step=1)
    column = layer(model, "Reshape", [steps], "column", leading_dim=table.d, time_step=table.hot)
    found = layer(model, "MatrixMultiply", [row, column], "mean")
    return layer(model, "Reshape", [found], "interest", leading_dim=table.d)


def make_model(a: argparse.Namespace, case: Case, placement: str = "auto") -> hugectr.Model:
    """The model, not compiled yet; "auto" leaves its placements to ``--plan``."""
    tables = [scaled(table, a.scale) for table in case.tables]
    batch = max(64, int(case.batch * min(1.0, 4 * a.scale))) * a.gpus
    data = make_data(tables, batch * a.batches, a.seed)
    solver = hugectr.CreateSolver(
        batchsize=batch,
        batchsize_eval=batch,
        lr=0.01,
        seed=1,
        device=a.device,
        vvgpu=[list(range(a.gpus))],
        i64_input_key=True,
        plan=a.plan if a.gpus > 1 and a.plan != "none" and placement == "auto" else None,
        **precision(a.precision),
    )
    reader = hugectr.DataReaderParams(
        hugectr.DataReaderType_t.Norm,
        source=data,
        num_workers=a.workers,
        resident_batches=a.batches,
    )
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t[case.optimizer], hugectr.Update_t.Local)
    model = hugectr.Model(solver, reader, optimizer)
    inputs = [
        hugectr.DataReaderSparseParam(f"keys{i}", t.hot, True, t.slots)
        for i, t in enumerate(tables)
    ]
    model.add(hugectr.Input(1, "label", DENSE, "dense", inputs))
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    where = None if placement == "auto" else placement
    for i, t in enumerate(tables):
        names = f"table{i}", f"keys{i}"
        model.add(hugectr.SparseEmbedding(kind, 0, t.d, t.combiner, *names, placement=where))
    add_network(model, case.network, tables)
    return model


def train(model: hugectr.Model, steps: int) -> float:
    """Seconds a step, waited for."""
    begin = time.perf_counter()
    for _ in range(steps):
        model.train()
    model.get_current_loss()
    return (time.perf_counter() - begin) / max(1, steps)


def dearest_ops(times: list[dict[str, Any]], steps: int) -> dict[str, float]:
    """Milliseconds of a step in ops of one name, each alone on the device."""
    sums: Counter[str] = Counter()
    for time_of in times:
        sums[f"{time_of['stream']} {time_of['op']}"] += float(time_of["ms"]) / steps
    return {name: round(ms, 4) for name, ms in sums.most_common(OPS)}


def layers(
    times: list[dict[str, Any]], steps: int, work: Iterable[OpWork], machine: Machine, tf32: bool
) -> dict[str, list[float]]:
    """Predicted and measured milliseconds of each op of each layer."""
    found: dict[str, list[float]] = {}
    for one in work:
        found.setdefault(f"{one.op} {one.layer}", [0.0, 0.0])[0] += 1e3 * one.seconds(machine, tf32)
    for time_of in times:
        both = found.get(f"{time_of['op']} {time_of['layer']}")
        if both is not None:
            both[1] += float(time_of["ms"]) / steps
    return {name: [round(ms, 4) for ms in both] for name, both in found.items()}


def kernels(model: hugectr.Model, steps: int) -> dict[str, list[float]] | str:
    """Times a step and microseconds a step of each kernel beside the others, or why not."""
    try:
        from torch.profiler import ProfilerActivity, profile
    except ImportError as error:
        return str(error)
    train(model, 2)
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        train(model, steps)
    count: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for event in profiled.events():
        name = event.name.replace("hugectr::", "").replace("cuda::", "")[:160]
        count[name] += 1
        sums[name] += getattr(event, "device_time", 0.0) or getattr(event, "cuda_time", 0.0)
    return {
        name: [round(count[name] / steps, 2), round(us / steps, 1)]
        for name, us in sums.most_common(4 * OPS)
    }


def run_case(name: str, placement: str, a: argparse.Namespace) -> dict[str, Any]:
    """Predictions beside what was measured."""
    begin = time.perf_counter()
    model = make_model(a, (CASES | COMPARED)[name], placement)
    predicted = model.plan(machine=a.machine[0])
    plan = predicted.placement
    assert plan is not None
    others = {}
    for machine in a.machine[1:]:
        other = model.plan(machine=machine).placement
        assert other is not None
        others[other.machine] = round(other.training_ms, 4)
    model.compile()
    kinds = Counter(str(table.placement()).split()[0] for table in model.session.tables())
    train(model, a.batches + 4)
    prepared = time.perf_counter() - begin
    model.stage_seconds()
    blocks = [train(model, a.steps // a.blocks) for _ in range(a.blocks)]
    steps = a.blocks * (a.steps // a.blocks)
    stages = model.stage_seconds()
    step = 1e3 * float(np.median(blocks))
    entry: dict[str, Any] = {
        "case": name,
        "placed": placement,
        "batch": plan.batchsize,
        "devices": plan.devices,
        "machine": plan.machine,
        "placements": dict(kinds),
        "predicted_ms": {phase: round(ms, 4) for phase, ms in plan.ms.items()}
        | {"dense": round(plan.dense_ms, 4)},
        "measured_ms": {stage: round(1e3 * s / steps, 4) for stage, s in stages.items()},
        "uniform_ms": {kind: round(ms, 4) for kind, ms in plan.uniform_ms.items()},
        "predicted_step_ms": round(plan.training_ms, 4),
        "measured_step_ms": round(step, 4),
        "measured_best_ms": round(1e3 * min(blocks), 4),
        "measured_worst_ms": round(1e3 * max(blocks), 4),
        "predicted_by_measured": round(plan.training_ms / step, 4),
        "predicted_by_others": others,
        "steps": steps,
        "rows": sum(int(stats["rows"]) for stats in model.table_stats()),
        "loss": round(float(model.get_current_loss()), 4),
        "prepare_s": round(prepared, 1),
    }
    if a.ops:
        turns = min(4, a.batches)
        times = model.profile(turns, alone=True)
        machine = machine_of(model.solver, a.machine[0])
        entry["ops"] = dearest_ops(times, turns)
        entry["layers"] = layers(times, turns, predicted.work, machine, a.precision == "tf32")
    if a.kernels:
        entry["kernels"] = kernels(model, 4)
    return entry


def main() -> int:
    """One JSON line a case; 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES | COMPARED, default=list(CASES))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--gpus", type=int, default=1, help="batches grow with them")
    parser.add_argument(
        "--machine", nargs="+", default=["here"], help="whose rates are assumed; others beside it"
    )
    parser.add_argument("--measure", action="store_true", help="this one's rates first")
    parser.add_argument("--plan", default="auto", help="on several: auto, none or a plan's file")
    parser.add_argument("--placements", nargs="+", choices=("auto", *PLACEMENTS), default=["auto"])
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="bf16")
    parser.add_argument("--scale", type=float, default=1.0, help="of rows; below 1/4 of batches")
    parser.add_argument("--batches", type=int, default=16, help="distinct ones")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=80.0, help="no case begins after them")
    parser.add_argument("--no-ops", dest="ops", action="store_false")
    parser.add_argument("--kernels", action="store_true", help="of a step, with torch's profiler")
    a = parser.parse_args()
    if a.device == "cpu":
        a.precision = "fp32"
    set_level(3)
    names = cuda.device_names() if a.device == "cuda" else []
    print(json.dumps({"devices": names, "hugectr": hugectr.__version__}), flush=True)
    if a.measure:
        begin = time.perf_counter()
        rates = measure_machine(a.device, a.gpus).to_json()
        took = round(time.perf_counter() - begin, 1)
        print(json.dumps({"measured": rates, "seconds": took}), flush=True)
    begin, failed = time.perf_counter(), 0
    for name, placement in itertools.product(a.cases, a.placements):
        entry: dict[str, Any] = {"case": name, "placed": placement}
        if time.perf_counter() - begin > a.seconds:
            entry["left_out"] = f"{a.seconds} s have passed"
        else:
            try:
                entry = run_case(name, placement, a)
            except Exception as error:  # the other cases are worth as much
                entry["error"] = f"{type(error).__name__}: {error}"
                traceback.print_exc()
                failed = 1
        print(json.dumps(entry), flush=True)
        gc.collect()
    return failed


if __name__ == "__main__":
    sys.exit(main())
