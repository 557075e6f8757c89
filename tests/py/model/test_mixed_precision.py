# SPDX-License-Identifier: Apache-2.0
"""Training in 16 bits learns what float32 learns, and its files are float32 like all others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model.nets import Setup, evaluate, losses, make_model
from oracle.reals import BFLOAT16, FLOAT16, HALVES, Real

import hugectr
from hugectr.data.planted import make_planted

SLOTS, DENSE, BATCH, BATCHES = 6, 4, 256, 64
DATA = make_planted(BATCH * BATCHES, [40] * SLOTS, dense_dim=DENSE, strength=3.0, seed=1)
MEMORY = DATA.to_memory("keys")


def mixed(real: Real) -> dict[str, Any]:
    kind = {"use_mixed_precision": True, "mixed_precision_type": real.name}
    return kind | ({"scaler": 1024} if real is FLOAT16 else {})


def model(net: str, more: dict[str, Any], **setup: Any) -> hugectr.Model:
    setup = {"batch": BATCH, "optimizer": "Adam", "lr": 0.005} | setup
    return make_model(Setup(net, MEMORY, MEMORY, SLOTS, DENSE, more=more, **setup))


@pytest.fixture(scope="module")
def float32_auc() -> dict[str, float]:
    return {}


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("net", ["deepfm", "dcn", "dlrm", "batch_norm", "dropout"])
def test_same_auc_as_float32(float32_auc: dict[str, float], net: str, real: Real) -> None:
    if net not in float32_auc:
        wide = model(net, {})
        losses(wide, BATCHES)
        float32_auc[net] = evaluate(wide, BATCHES)
    narrow = model(net, mixed(real))
    losses(narrow, BATCHES)
    reached = evaluate(narrow, BATCHES)
    print(f"{net} {real.name}: AUC {reached:.5f}, float32 {float32_auc[net]:.5f}")
    assert float32_auc[net] > 0.75
    assert abs(reached - float32_auc[net]) <= 0.001


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_devices_and_repetition_change_nothing_but_rounding(real: Real) -> None:
    setup = {"optimizer": "SGD", "lr": 0.1}
    curves = [losses(model("dlrm", mixed(real), devices=n, **setup), 20) for n in (1, 1, 2)]
    np.testing.assert_array_equal(curves[0], curves[1])
    np.testing.assert_allclose(curves[2], curves[0], rtol=1e-3)


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_tensors_are_checked_out_as_float32(real: Real) -> None:
    narrow, wide = model("tower", mixed(real), lr=0.0), model("tower", {}, lr=0.0)
    losses(narrow, 1)
    losses(wide, 1)
    found = narrow.check_out_tensor("relu1", hugectr.Tensor_t.Train)
    wanted = wide.check_out_tensor("relu1", hugectr.Tensor_t.Train)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, real.values(real.store(found)))
    distance = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert 0 < distance <= real.tolerance


@pytest.mark.parametrize(
    ("first", "second"),
    [(mixed(BFLOAT16), {}), ({}, mixed(BFLOAT16)), (mixed(FLOAT16), {}), ({}, mixed(FLOAT16))],
    ids=["bfloat16-float32", "float32-bfloat16", "float16-float32", "float32-float16"],
)
def test_checkpoints_go_over(first: dict[str, Any], second: dict[str, Any], tmp_path: Path) -> None:
    saved = model("dcn", first)
    losses(saved, 40)
    auc = evaluate(saved, BATCHES)
    saved.save_params_to_files(str(tmp_path / "a"), 1)
    loaded = model("dcn", second, seed=99)
    loaded.load_dense_weights(str(tmp_path / "a_dense_1.model"))
    loaded.load_dense_optimizer_states(str(tmp_path / "a_opt_dense_1.model"))
    loaded.load_sparse_weights([str(tmp_path / "a0_sparse_1.model")])
    loaded.load_sparse_optimizer_states([str(tmp_path / "a0_opt_sparse_1.model")])
    assert abs(evaluate(loaded, BATCHES) - auc) <= 0.001  # the 16-bit copy is the loaded weights'
    loaded.save_params_to_files(str(tmp_path / "b"), 1)
    for name in ("_dense_1.model", "_opt_dense_1.model", "0_sparse_1.model/emb_vector"):
        assert (tmp_path / f"a{name}").read_bytes() == (tmp_path / f"b{name}").read_bytes()


def test_memory_is_that_of_16_bits() -> None:
    report, sizes = {}, {}
    for name, more in (("float32", {}), ("bfloat16", mixed(BFLOAT16))):
        compiled = model("dlrm", more)
        entries = compiled.session.memory_report()
        report[name] = {entry: size for _, entry, size in entries}
        sizes[name] = sum(size for owner, _, size in entries if owner.endswith(", training"))
    count = report["float32"]["dense weights"] // 4
    assert report["bfloat16"]["dense weights"] == 4 * count
    assert report["bfloat16"]["16-bit dense weights"] == 2 * count
    assert "16-bit dense weights" not in report["float32"]
    assert report["bfloat16"]["relu1"] == report["float32"]["relu1"] / 2
