# SPDX-License-Identifier: Apache-2.0
"""Every layer that moves data in one network full of branches: views must not change a number."""

import numpy as np
import pytest
from oracle.reals import REALS

from hugectr import _core

BATCH, SLOTS, DIM, DENSE = 37, 5, 8, 6
INPUTS = {
    "dense": (BATCH, DENSE),
    "emb": (BATCH, SLOTS, DIM),
    "wide": (BATCH, 1, 1),
    "label": (BATCH, 1),
}


def layer(kind, bottoms, tops, **attributes):
    return {
        "type": kind,
        "bottoms": bottoms.split(),
        "tops": tops.split(),
        "attributes": attributes,
    }


LAYERS = [
    layer("Reshape", "emb", "flat", leading_dim=SLOTS * DIM),
    layer("Concat", "flat dense", "x"),
    layer("MultiCross", "x", "cross", num_layers=3),
    layer("MultiCross", "x", "projected", num_layers=2, projection_dim=4),
    layer("InnerProduct", "x", "fc", num_output=16),
    layer("ReLU", "fc", "relu"),
    layer("InnerProduct", "dense", "bottom", num_output=DIM),
    layer("ReLU", "bottom", "bottom_relu"),
    layer("Interaction", "bottom_relu emb", "pairs"),
    layer("Slice", "relu", "left right", ranges=[0, 8, 8, 16]),
    layer("ElementwiseMultiply", "left right", "product"),
    layer("Slice", "relu", "a b unused", ranges=[0, 8, 4, 16, 2, 9]),
    layer("FmOrder2", "emb", "fm", out_dim=DIM),
    layer("WeightMultiply", "dense", "scaled", weight_dims=[DENSE, 3]),
    layer("Concat", "cross projected pairs product a b fm scaled relu flat left", "all"),
    layer("InnerProduct", "all", "deep", num_output=1),
    layer("Reshape", "wide", "wide_flat", leading_dim=1),
    layer("ReduceSum", "flat", "sum", axis=1),
    layer("Add", "deep wide_flat sum", "logit"),
    layer("BinaryCrossEntropyLoss", "logit label", "loss"),
]


def make_inputs(rng):
    arrays = {k: (rng.standard_normal(s) * 0.5).astype(np.float32) for k, s in INPUTS.items()}
    arrays["label"] = (arrays["label"] > 0).astype(np.float32)
    return arrays


def gradients(arrays, dtype="float32"):
    network = _core.Network(INPUTS, LAYERS, seed=5, no_gradient=["dense", "label"], dtype=dtype)
    for _ in range(2):  # the second step finds the memory as the first one left it
        network.forward(arrays)
        network.backward({})
    found = {name: network.gradient(name) for name in ("emb", "wide")}
    found |= {name: network.parameter_gradient(name) for name, _ in network.parameters()}
    return network, found


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_fused_and_unfused_agree(rng, monkeypatch, assert_close, real):
    arrays = make_inputs(rng)
    monkeypatch.setenv("HUGECTR_FUSE", "0")
    plain, wanted = gradients(arrays, real.name)
    monkeypatch.setenv("HUGECTR_FUSE", "1")
    fused, found = gradients(arrays, real.name)
    assert len(fused.op_records()) < len(plain.op_records())
    assert "slice_fwd" not in fused.op_records()
    assert fused.loss() == pytest.approx(plain.loss(), rel=real.tolerance / 10)
    for name, value in wanted.items():
        assert np.linalg.norm(value) > 0, name
        assert_close(found[name], value, name, tolerance=real.tolerance)


def test_gradient_is_the_derivative_of_the_loss(rng):
    arrays = make_inputs(rng)
    network, found = gradients(arrays)
    direction = rng.standard_normal(INPUTS["emb"]).astype(np.float32)
    losses = []
    for step in (1e-2, -1e-2):
        moved = arrays["emb"] + np.float32(step) * direction
        network.forward(arrays | {"emb": moved})
        losses.append(network.loss())
    wanted = (losses[0] - losses[1]) / 2e-2
    scale = np.linalg.norm(found["emb"]) * np.linalg.norm(direction)
    assert abs(float((found["emb"] * direction).sum()) - wanted) < 1e-3 * scale
