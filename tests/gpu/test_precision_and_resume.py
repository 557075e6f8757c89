# SPDX-License-Identifier: Apache-2.0
"""On a GPU: 16 bits reach the AUC of float32 on real data; a resumed run ends in the same bits."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from oracle.reals import HALVES

import hugectr
from hugectr import checkpoints
from hugectr.data.adult import write_adult_norm
from hugectr.demo.training import train as train_adult
from hugectr.demo.wide_and_deep import wide_and_deep

sys.path.insert(0, str(Path(__file__).parent))

from census import train

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)


def adult_auc(files, monkeypatch, **precision):
    """AUC after five epochs of the demo's model on the GPU."""
    with monkeypatch.context() as patch:
        patch.setattr(hugectr, "CreateSolver", partial(hugectr.CreateSolver, **precision))
        model = wide_and_deep(files, epochs=5, device="cuda")
    return train_adult(model, files, epochs=5).auc[-1]


def test_adult_in_16_bits_and_tf32(tmp_path, monkeypatch):
    files = write_adult_norm(tmp_path)
    exact = adult_auc(files, monkeypatch)
    assert exact >= 0.912
    for real in HALVES:
        mixed = {"use_mixed_precision": True, "mixed_precision_type": real.name, "scaler": 1024}
        found = adult_auc(files, monkeypatch, **mixed)
        print(f"Adult on the GPU, {real.name}: AUC {found:.5f}, float32 {exact:.5f}")
        assert 0 < abs(found - exact) <= 0.001
    found = adult_auc(files, monkeypatch, enable_tf32_compute=True)
    print(f"Adult on the GPU, tf32: AUC {found:.5f}")
    assert 0 < abs(found - exact) <= 0.001


@pytest.mark.parametrize("update", ["Local", "LazyGlobal"])
def test_resume_is_exact(tmp_path, update):
    wanted, whole = train("cuda", "Adam", 60, update=update)
    _, first = train("cuda", "Adam", 25, update=update)
    first.save(tmp_path, background=True)
    for _ in range(5):
        first.train()  # while the save is under way
    first.wait_for_save()
    _, second = train("cuda", "Adam", 1, update=update)
    assert second.resume(tmp_path) == 25
    curve = []
    for _ in range(35):
        second.train()
        curve.append(second.get_current_loss())
    np.testing.assert_array_equal(curve, wanted[25:])
    a, b = checkpoints.take(whole._state), checkpoints.take(second._state)
    assert a.fields == b.fields
    for name, values in a.arrays.items():
        np.testing.assert_array_equal(values, b.arrays[name], err_msg=name)


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
def test_base_and_deltas_are_exact(tmp_path, embedding):
    _, model = train("cuda", "Adam", 10, embedding=embedding)
    model.save(tmp_path, delta=True)
    for _ in range(3):
        model.train()
        path = model.save(tmp_path, delta=True, background=True)
    model.wait_for_save()
    a = checkpoints.take(model._state)
    for device in ("cuda", "cpu"):
        _, again = train(device, "Adam", 1, embedding=embedding)
        assert again.resume(path) == 13
        b = checkpoints.take(again._state)
        for name, values in a.arrays.items():
            np.testing.assert_array_equal(values, b.arrays[name], err_msg=name)
    before = model.session.table(0).dump()
    model.get_incremental_model()
    model.train()
    ((keys, vectors),) = model.get_incremental_model()
    assert 0 < len(keys) < len(before["keys"])
    after = model.session.table(0).dump()
    known = {key: i for i, key in enumerate(before["keys"].tolist())}
    where = {key: i for i, key in enumerate(after["keys"].tolist())}
    for key, vector in zip(keys.tolist(), vectors, strict=True):
        np.testing.assert_array_equal(after["vectors"][where[key]], vector)
    for key in known.keys() - set(keys.tolist()):
        np.testing.assert_array_equal(after["vectors"][where[key]], before["vectors"][known[key]])
