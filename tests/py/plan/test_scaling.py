# SPDX-License-Identifier: Apache-2.0
"""The model of cost of many devices: bytes counted on drawn keys, and steps that were measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hugectr
from hugectr.plan.machine import read_machine
from hugectr.plan.scaling import Network, Step, Work, power_law, predict, table

SLOTS, ROWS, ALPHA, D, SAMPLES = 3, 400, 1.2, 16, 200
RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def work_of(**changes) -> Work:
    distinct = power_law(SLOTS, ROWS, ALPHA)
    return replace(Work(SAMPLES, SLOTS, SLOTS, D, distinct, 1e-3, dense_bytes=1e6), **changes)


def drawn_rows(rng: np.random.Generator, samples: int) -> np.ndarray:
    """(samples, slots) row numbers by the benchmark's generator of keys."""
    g = 1.0 - ALPHA
    draw = ((float(ROWS + 1) ** g - 1.0) * rng.random((samples, SLOTS)) + 1.0) ** (1.0 / g)
    return draw.astype(np.int64) - 1 + ROWS * np.arange(SLOTS)


def counted(devices: int, near: int, by_node: bool) -> tuple[float, float]:
    """Mean bytes a device sends inside and between nodes; owners are key % devices."""
    rng, inside, between, rounds = np.random.default_rng(7), 0, 0, 100
    for _ in range(rounds):
        wanted = [np.unique(drawn_rows(rng, SAMPLES)) for _ in range(devices)]
        for first in range(0, devices, near):
            of_node = np.unique(np.concatenate(wanted[first : first + near]))
            far = of_node[(of_node % devices) // near != first // near]
            between += len(far) if by_node else 0
            for asker in range(first, first + near):
                rows = wanted[asker]
                own_node = (rows % devices) // near == first // near
                inside += np.count_nonzero(own_node & (rows % devices != asker))
                outside = np.count_nonzero(~own_node)
                between += 0 if by_node else outside
                # One of the devices of the node has it from outside already.
                inside += outside * (near - 1) / near if by_node else 0
    factor = D * 2 / rounds / devices
    return inside * factor, between * factor


@pytest.mark.parametrize("by_node", [False, True])
@pytest.mark.parametrize(("devices", "near"), [(2, 2), (4, 4), (4, 2), (8, 2), (16, 8)])
def test_bytes_are_those_of_drawn_keys(devices, near, by_node):
    step = predict(work_of(), read_machine("h200"), devices, Network(near), by_node=by_node)
    inside, between = counted(devices, near, by_node)
    assert step.inside == pytest.approx(inside, rel=0.02)
    assert step.between == pytest.approx(between, rel=0.02)


def test_a_step_is_the_sum_of_its_parts():
    work, machine, network = work_of(), read_machine("h200"), Network(2, rate=1e9, latency=1e-5)
    assert predict(work, machine, 1, network).seconds == work.one_seconds
    step = predict(work, machine, 8, network)
    assert step.parts["send vectors"] == pytest.approx(step.between / 1e9 + 1e-5)
    exposed = max(0.0, step.dense - work.backward_seconds)
    assert step.seconds == pytest.approx(work.one_seconds + sum(step.parts.values()) + exposed)
    hidden = predict(replace(work, backward_seconds=1.0), machine, 8, network)
    assert hidden.seconds == pytest.approx(step.seconds - exposed)
    slow = predict(work, machine, 8, replace(network, host=1e6), resident=False)
    assert slow.seconds == slow.input == pytest.approx(8 * SAMPLES * 8 * SLOTS / 1e6)


def test_micro_batches_hide_all_but_one():
    work, machine, network = work_of(), read_machine("h200"), Network(2, rate=1e8, latency=1e-5)
    whole = predict(work, machine, 8, network)
    assert predict(work, machine, 8, network, micro_batches=1) == whole
    behind = replace(work, forward_seconds=1.0, backward_seconds=1.0, cut_seconds=2e-5)
    step = predict(behind, machine, 8, network, micro_batches=4)
    rows = 4 * work.distinct(SAMPLES / 4)  # of them those that several use, again
    assert step.between == pytest.approx(whole.between * rows / work.distinct(SAMPLES))
    one = step.between / 4 / 1e8 + 1e-5
    assert step.parts["send vectors"] == pytest.approx(one)
    assert step.parts["send gradients"] == pytest.approx(one)
    assert step.seconds == pytest.approx(work.one_seconds + 3 * 2e-5 + sum(step.parts.values()))
    nothing = predict(work_of(), machine, 8, network, micro_batches=4)
    assert nothing.parts["send vectors"] == pytest.approx(4 * one)
    for none in (0, 9, 65536):
        with pytest.raises(hugectr.InvalidArgument, match=f"micro_batches: found {none}, .*1 to 8"):
            predict(work, machine, 8, network, micro_batches=none)


def test_refusals_and_the_table():
    work, machine = work_of(), read_machine("h200")
    with pytest.raises(hugectr.InvalidArgument, match="multiple of the 8 of a node"):
        predict(work, machine, 12, Network(8))
    with pytest.raises(hugectr.InvalidArgument, match=r"'rows'.*'unique', 'pooled'"):
        work_of(exchange="rows")
    for devices in (0, -1, 2.5):
        with pytest.raises(hugectr.InvalidArgument, match=f"devices: found {devices}, allowed"):
            predict(work, machine, devices)
    text = table(work, [predict(work, machine, n) for n in (1, 2)])
    assert text.splitlines()[2].startswith("| 1 | 1.00 | 0.2 | 100% |")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: work_of(samples=0), "Work: samples: found 0"),
        (lambda: work_of(samples=-5), "Work: samples: found -5"),
        (lambda: work_of(one_seconds=float("nan")), "Work: one_seconds: found nan"),
        (lambda: work_of(one_seconds=-1), "Work: one_seconds: found -1"),
        (lambda: work_of(dense_bytes=-1), "Work: dense_bytes: found -1"),
        (lambda: work_of(vec_size=0), "Work: vec_size: found 0"),
        (lambda: Network(0), "Network: node_devices: found 0"),
        (lambda: Network(8, rate=0), "Network: rate: found 0"),
        (lambda: Network(8, rate=float("nan")), "Network: rate: found nan"),
        (lambda: power_law(3, 0, 1.2), "power_law: rows: found 0"),
        (lambda: power_law(3, 10, float("nan")), "power_law: alpha: found nan"),
        (lambda: power_law(3, 10, 1.0), "power_law: alpha: found 1.0"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(make, says):
    with pytest.raises(hugectr.InvalidArgument, match=says):
        make()


@pytest.mark.parametrize(
    ("record", "case", "devices"),
    [
        ("2026-11-22-h200x2-validation", "ctr_dlrm_2_Localized_131072", 2),
        ("2026-11-22-h200x2-validation", "ctr_dlrm_2_Localized_131072_pooled", 2),
        ("2026-11-21-h200x4-validation-4", "ctr_dlrm_4_Distributed_262144", 4),
        ("2026-11-21-h200x4-validation-4", "ctr_dlrm_4_Localized_262144_pooled", 4),
        ("2026-11-27-h200x4-validation", "ctr_dlrm_2_Localized_131072", 2),
        ("2026-11-27-h200x4-validation", "ctr_dlrm_4_Localized_262144", 4),
    ],
)
def test_measured_steps_are_within_a_tenth(record, case, devices):
    """docs/scaling.md has the errors."""
    found = json.loads((RESULTS / f"{record}.json").read_text())["benchmarks"]
    entries = (found[name] for name in ("ctr_dlrm_1", case))
    one, many = ((e[0] if isinstance(e, list) else e)["ours"]["ms"] for e in entries)
    work = Work(
        65_536, 26, 26, 128, power_law(26, 1_000_000, 1.2), one / 1e3, dense_bytes=9.6e6,
        backward_seconds=1.3e-3, exchange="pooled" if "pooled" in case else "unique",
    )  # fmt: skip
    step: Step = predict(work, read_machine("h200"), devices)
    assert 1e3 * step.seconds == pytest.approx(many, rel=0.1)
