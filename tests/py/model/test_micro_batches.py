# SPDX-License-Identifier: Apache-2.0
"""Steps in micro-batches give the model of whole steps, wherever tables lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from model import placed_models, test_placements
from model.nets import NETS, Setup, losses, make_model
from model.test_row_lives import LIVES
from oracle.streaming_net import build, stream

import hugectr
from hugectr.data import from_arrays
from hugectr.data.planted import make_planted

STEPS = 60
TOLERANCE = {"SGD": 1e-5, "Adam": 1e-4}
LR = {"SGD": 0.1, "Adam": 0.005}
#: Of the nets those in which no sample needs another one of its batch.
OF_SAMPLES = [net for net in NETS if net not in ("batch_norm", "normalised")]


def setup_of(net: str, micro_batches: int, optimizer: str = "SGD", **more) -> Setup:
    data = make_planted(1024, [50, 4, 70, 30, 6], hotness=(0, 3), dense_dim=4, seed=4)
    keys = data.to_memory("keys")
    fields = {"net": net, "train": keys, "test": keys, "slots": 5, "dense_dim": 4, "nnz": 3}
    solver = {"micro_batches": micro_batches} | more.pop("more", {})
    return Setup(**(fields | {"optimizer": optimizer, "lr": LR[optimizer], "more": solver} | more))


def learned(model: hugectr.Model) -> np.ndarray:
    """Dense weights, then the vectors of all tables."""
    vectors = [table.dump(False)["vectors"].ravel() for table in model.session.tables()]
    return np.concatenate([model.session.network.dense_weights(), *vectors])


def assert_near(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    assert np.linalg.norm(found - wanted) <= tolerance * np.linalg.norm(wanted)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("net", OF_SAMPLES)
def test_one_device_in_parts_is_one_device(net, optimizer):
    """Dropout draws by the sample of the whole batch, the regularizer counts once."""
    whole = make_model(setup_of(net, 1, optimizer, l2=0.01))
    wanted = losses(whole, STEPS)
    for count in (2, 4, 8):
        model = make_model(setup_of(net, count, optimizer, l2=0.01))
        found = losses(model, STEPS)
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[optimizer])
        assert_near(learned(model), learned(whole), 10 * TOLERANCE[optimizer])
        assert found[0] != found[-1]


@pytest.mark.parametrize("fuse", ["0", "1"])
def test_tensors_are_those_of_all_samples(fuse, monkeypatch):
    monkeypatch.setenv("HUGECTR_FUSE", fuse)
    whole, parts = (make_model(setup_of("tower", count)) for count in (1, 4))
    for model in (whole, parts):
        losses(model, 3)
    for name in ("emb", "dense", "label", "relu1", "logit"):
        wanted, found = (model.check_out_tensor(name) for model in (whole, parts))
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("net", ["batch_norm", "normalised"])
def test_layers_that_need_the_whole_batch_are_refused(net):
    with pytest.raises(
        hugectr.InvalidArgument, match=r'micro_batches 2: BatchNorm layer "(norm1|columns)"'
    ):
        make_model(setup_of(net, 2))


def test_sizes_that_do_not_fit_are_refused():
    for count in (0, 9):
        with pytest.raises(hugectr.InvalidArgument, match=f"micro_batches: found {count}"):
            make_model(setup_of("tower", count))
    with pytest.raises(hugectr.InvalidArgument, match="multiple of 6: 2 devices times micro_batc"):
        make_model(setup_of("tower", 3, devices=2))


def make_placed(tables, devices, micro_batches, optimizer="SGD", **more):
    return placed_models.make_model(
        tables, [list(range(devices))], optimizer, micro_batches=micro_batches, **more
    )


@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("placement", placed_models.KINDS)
def test_every_placement(placement, exchange):
    tables = placed_models.placed(placed_models.random_tables(77), placement)
    tables = [replace(table, exchange=exchange) for table in tables]
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make_placed(by_key, 1, 1), STEPS)
    for devices, count in ((1, 2), (2, 2), (2, 4), (4, 3), (8, 2)):
        model = make_placed(tables, devices, count)
        found = placed_models.outcome(model, STEPS)
        placed_models.assert_near(found, wanted, TOLERANCE["SGD"])
        placed_models.assert_copies_are_the_same(model, tables, devices)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("seed", range(2))
def test_mixtures_with_pauses_and_alone(seed, optimizer, monkeypatch):
    """Pauses bring missing waits to light; tables that travel alone are the same to the bit."""
    tables = placed_models.random_tables(seed + 10 * (optimizer == "Adam"))
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make_placed(by_key, 1, 1, optimizer), 30)
    found = placed_models.outcome(make_placed(tables, 4, 2, optimizer), 30)
    placed_models.assert_near(found, wanted, TOLERANCE[optimizer])
    monkeypatch.setenv("HUGECTR_STREAM_DELAY_US", "200")
    slow = placed_models.outcome(make_placed(tables, 4, 2, optimizer), 30)
    monkeypatch.setenv("HUGECTR_STREAM_DELAY_US", "0")
    monkeypatch.setenv("HUGECTR_GROUP", "0")
    alone = placed_models.outcome(make_placed(tables, 4, 2, optimizer), 30)
    for name, values in found.items():
        np.testing.assert_array_equal(slow[name], values, err_msg=name)
        np.testing.assert_array_equal(alone[name], values, err_msg=name)


@pytest.mark.parametrize("update", ["Local", "Global", "LazyGlobal"])
@pytest.mark.parametrize("optimizer", ["Adam", "AdaGrad", "Nesterov", "Ftrl"])
def test_one_update_a_step(optimizer, update):
    """Also where all gradients must be known before the first update: clip_norm."""
    tables = placed_models.random_tables(5)
    params = hugectr.CreateOptimizer(
        hugectr.Optimizer_t[optimizer], hugectr.Update_t[update], clip_norm=0.5
    )
    one = placed_models.outcome(make_placed(tables, 1, 1, params), 20)
    placed_models.assert_near(
        placed_models.outcome(make_placed(tables, 4, 2, params), 20), one, 1e-4
    )


@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("wire", ["bf16", "fp16", "fp8"])
def test_vectors_in_few_bits(wire, exchange):
    tolerance = {"bf16": 2e-3, "fp16": 5e-4, "fp8": 2e-2}[wire]
    for kind in ("Distributed", "Localized"):
        more = {"embedding": f"{kind}SlotSparseEmbeddingHash", "exchange": exchange}
        one = losses(make_model(setup_of("deepfm", 1, **more)), STEPS)
        model = make_model(setup_of("deepfm", 2, devices=4, more={"wire": wire}, **more))
        np.testing.assert_allclose(losses(model, STEPS), one, rtol=tolerance)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
def test_networks_in_16_bits(kind, exchange):
    mixed = {"use_mixed_precision": True, "mixed_precision_type": kind, "scaler": 1024.0}
    one = losses(make_model(setup_of("dlrm", 1, more=mixed)), STEPS)
    for devices in (1, 2):
        more = {"devices": devices, "exchange": exchange, "more": mixed}
        model = make_model(setup_of("dlrm", 2, **more))
        np.testing.assert_allclose(losses(model, STEPS), one, rtol=1e-2)
        assert model.skipped_steps() == 0


def test_vectors_and_gradients_travel_beside_the_network():
    """Half of each on the exchange stream, before the update."""
    model = make_model(setup_of("tower", 2, devices=2, exchange="unique"))
    losses(model, 3)
    times = [time for time in model.profile(2) if time["stream"] == "exchange"]
    ops = [str(time["op"]) for time in times]
    assert ops.count("embedding_gradient") == 2 * ops.count("embedding_update") > 0


def test_a_step_that_overflows_in_the_second_part_is_skipped():
    rng = np.random.default_rng(3)
    dense = rng.random((256, 4)).astype(np.float32)
    dense[2 * 64 + 60, 1] = 1e5  # what float16 does not hold
    keys = rng.integers(0, 40, (256, 5))
    data = from_arrays((rng.random(256) < 0.4).astype(np.float32), dense, {"keys": keys})
    mixed = {"use_mixed_precision": True, "dynamic_loss_scaling": True}
    model = make_model(
        setup_of("tower", 2, devices=2, train=data, test=data, nnz=1, i64=True, more=mixed)
    )
    curve = losses(model, 4)
    assert np.isfinite(curve).tolist() == [True, True, False, True]
    assert model.skipped_steps() == 1


@pytest.mark.parametrize("name", LIVES)
def test_rows_that_come_and_go(name):
    """Uses are counted once a step."""
    data = stream(np.random.default_rng(5), 20)
    models = [
        build(data, LIVES[name], devices=devices, micro_batches=count)
        for devices, count in ((1, 1), (2, 3))
    ]
    for model in models:
        for _ in range(20):
            assert model.train()
    for one, many in zip(*(model.session.tables() for model in models), strict=True):
        a, b = one.dump(True), many.dump(True)
        np.testing.assert_array_equal(a["keys"], b["keys"])
        np.testing.assert_array_equal(a["scores"], b["scores"])
        np.testing.assert_allclose(a["vectors"], b["vectors"], rtol=1e-4, atol=1e-6)


def test_tiers_give_the_same_bits():
    tables = placed_models.random_tables(1)
    plain = make_placed(tables, 2, 2)
    tiered = make_placed(tables, 2, 2, memory=hugectr.Memory(device="250KB"))
    found, wanted = (placed_models.outcome(model, 30) for model in (tiered, plain))
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_a_run_goes_on_with_any_number_of_parts(tmp_path: Path):
    tables = placed_models.random_tables(3)
    source = make_placed(tables, 2, 2, "Adam")
    placed_models.outcome(source, 10)
    source.save(tmp_path / "run")
    following = [source.train() and source.get_current_loss() for _ in range(5)]
    for devices, count in ((2, 2), (4, 1), (1, 4)):
        model = make_placed(tables, devices, count, "Adam")
        model.resume(tmp_path / "run")
        found = [model.train() and model.get_current_loss() for _ in range(5)]
        if (devices, count) == (2, 2):
            assert found == following
        np.testing.assert_allclose(found, following, rtol=1e-4)


def test_two_processes(tmp_path: Path):
    tables = placed_models.random_tables(21)
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make_placed(by_key, 1, 1), STEPS)
    rows = [[0, 1], [0, 1]]
    found = test_placements.run_job(
        tmp_path, rows, "train", optimizer="SGD", seed=21, steps=STEPS, solver={"micro_batches": 3}
    )
    placed_models.assert_near(found, wanted, TOLERANCE["SGD"])


@pytest.mark.parametrize("by_node", ["0", "1"])
def test_processes_that_stand_for_nodes(tmp_path: Path, by_node: str):
    tables = placed_models.random_tables(22)
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(make_placed(by_key, 1, 1, "Adam"), 30)
    found = test_placements.run_job(
        tmp_path,
        [[0, 1]] * 2,
        "train",
        script=test_placements.job.TESTS / "processes" / "by_node_job.py",
        optimizer="Adam",
        seed=22,
        steps=30,
        solver={"micro_batches": 2},
        nodes=[0, 1],
        by_node=[by_node],
        script_of_nodes="model/placed_job.py",
    )
    placed_models.assert_near(found, wanted, TOLERANCE["Adam"])


def two_losses(micro_batches: int, devices: int, weighted: bool = False) -> hugectr.Model:
    rng = np.random.default_rng(2)
    keys = rng.integers(0, 40, (512, 3))
    labels = np.stack([rng.random(512) < 0.4, rng.random(512), 0.5 + rng.random(512)], 1)
    data = from_arrays(labels.astype(np.float32), rng.random((512, 2)), {"keys": keys})
    solver = hugectr.CreateSolver(
        seed=3, batchsize=64, batchsize_eval=64, lr=0.05, device="cpu", i64_input_key=True,
        vvgpu=[list(range(devices))], micro_batches=micro_batches,
    )  # fmt: skip
    reader = hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, data, eval_source=data)
    model = hugectr.Model(solver, reader, hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD))
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, 3)
    model.add(hugectr.Input([1, 1, 1], ["click", "price", "weight"], 2, "dense", [sparse]))
    layer, kind = hugectr.DenseLayer, hugectr.Layer_t
    table = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(table, 1, 4, "sum", "emb", "keys"))
    model.add(layer(kind.Reshape, ["emb"], ["flat"], leading_dim=12))
    model.add(layer(kind.Concat, ["flat", "dense"], ["x"]))
    for name in ("a", "b"):
        model.add(layer(kind.InnerProduct, ["x"], [name], num_output=1))
    weight = ["weight"] if weighted else []
    model.add(layer(kind.BinaryCrossEntropyLoss, ["a", "click", *weight], ["first"]))
    model.add(layer(kind.MSELoss, ["b", "price"], ["second"], loss_weight=0.3))
    model.compile()
    return model


def test_several_losses_are_each_of_the_whole_batch():
    one, parts = two_losses(1, 1), two_losses(4, 2)
    for _ in range(20):
        assert one.train()
        assert parts.train()
        total, of_parts = one.get_current_loss(), parts.get_current_loss()
        np.testing.assert_allclose(of_parts, total, rtol=1e-5)
        wanted, found = (dict(model.session.get_current_losses()) for model in (one, parts))
        assert list(found) == ["first", "second"]
        np.testing.assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-5)


def test_losses_that_weigh_samples_are_refused():
    with pytest.raises(hugectr.InvalidArgument, match=r'"first" divides by the sum of its weights'):
        two_losses(2, 1, weighted=True)


def test_evaluation_knows_nothing_of_it():
    whole, parts = (make_model(setup_of("deepfm", count, devices=2)) for count in (1, 4))
    assert dict(whole.evaluate()) == dict(parts.evaluate())
