# SPDX-License-Identifier: Apache-2.0
"""One GPU and several give the same model; a checkpoint moves between device counts."""

import sys
from pathlib import Path

import numpy as np
import pytest
from model import placed_models

import hugectr
from hugectr import _core

sys.path.insert(0, str(Path(__file__).parent))

from census import BATCH, dataset, train

GPUS = _core.device_count("cuda")

pytestmark = pytest.mark.gpus(2)


@pytest.mark.parametrize("devices", [n for n in (2, 4, 8) if n <= GPUS] or [2])
@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize(("optimizer", "tolerance"), [("SGD", 1e-5), ("Adam", 1e-4)])
def test_loss_curve_and_table(devices, embedding, exchange, optimizer, tolerance):
    one, one_model = train("cuda", optimizer, 100, embedding=embedding)
    many, many_model = train(
        "cuda", optimizer, 100, embedding=embedding, exchange=exchange, devices=devices
    )
    assert (many_model.table_stats()[0]["unique_plans"] > 90) == (exchange == "unique")
    np.testing.assert_allclose(many, one, rtol=tolerance)
    a = one_model.session.table(0).dump(False)
    b = many_model.session.table(0).dump(False)
    np.testing.assert_array_equal(a["keys"], b["keys"])
    assert np.linalg.norm(a["vectors"] - b["vectors"]) <= 1e-5 * np.linalg.norm(a["vectors"])


@pytest.mark.parametrize("exchange", ["pooled", "unique"])
def test_a_run_on_two_gpus_repeats_bit_for_bit(exchange):
    first, _ = train("cuda", "Adam", 60, devices=2, exchange=exchange)
    second, _ = train("cuda", "Adam", 60, devices=2, exchange=exchange)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("devices", [n for n in (2, 4, 8) if n <= GPUS] or [2])
@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize("more", [{}, {"micro_batches": 2}], ids=str)
def test_rows_that_stay_apart_are_the_same(monkeypatch, devices, embedding, more):
    """Those that do not travel, on a stream of their own beside those that do."""
    more = {"devices": devices, "embedding": embedding, "exchange": "unique", **more}
    wanted, together = train("cuda", "Adam", 100, **more)
    monkeypatch.setenv("HUGECTR_APART_BYTES", "1")
    found, apart = train("cuda", "Adam", 100, **more)
    np.testing.assert_array_equal(found, wanted)
    a, b = (model.session.table(0).dump(True) for model in (together, apart))
    np.testing.assert_array_equal(a["vectors"], b["vectors"])


@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_sixteen_bits_on_two_gpus(kind, exchange):
    mixed = {"use_mixed_precision": True, "mixed_precision_type": kind, "scaler": 1024}
    one, one_model = train("cuda", "SGD", 100, **mixed)
    two, two_model = train("cuda", "SGD", 100, devices=2, exchange=exchange, **mixed)
    np.testing.assert_allclose(two, one, rtol=2e-3 if kind == "float16" else 1e-2)
    assert one_model.skipped_steps() == two_model.skipped_steps() == 0


@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize(("wire", "tolerance"), [("bf16", 2e-3), ("fp16", 5e-4), ("fp8", 2e-2)])
def test_vectors_in_few_bits_on_their_way(wire, tolerance, embedding, exchange):
    more = {"devices": 2, "embedding": embedding, "exchange": exchange}
    one, _ = train("cuda", "SGD", 60, embedding=embedding)
    first, _ = train("cuda", "SGD", 60, wire=wire, **more)
    second, _ = train("cuda", "SGD", 60, wire=wire, **more)
    np.testing.assert_allclose(first, one, rtol=tolerance)
    np.testing.assert_array_equal(first, second)
    on_cpu, _ = train("cpu", "SGD", 60, wire=wire, **more)
    np.testing.assert_allclose(first, on_cpu, rtol=tolerance)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_gradients_in_many_buckets(monkeypatch, optimizer):
    """Summed while backward goes on, a bucket a parameter, and at the end, all in one."""
    wanted, _ = train("cuda", optimizer, 100, devices=2)
    monkeypatch.setenv("HUGECTR_BUCKET_BYTES", "1")
    found, _ = train("cuda", optimizer, 100, devices=2)
    again, _ = train("cuda", optimizer, 100, devices=2)
    np.testing.assert_allclose(found, wanted, rtol=1e-5 if optimizer == "SGD" else 1e-4)
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("where", [5, BATCH - 1], ids=["first GPU", "last GPU"])
def test_a_step_that_overflows_on_one_gpu_is_skipped_on_all(where):
    """Sample `where` of batch 7 holds a number that float16 does not."""
    data = dataset()
    data.dense[7 * BATCH + where, 1] = 1e5
    mixed = {"use_mixed_precision": True, "dynamic_loss_scaling": True, "data": data}
    one, one_model = train("cuda", "Adam", 20, **mixed)
    two, two_model = train("cuda", "Adam", 20, devices=2, **mixed)
    assert not np.isfinite(one[7])
    assert not np.isfinite(two[7])
    rest = np.arange(20) != 7
    assert np.isfinite(two[rest]).all()
    np.testing.assert_allclose(two[rest], one[rest], rtol=2e-3)
    assert one_model.skipped_steps() == two_model.skipped_steps() == 1
    assert one_model.loss_scale() == two_model.loss_scale() == 32768.0


def test_a_checkpoint_moves_between_device_counts(tmp_path):
    _, many = train("cuda", "Adam", 50, devices=2)
    many.save_params_to_files(str(tmp_path / "model"), 50)
    aucs = []
    for device, devices in (("cuda", 1), ("cpu", 1)):
        _, model = train(device, "Adam", 1, devices=devices)
        model.load_dense_weights(tmp_path / "model_dense_50.model")
        model.load_sparse_weights([str(tmp_path / "model0_sparse_50.model")])
        for _ in range(32):
            model.eval()
        aucs.append(dict(model.get_eval_metrics())["AUC"])
    assert aucs[0] == pytest.approx(aucs[1], abs=1e-6)


@pytest.mark.parametrize("devices", [n for n in (2, 4, 8) if n <= GPUS] or [2])
@pytest.mark.parametrize("seed", range(6))
def test_random_placements(monkeypatch, devices, seed):
    """Tables placed in every way, in one model."""
    if seed % 2:
        monkeypatch.setenv("HUGECTR_APART_BYTES", "1")
    tables = placed_models.random_tables(seed)
    models = [
        placed_models.make_model(tables, [list(range(n))], device="cuda") for n in (1, devices)
    ]
    losses = []
    for model in models:
        losses.append([])
        for _ in range(60):
            assert model.train()
            losses[-1].append(model.get_current_loss())
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    for one, many in zip(*(model.session.tables() for model in models), strict=True):
        a, b = one.dump(False), many.dump(False)
        np.testing.assert_array_equal(a["keys"], b["keys"])
        assert np.linalg.norm(a["vectors"] - b["vectors"]) <= 1e-5 * np.linalg.norm(a["vectors"])


@pytest.mark.parametrize("seed", range(3))
def test_tiers_on_several_gpus(seed):
    tables = placed_models.random_tables(seed)
    losses = []
    for memory in (None, hugectr.Memory(device="250KB")):
        model = placed_models.make_model(tables, [[0, 1]], device="cuda", memory=memory)
        losses.append([])
        for _ in range(40):
            assert model.train()
            losses[-1].append(model.get_current_loss())
    assert losses[1] == losses[0]
