# SPDX-License-Identifier: Apache-2.0
"""Every placement, mixture, exchange and wire on several GPUs against one device."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hugectr
from hugectr import _core

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

from model import placed_models, test_forward_beside, test_one_hot_embeddings, test_placements
from model.nets import losses, make_model as make_net

GPUS = _core.device_count("cuda")
DEVICE = "cuda"
STEPS = 60
TOLERANCE = {"SGD": 1e-5, "Adam": 1e-4}
WIRES = {"bf16": 2e-3, "fp16": 5e-4, "fp8": 2e-2}

pytestmark = pytest.mark.gpus(2)

COUNTS = [n for n in (2, 4, 8) if n <= GPUS] or [2]


def make(tables, count, optimizer="SGD", **solver):
    return placed_models.make_model(
        tables, [list(range(count))], optimizer, device=DEVICE, **solver
    )


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("devices", COUNTS)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("placement", placed_models.KINDS)
def test_a_placement_alone_is_the_model_of_one_gpu(placement, exchange, optimizer, devices):
    tables = placed_models.placed(placed_models.random_tables(77), placement)
    tables = [replace(table, exchange=exchange) for table in tables]
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make(by_key, 1, optimizer), STEPS)
    model = make(tables, devices, optimizer)
    found = placed_models.outcome(model, STEPS)
    assert {table.placement() for table in model.session.tables()} >= {placement}
    placed_models.assert_near(found, wanted, TOLERANCE[optimizer])
    placed_models.assert_copies_are_the_same(model, tables, devices)
    assert_same(placed_models.outcome(make(tables, devices, optimizer), STEPS), found)


@pytest.mark.parametrize("devices", COUNTS)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("seed", range(3))
def test_mixtures_are_the_model_of_one_gpu_and_of_the_cpu(seed, optimizer, devices):
    tables = placed_models.random_tables(seed + 10 * (optimizer == "Adam"))
    by_key = placed_models.placed(tables, "by_key")
    one = placed_models.outcome(make(by_key, 1, optimizer), STEPS)
    model = make(tables, devices, optimizer)
    found = placed_models.outcome(model, STEPS)
    placed_models.assert_near(found, one, TOLERANCE[optimizer])
    placed_models.assert_copies_are_the_same(model, tables, devices)
    on_cpu = placed_models.make_model(by_key, [[0]], optimizer)
    curve = placed_models.outcome(on_cpu, STEPS)["losses"]
    np.testing.assert_allclose(found["losses"], curve, rtol=10 * TOLERANCE[optimizer])


@pytest.mark.parametrize("seed", range(3))
def test_tables_that_travel_alone_and_launches_without_a_graph(seed, monkeypatch):
    """To the bit on two GPUs, whose sums have one order."""
    tables = placed_models.random_tables(seed)
    wanted = placed_models.outcome(make(tables, 2, "Adam"), 30)
    assert_same(placed_models.outcome(make(tables, 2, "Adam", use_cuda_graph=False), 30), wanted)
    monkeypatch.setenv("HUGECTR_GROUP", "0")
    assert_same(placed_models.outcome(make(tables, 2, "Adam"), 30), wanted)


@pytest.mark.parametrize("update", ["Local", "Global", "LazyGlobal"])
@pytest.mark.parametrize("optimizer", ["Adam", "AdaGrad", "Nesterov", "Ftrl"])
def test_updates(optimizer, update):
    tables = placed_models.random_tables(5)
    params = hugectr.CreateOptimizer(
        hugectr.Optimizer_t[optimizer], hugectr.Update_t[update], clip_norm=0.5
    )
    one, two = (placed_models.outcome(make(tables, n, params), 30) for n in (1, 2))
    placed_models.assert_near(two, one, 1e-4)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_networks_in_16_bits(kind):
    tables = placed_models.random_tables(51)
    mixed = {"use_mixed_precision": True, "mixed_precision_type": kind, "scaler": 128}
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make(by_key, 1, **mixed), 30)
    model = make(tables, 2, **mixed)
    found = placed_models.outcome(model, 30)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-2)
    placed_models.assert_near(found, wanted, 1e-2)
    placed_models.assert_copies_are_the_same(model, tables, 2)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("seed", range(2))
def test_vectors_of_mixtures_in_few_bits(seed, wire):
    tables = placed_models.random_tables(seed)
    one = placed_models.outcome(make(placed_models.placed(tables, "by_key"), 1), 40)
    found = placed_models.outcome(make(tables, 2, wire=wire), 40)
    np.testing.assert_allclose(found["losses"], one["losses"], rtol=WIRES[wire])
    assert_same(placed_models.outcome(make(tables, 2, wire=wire), 40), found)


@pytest.mark.parametrize("saved", placed_models.KINDS)
def test_checkpoints_move_between_placements(saved, tmp_path):
    tables = placed_models.random_tables(3)
    source = make(placed_models.placed(tables, saved), 2, "Adam")
    placed_models.outcome(source, 10)
    source.save(tmp_path / "run")
    kept = placed_models.rows_of(source)
    following = [source.train() and source.get_current_loss() for _ in range(5)]
    for i, other in enumerate(placed_models.KINDS):
        elsewhere = placed_models.placed(tables, other)
        count, device = ((2, DEVICE), (1, DEVICE), (2, "cpu"))[i % 3]
        model = placed_models.make_model(elsewhere, [list(range(count))], "Adam", device=device)
        model.resume(tmp_path / "run")
        assert_same(placed_models.rows_of(model), kept)
        found = [model.train() and model.get_current_loss() for _ in range(5)]
        np.testing.assert_allclose(found, following, rtol=1e-4)


def test_frequent_keys_that_are_counted_and_plans():
    tables = placed_models.random_tables(23)
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make(by_key, 1), 30)
    counted = [
        replace(table, placement="counted") if table.kind is placed_models.DISTRIBUTED else table
        for table in by_key
    ]
    placed_models.assert_near(placed_models.outcome(make(counted, 2), 30), wanted, 1e-5)
    free = [replace(table, placement=None) for table in tables]
    planned = make(free, 2, plan="auto")
    placed_models.assert_near(placed_models.outcome(planned, 30), wanted, 1e-5)


@pytest.mark.parametrize("kind", [test_one_hot_embeddings.ONE_HOT, test_one_hot_embeddings.HYBRID])
def test_one_hot_and_hybrid_embeddings(kind):
    data = test_one_hot_embeddings.one_hot_data(np.random.default_rng(7))
    one, two = (test_one_hot_embeddings.make(data, kind, n, device=DEVICE) for n in (1, 2))
    np.testing.assert_allclose(losses(two, 40), losses(one, 40), rtol=1e-5)


def test_rows_that_are_erased_begin_anew_everywhere():
    tables = placed_models.random_tables(61)

    def run(count):
        model = make(tables, count, "Adam")
        placed_models.outcome(model, 10)
        for table in model.session.tables():
            bag = table.dump()
            slots = None if bag["slot_ids"] is None else bag["slot_ids"][::3]
            assert table.erase(bag["keys"][::3], slots) == len(bag["keys"][::3])
        return placed_models.outcome(model, 30)

    placed_models.assert_near(run(2), run(1), 1e-4)


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize(
    "more",
    [
        {"exchange": "pooled"},
        {"exchange": "unique", "optimizer": "Adam", "lr": 0.01},
        {"exchange": "unique", "embedding": "LocalizedSlotSparseEmbeddingHash"},
        {"more": {"wire": "fp8"}},
        {"more": {"use_mixed_precision": True, "scaler": 1024.0}},
    ],
    ids=["pooled", "unique", "localized", "fp8", "float16"],
)
def test_vectors_that_come_beside_the_bottom_network(more, graph, monkeypatch):
    """HUGECTR_FORWARD_BESIDE, which several GPUs do unasked: the same bits."""
    monkeypatch.setenv("HUGECTR_FORWARD_BESIDE", "0")
    solver = {"use_cuda_graph": graph} | more.get("more", {})
    setup = test_forward_beside.setup_of(
        "dlrm", devices=2, device=DEVICE, **(more | {"more": solver})
    )
    plain = make_net(setup)
    wanted = losses(plain, STEPS)
    assert test_forward_beside.streams_of_lookups(make_net(setup)) == {"compute"}
    monkeypatch.delenv("HUGECTR_FORWARD_BESIDE")
    model = make_net(setup)
    np.testing.assert_array_equal(losses(model, STEPS), wanted)
    assert dict(model.evaluate()) == dict(plain.evaluate())
    assert "exchange" in test_forward_beside.streams_of_lookups(make_net(setup))


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(rows, marks=pytest.mark.gpus(sum(map(len, rows))), id=str(rows))
        for rows in ([[0], [1]], [[0, 1], [2, 3]], [[0], [1], [2], [3]])
    ],
)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_processes(rows, optimizer, tmp_path):
    """A process a GPU, or two."""
    tables = placed_models.random_tables(21)
    wanted = placed_models.outcome(make(tables, 1, optimizer), STEPS)
    found = test_placements.run_job(
        tmp_path,
        rows,
        "train",
        optimizer=optimizer,
        seed=21,
        steps=STEPS,
        solver={"device": DEVICE},
    )
    placed_models.assert_near(found, wanted, TOLERANCE[optimizer])
