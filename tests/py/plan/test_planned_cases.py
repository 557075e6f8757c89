# SPDX-License-Identifier: Apache-2.0
"""What a plan is predicted to be worth, against one placement for all tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hugectr.plan.dense_work import DenseTime
from hugectr.plan.job import Job
from hugectr.plan.machine import read_machine
from hugectr.plan.placements import PlacementPlan
from hugectr.plan.planning import plan_placements
from hugectr.plan.table_load import TableLoad

#: MLPerf's DLRM-DCNv2: rows and keys a sample.
ROWS = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10,
    2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip
HOTNESS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)


def distinct(rows: int, draws: float, alpha: float = 1.2) -> float:
    """The share of distinct ones among so many draws of the law P(k) ~ k**-alpha."""
    ends = np.unique(np.geomspace(1, rows + 1, 100_000).astype(np.int64)).astype(np.float64)
    share = np.diff(ends ** (1 - alpha)) / ((rows + 1.0) ** (1 - alpha) - 1)
    count = np.diff(ends)
    return float((count * -np.expm1(-draws * share / count)).sum() / draws)


def load(
    name: str, rows: int, d: int, job: Job, hot: int = 1, state: int = 0, alpha: float = 1.2
) -> TableLoad:
    keys = job.batch * hot
    of_device = distinct(rows, keys / job.devices, alpha)
    return TableLoad(name, rows, d, 1, hot, min(distinct(rows, keys, alpha), 1), of_device, state)


def gain(plan: PlacementPlan) -> float:
    """Of a whole step, the best plan with one placement over this one: beyond what there is
    wherever tables lie, which would make it small."""
    beside = ("plan", "move rows")
    there = sum(ms for phase, ms in plan.fixed_ms.items() if phase not in beside) + plan.dense_ms
    return (min(plan.uniform_ms.values()) - there) / (plan.training_ms - there)


@pytest.mark.parametrize("machine", ["h100", "h200"])
@pytest.mark.parametrize("devices", [2, 4, 8])
def test_on_equal_tables_a_plan_is_the_best_uniform_one(devices, machine):
    job = Job(devices, 65536 * devices, read_machine(machine), "bfloat16")
    plan = plan_placements(job, [load(f"t{i}", 1_000_000, 128, job) for i in range(26)])
    assert gain(plan) >= 1 / 1.02


@pytest.mark.parametrize(("devices", "least"), [(2, 1.15), (4, 1.3), (8, 1.5)])
def test_a_giant_and_many_small_tables(devices, least):
    """Small tables on one device each, whose sums travel: no device asks another for rows, which is
    what a plan of many tables waits for, and none walks over all tables, as by column."""
    job = Job(devices, 16384 * devices, read_machine("h200"), "bfloat16")
    small = [load(f"s{i}", int(n), 16, job) for i, n in enumerate(np.geomspace(100, 10_000, 100))]
    plan = plan_placements(job, [load("giant", 50_000_000, 64, job), *small])
    assert gain(plan) >= least
    pooled = [table for table in plan.tables if table.exchange == "pooled"]
    assert len(pooled) > 50
    assert {table.kind for table in pooled} == {"one_device"}


@pytest.mark.parametrize(("devices", "least"), [(2, 1.2), (4, 1.2), (8, 1.1)])
def test_tables_of_mlperf(devices, least):
    """Rows by a quarter."""
    job = Job(devices, 6912 * devices, read_machine("h200"), "bfloat16")
    tables = [
        load(f"m{i}", max(min(rows, 100), rows // 4), 128, job, hot, 128)
        for i, (rows, hot) in enumerate(zip(ROWS, HOTNESS, strict=True))
    ]
    plan = plan_placements(job, tables)
    assert gain(plan) >= least
    assert len({(table.kind, table.exchange) for table in plan.tables}) > 1, "a mixture"
    assert max(plan.bytes) <= job.machine.memory


#: Milliseconds on two H200 (benchmarks/results/2026-11-27-h200x4-planned.json, and what it lacks of
#: 2026-11-27-h200x2-planned.json), by the placement of all tables, and of the plan; first the
#: predicted dense network, which hid nothing of what travels at that time. Not here are MLPerf's
#: tables on one device each, which were dealt otherwise than a prediction deals them.
MEASURED = {
    "equal": (
        0.4096,
        {"by_key": 1.0079, "one_device": 0.9049, "replicated": 1.3373, "by_column": 1.4864},
        0.934,
    ),
    "giant": (0.2898, {"by_key": 2.0198, "one_device": 1.3781, "by_column": 1.3384}, 1.1284),
    "mixed": (0.5234, {"by_key": 2.4855, "one_device": 2.4156}, 2.2741),
    "mlperf": (0.277, {"by_key": 1.6577, "replicated": 2.728, "by_column": 1.7449}, 1.2703),
    "dcnv2": (2.2378, {"by_key": 3.221, "by_column": 3.1907}, None),
}


#: Predicted up to a quarter too fast, which is not explained: 214 keys a sample whose sums travel.
TOO_FAST = {("mlperf", "by_column"), ("mlperf", "by_key")}
#: And a third too slow: what a hundred tables cost a plan whose devices ask each other was chosen
#: when the host took twice as long for it.
TOO_SLOW = {("giant", "one_device")}


def measured_tables(case: str, batch: int) -> list[TableLoad]:
    """Those of benchmarks/models/planned.py."""
    job = Job(2, batch, read_machine("h200"), "bfloat16")
    if case == "equal":
        return [load(f"t{i}", 1_000_000, 128, job) for i in range(26)]
    if case == "giant":
        small = np.geomspace(100, 10_000, 100)
        giant = load("giant", 50_000_000, 64, job, 4, 64, 1.05)
        return [giant, *(load(f"s{i}", int(n), 16, job, 1, 16) for i, n in enumerate(small))]
    if case == "mixed":
        rows, widths = np.geomspace(100, 2_000_000, 100), (4, 16, 32, 64, 128)
        return [load(f"m{i}", int(n), widths[i % 5], job, 1 + i % 3) for i, n in enumerate(rows)]
    if case == "mlperf":
        sizes = enumerate(zip(ROWS, HOTNESS, strict=True))
        return [
            load(f"m{i}", max(min(n, 100), n // 20), 128, job, hot, 128) for i, (n, hot) in sizes
        ]
    one = load("slots", 400_000, 128, job, 8, 128)
    return [replace(one, rows=26 * one.rows, slots=26, keys=26 * one.keys)]


@pytest.mark.parametrize("case", sorted(MEASURED))
def test_recorded_steps_of_two_gpus(case):
    """Five constants were chosen by these: it holds that the model goes on saying them."""
    dense, measured, planned = MEASURED[case]
    batch = 16384 if case in ("mlperf", "dcnv2") else 32768
    job = Job(2, batch, read_machine("h200"), "bfloat16", dense=DenseTime(1e-3 * dense))
    plan = plan_placements(job, measured_tables(case, batch))
    found = {kind: round(plan.uniform_ms[kind] / ms, 3) for kind, ms in measured.items()}
    if planned is not None:
        found["planned"] = round(plan.training_ms / planned, 3)
    for name, ratio in found.items():
        least = 1 / 1.25 if (case, name) in TOO_FAST else 1 / 1.15
        most = 1.35 if (case, name) in TOO_SLOW else 1.15
        assert least <= ratio <= most, (name, ratio)
    assert plan.training_ms <= min(plan.uniform_ms.values()) * (1 + 1e-6)
