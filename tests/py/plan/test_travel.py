# SPDX-License-Identifier: Apache-2.0
"""Bytes of vectors on their way: those of the core's formats, and of what a step sends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from plan.planned_models import keys_of, model_of

from hugectr.plan.cost import CostModel
from hugectr.plan.job import Choice, Job
from hugectr.plan.machine import Machine, read_machine
from hugectr.plan.table_load import TableLoad
from hugectr.plan.travel import Travel

#: Of 1 byte a second, so that seconds of sending are bytes.
MACHINE = Machine("slow", 1e30, 1e30, ((1, 1.0),), latency=0.0)


@pytest.mark.parametrize(
    ("wire", "vector", "row_gradient"),
    [
        (None, {"float32": 60, "float16": 30, "bfloat16": 30}, (60, 60, 30)),
        ("fp32", {"float32": 60}, (60,)),
        # Packed vectors are whole words, and fp16 and fp8 have a scale.
        ("bf16", {"float32": 32, "float16": 32, "bfloat16": 30}, (32, 32, 32)),
        ("fp16", {"float32": 36, "float16": 30, "bfloat16": 36}, (36, 36, 36)),
        ("fp8", {"float32": 20, "float16": 20, "bfloat16": 20}, (20, 20, 20)),
    ],
)
def test_bytes_of_fifteen_numbers(wire, vector, row_gradient):
    for (made, size), back in zip(vector.items(), row_gradient, strict=True):
        assert Travel(made).vector(wire, 15) == size, made
        assert Travel(made).row_gradient(wire, 15) == back, made


@pytest.mark.parametrize("made", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("wire", [None, "bf16", "fp16", "fp8"])
@pytest.mark.parametrize("distinct", [0.1, 1.0])
def test_bytes_of_each_placement(made, wire, distinct):
    """Two devices, 1000 samples of two slots and a key in each. By key a device has parts of all
    sums, and sends 1000 of them or half the rows of the other's samples, which are fewer."""
    table = TableLoad("t", 10**6, 32, 2, 2.0, distinct, distinct, wire=wire)
    model, way = CostModel(Job(2, 1000, MACHINE, made), [table]), Travel(made)
    vector, back = way.vector(wire, 32), way.row_gradient(wire, 32)
    rows = 1000 * distinct  # of a device's samples

    def sent(kind: str) -> tuple[float, float]:
        seconds = model.cost(table, Choice(kind)).seconds
        return float(seconds[2].max()), float(seconds[3].max())

    assert sent("by_key") == pytest.approx((rows / 2 * vector, rows / 2 * back))
    gradient = vector if distinct == 1.0 else back  # of a slot, or of a row
    assert sent("by_slot") == pytest.approx((rows / 2 * vector, rows / 2 * gradient))
    assert sent("one_device") == pytest.approx((rows * vector, rows * gradient))
    halves = 1000 * way.vector(wire, 16)  # each device's, of each vector
    assert sent("by_column") == pytest.approx((halves, halves))
    # Sums of replicated rows have no wire.
    number = 2 if made == "bfloat16" else 4
    lists, added_up = rows * 32 * number, 2 * rows * 32 * 4
    assert sent("replicated") == pytest.approx((0.0, min(lists, added_up)))


def test_a_model_s_plan_goes_by_the_wire_of_the_table_or_the_solver(tmp_path):
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps({"copy": 1e9, "keys": 1e9, "links": [[1, 1e9]], "latency": 0}))
    data = keys_of(4096, 10**6)

    def sent(of_table=None, **solver) -> float:
        table = {"placement": "by_key", "wire": of_table}
        model = model_of(data, 8, 4096, d=256, megabytes=100, table=table, **solver)
        return model.plan(machine=str(machine)).placement.ms["send vectors"]

    whole = sent()
    assert sent(wire="fp8") == pytest.approx(whole * 260 / 1024, rel=1e-3)
    assert sent("fp8") == sent("fp8", wire="bf16") == sent(wire="fp8")
    assert sent("bf16") == sent(use_mixed_precision=True) == pytest.approx(whole / 2, rel=1e-3)
    assert sent("fp16") == pytest.approx(whole * 516 / 1024, rel=1e-3)


def test_sums_of_float16_are_no_slower_than_those_of_float32():
    """They are as many bytes, in as large messages."""
    table = TableLoad("t", 10**6, 128, 1, 1.0, 0.1, 0.1)
    wide, half = (
        CostModel(Job(2, 10_000, read_machine("h200"), made), [table]).cost(table, Choice("by_key"))
        for made in ("float32", "float16")
    )
    assert wide.seconds[3].max() == pytest.approx(half.seconds[3].max())
    assert wide.seconds[2].max() > half.seconds[2].max()


def test_the_rates_of_a_job_s_links_go_by_the_bytes_that_travel():
    fast = replace(MACHINE, links=((10_000, 1.0), (1_000_000, 100.0)))
    table = TableLoad("t", 10**6, 128, 1, 1.0, wire="fp8")
    model = CostModel(Job(2, 10_000, fast), [table])
    # 10,000 vectors of 132 bytes, of which each device has a quarter to send.
    sent = 10_000 * 132 / 4
    assert model.cost(table, Choice("by_key")).seconds[2].max() == pytest.approx(
        sent / fast.link(sent)
    )


def test_a_model_s_plan_goes_by_the_exchange_of_the_table(tmp_path):
    """Of one key a sample a device asks for an eighth of the rows that there are sums, of eight for
    as many, where by their bytes sums travel."""
    machine = tmp_path / "machine.json"
    machine.write_text(json.dumps({"copy": 1e9, "keys": 1e9, "links": [[1, 1e9]], "latency": 0}))

    def sent(exchange, hot) -> float:
        table = {"placement": "by_key", "exchange": exchange}
        data = keys_of(4096, 10**7, hot)
        model = model_of(data, 8, 4096, hot, d=256, megabytes=100, table=table)
        return model.plan(machine=str(machine)).placement.ms["send vectors"]

    assert sent("auto", 1) == sent("unique", 1) == pytest.approx(sent("pooled", 1) / 8, rel=0.01)
    assert sent("auto", 8) == sent("pooled", 8) != sent("unique", 8)
    assert sent("unique", 8) == pytest.approx(sent("pooled", 8), rel=0.01)
