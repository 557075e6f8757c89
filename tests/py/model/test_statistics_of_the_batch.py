# SPDX-License-Identifier: Apache-2.0
"""A layer that takes the statistics of the batch it evaluates, in evaluation and in predictions."""

from pathlib import Path

import numpy as np
import pytest
from model.nets import NETS, Setup, losses, make_model
from oracle.activations import dice

import hugectr
from hugectr.data.planted import make_planted

SLOTS, DENSE, BATCH = 3, 4, 32
ALPHA, EPS = 0.2, 1e-3


def net(slots, d):
    return {"emb": d}, [
        ("Reshape", ["emb"], "flat", {"leading_dim": slots * d}),
        ("Concat", ["flat", "dense"], "x0", {}),
        ("InnerProduct", ["x0"], "fc1", {"num_output": 8}),
        ("PReLU_Dice", ["fc1"], "bent", {"elu_alpha": ALPHA, "eps": EPS}),
        ("InnerProduct", ["bent"], "logit", {"num_output": 1}),
    ]


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setitem(NETS, "dice", net)
    data = make_planted(100, [5, 7, 9], hotness=(1, 1), dense_dim=DENSE, seed=1).to_memory("keys")

    def build(devices=1):
        setup = Setup("dice", data, data, SLOTS, DENSE, batch=BATCH, devices=devices, lr=0.05)
        return make_model(setup), data

    return build


def evaluated(model):
    losses(model, 6)
    for _ in range(3):
        model.eval()
    return dict(model.get_eval_metrics())["AUC"]


def test_devices_evaluate_the_global_batch(make):
    wanted = evaluated(make()[0])
    for devices in (2, 4):
        assert abs(evaluated(make(devices)[0]) - wanted) < 1e-6, f"{devices} devices"


@pytest.mark.parametrize("loaded", [True, False])
def test_what_fills_a_prediction_up_is_not_counted(make, tmp_path: Path, loaded):
    """100 samples in batches of 32 and more: the last one is filled up, none is cut."""
    model, data = make()
    losses(model, 5)
    weight, bias = (
        np.asarray(model.dense_weight(f"logit.{w}"), np.float64) for w in ("weight", "bias")
    )
    if loaded:
        model.save(tmp_path / "model")
        model = hugectr.load(tmp_path / "model")
    for size in (BATCH, 64, 128):
        fc1 = model.predict(data, size, output="fc1").astype(np.float64)
        logit = model.predict(data, size, output="logit")
        for begin in range(0, len(fc1), size):
            part = fc1[begin : begin + size]
            wanted = dice(part, np.ones(len(part)), ALPHA, EPS) @ weight + bias
            np.testing.assert_allclose(logit[begin : begin + size], wanted[:, 0], atol=1e-5)


@pytest.mark.parametrize("loaded", [True, False])
def test_a_layer_that_takes_rows_of_the_batch(make, monkeypatch, tmp_path: Path, loaded):
    """Gather of all rows backwards: what a sample gets is what another one of its batch has."""
    backwards = list(range(BATCH))[::-1]
    tables, layers = net(SLOTS, 4)
    turned = ("Gather", ["fc1"], "turned", {"indices": backwards})
    layers = [*layers[:3], turned, ("InnerProduct", ["turned"], "logit", {"num_output": 1})]
    monkeypatch.setitem(NETS, "dice", lambda slots, d: (tables, layers))
    model, data = make()
    losses(model, 2)
    if loaded:
        model.save(tmp_path / "model")
        model = hugectr.load(tmp_path / "model")
    fc1, turned = (model.predict(data, output=name) for name in ("fc1", "turned"))
    whole = len(fc1) // BATCH * BATCH
    np.testing.assert_array_equal(
        turned[:whole].reshape(-1, BATCH, 8), fc1[:whole].reshape(-1, BATCH, 8)[:, ::-1]
    )
