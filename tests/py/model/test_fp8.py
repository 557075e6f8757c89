# SPDX-License-Identifier: Apache-2.0
"""mixed_precision_type="fp8" trains as bfloat16 does; what is evaluated and saved is bfloat16's."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model.nets import Setup, evaluate, losses, make_model

import hugectr
from hugectr.data.planted import make_planted

SLOTS, DENSE, BATCH, BATCHES = 6, 4, 256, 64
DATA = make_planted(BATCH * BATCHES, [40] * SLOTS, dense_dim=DENSE, strength=3.0, seed=1)
MEMORY = DATA.to_memory("keys")
FP8 = {"use_mixed_precision": True, "mixed_precision_type": "fp8"}
BFLOAT16 = {"use_mixed_precision": True, "mixed_precision_type": "bfloat16"}


def model(net: str, more: dict[str, Any], **setup: Any) -> hugectr.Model:
    setup = {"batch": BATCH, "optimizer": "Adam", "lr": 0.005} | setup
    return make_model(Setup(net, MEMORY, MEMORY, SLOTS, DENSE, more=more, **setup))


@pytest.mark.parametrize("net", ["deepfm", "dcn", "dlrm"])
def test_same_auc_as_bfloat16(net: str) -> None:
    reached = {}
    for name, more in (("fp8", FP8), ("bfloat16", BFLOAT16)):
        trained = model(net, more)
        losses(trained, BATCHES)
        reached[name] = evaluate(trained, BATCHES)
    print(f"{net}: AUC {reached}")
    assert reached["bfloat16"] > 0.75
    assert 0 < abs(reached["fp8"] - reached["bfloat16"]) <= 0.001


def test_devices_and_repetition_change_nothing_but_rounding() -> None:
    setup = {"optimizer": "SGD", "lr": 0.1}
    curves = [losses(model("dlrm", FP8, devices=n, **setup), 20) for n in (1, 1, 2)]
    np.testing.assert_array_equal(curves[0], curves[1])
    np.testing.assert_allclose(curves[2], curves[0], rtol=1e-3)


def test_evaluation_is_that_of_bfloat16_and_training_is_not() -> None:
    both = [model("dlrm", more, lr=0.0) for more in (FP8, BFLOAT16)]
    steps = [losses(one, 2) for one in both]
    assert np.all(np.asarray(steps[0]) != steps[1])
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-2)
    assert evaluate(both[0], BATCHES) == evaluate(both[1], BATCHES)
    found, wanted = (one.check_out_tensor("pairs", hugectr.Tensor_t.Evaluate) for one in both)
    np.testing.assert_array_equal(found, wanted)


def test_checkpoints_are_those_of_bfloat16(tmp_path: Path) -> None:
    saved = model("dlrm", FP8)
    losses(saved, 20)
    auc = evaluate(saved, BATCHES)
    saved.save(str(tmp_path / "a"))
    loaded = model("dlrm", BFLOAT16)
    loaded.resume(str(tmp_path / "a"))
    assert evaluate(loaded, BATCHES) == auc
    again = model("dlrm", FP8)
    again.resume(str(tmp_path / "a"))
    np.testing.assert_array_equal(losses(again, 3), losses(saved, 3))
    manifests = list((tmp_path / "a").rglob("manifest.json"))
    assert manifests
    assert json.loads(manifests[0].read_text())["description"]["precision"] == "bfloat16"


def test_what_does_not_go_with_it_is_refused() -> None:
    with pytest.raises(hugectr.InvalidArgument, match=r"dynamic_loss_scaling.*fp8"):
        model("dlrm", FP8 | {"dynamic_loss_scaling": True})
    with pytest.raises(hugectr.InvalidArgument, match="'float16', 'bfloat16', 'fp8'"):
        model("dlrm", FP8 | {"mixed_precision_type": "e4m3"})
