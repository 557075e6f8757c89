# SPDX-License-Identifier: Apache-2.0
"""Micro-batches, and tables updated beside backward, on one GPU and several."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

from model import placed_models, test_forward_beside, test_micro_batches
from model.nets import losses, make_model

DEVICE = "cuda"
STEPS = 60
TOLERANCE = {"SGD": 1e-5, "Adam": 1e-4}

pytestmark = pytest.mark.gpus(1)
on_two = pytest.mark.gpus(2)


def setup_of(net, micro_batches, optimizer="SGD", **more):
    return test_micro_batches.setup_of(net, micro_batches, optimizer, device=DEVICE, **more)


def make_placed(tables, devices, micro_batches, optimizer="SGD", **more):
    return placed_models.make_model(
        tables,
        [list(range(devices))],
        optimizer,
        device=DEVICE,
        micro_batches=micro_batches,
        **more,
    )


def assert_same(found, wanted):
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("net", test_micro_batches.OF_SAMPLES)
def test_one_gpu_in_parts_is_one_gpu(net, optimizer):
    wanted = losses(make_model(setup_of(net, 1, optimizer, l2=0.01)), STEPS)
    for count in (2, 4):
        found = losses(make_model(setup_of(net, count, optimizer, l2=0.01)), STEPS)
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[optimizer])
        again = losses(make_model(setup_of(net, count, optimizer, l2=0.01)), STEPS)
        np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=on_two)])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_networks_in_16_bits(kind, devices):
    mixed = {"use_mixed_precision": True, "mixed_precision_type": kind, "scaler": 1024.0}
    one = losses(make_model(setup_of("dlrm", 1, more=mixed)), STEPS)
    model = make_model(setup_of("dlrm", 2, devices=devices, more=mixed))
    np.testing.assert_allclose(losses(model, STEPS), one, rtol=1e-2)
    assert model.skipped_steps() == 0


@on_two
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("placement", placed_models.KINDS)
def test_every_placement(placement, exchange):
    tables = placed_models.placed(placed_models.random_tables(77), placement)
    tables = [replace(table, exchange=exchange) for table in tables]
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make_placed(by_key, 1, 1), STEPS)
    for count in (2, 4):
        model = make_placed(tables, 2, count)
        found = placed_models.outcome(model, STEPS)
        placed_models.assert_near(found, wanted, TOLERANCE["SGD"])
        placed_models.assert_copies_are_the_same(model, tables, 2)


@on_two
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("seed", range(2))
def test_mixtures_repeat_without_a_graph_too(seed, optimizer):
    tables = placed_models.random_tables(seed + 10 * (optimizer == "Adam"))
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make_placed(by_key, 1, 1, optimizer), 30)
    found = placed_models.outcome(make_placed(tables, 2, 2, optimizer), 30)
    placed_models.assert_near(found, wanted, TOLERANCE[optimizer])
    assert_same(placed_models.outcome(make_placed(tables, 2, 2, optimizer), 30), found)
    launched = make_placed(tables, 2, 2, optimizer, use_cuda_graph=False)
    assert_same(placed_models.outcome(launched, 30), found)


@on_two
@pytest.mark.parametrize("wire", ["bf16", "fp16", "fp8"])
def test_vectors_in_few_bits(wire):
    tolerance = {"bf16": 2e-3, "fp16": 5e-4, "fp8": 2e-2}[wire]
    one = losses(make_model(setup_of("deepfm", 1)), STEPS)
    for exchange in ("pooled", "unique"):
        model = make_model(setup_of("deepfm", 2, devices=2, exchange=exchange, more={"wire": wire}))
        np.testing.assert_allclose(losses(model, STEPS), one, rtol=tolerance)


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("kind", [None, "bfloat16"])
@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=on_two)])
def test_tables_updated_beside_backward_are_the_same(devices, kind, optimizer, graph, monkeypatch):
    solver = {"use_cuda_graph": graph}
    if kind:
        solver |= {"use_mixed_precision": True, "mixed_precision_type": kind}
    setup = setup_of("dlrm", 1, optimizer, devices=devices, more=solver)
    monkeypatch.setenv("HUGECTR_FORWARD_BESIDE", "0")
    monkeypatch.setenv("HUGECTR_UPDATE_BESIDE", "0")
    behind = make_model(setup)
    wanted = losses(behind, STEPS)
    monkeypatch.setenv("HUGECTR_UPDATE_BESIDE", "1")
    beside = make_model(setup)
    np.testing.assert_array_equal(losses(beside, STEPS), wanted)
    monkeypatch.setenv("HUGECTR_FORWARD_BESIDE", "1")
    both = make_model(setup)
    np.testing.assert_array_equal(losses(both, STEPS), wanted)
    for model in (beside, both):
        vectors = model.session.table(0).dump(False)["vectors"]
        np.testing.assert_array_equal(vectors, behind.session.table(0).dump(False)["vectors"])
        assert test_forward_beside.streams_of_updates(model) == {"exchange"}
    assert test_forward_beside.streams_of_updates(behind) == {"compute"}
    alone = {time["stream"] for time in beside.profile(2) if "embedding" in time["op"]}
    assert ("exchange" in alone) == (devices > 1)
