# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import binary_cross_entropy, sigmoid

from hugectr import _core


def layer(**attributes):
    return {
        "type": "BinaryCrossEntropyLoss",
        "bottoms": ["x", "label"],
        "tops": ["loss"],
        "attributes": attributes,
    }


def draw(rng, batch=10):
    x = (rng.standard_normal((batch, 1)) * 3).astype(np.float32)
    label = (rng.random((batch, 1)) < 0.4).astype(np.float32)
    weight = np.ones(batch, np.float32)
    weight[-2:] = 0
    return x, label, weight


def test_loss_and_gradient(rng, assert_close):
    x, label, weight = draw(rng)
    shapes = {"x": x.shape, "label": label.shape}
    network = _core.Network(shapes, [layer()], no_gradient=["label"])
    network.forward({"x": x, "label": label}, sample_weight=weight)
    x64, w = x.astype(np.float64), weight[:, None]
    assert_close(network.loss(), (w * binary_cross_entropy(x64, label)).sum() / 8)
    network.backward({})
    assert_close(network.gradient("x"), w * (sigmoid(x64) - label) / 8)


def test_evaluation_gives_probability_and_loss(rng, assert_close):
    x, label, weight = draw(rng)
    shapes = {"x": x.shape, "label": label.shape}
    network = _core.Network(shapes, [layer()], train=False, no_gradient=["label"])
    network.forward({"x": x, "label": label}, sample_weight=weight)
    x64 = x.astype(np.float64)
    assert_close(network.tensor("loss@prediction"), sigmoid(x64))
    assert_close(network.loss(), (weight[:, None] * binary_cross_entropy(x64, label)).sum() / 8)


@pytest.mark.parametrize("kind", ["L1", "L2"])
def test_regularizer_counts_all_parameters(rng, assert_close, kind):
    linear = {"type": "InnerProduct", "bottoms": ["in"], "tops": ["x"]}
    attributes = {"use_regularizer": True, "regularizer_type": kind, "lambda": 0.3}
    layers = [{**linear, "attributes": {"num_output": 1}}, layer(**attributes)]
    _, label, weight = draw(rng)
    inputs = rng.standard_normal((10, 4)).astype(np.float32)
    network = _core.Network({"in": (10, 4), "label": (10, 1)}, layers, no_gradient=["label"])
    w, b = (network.parameter(f"x.{name}").astype(np.float64) for name in ("weight", "bias"))
    network.forward({"in": inputs, "label": label}, sample_weight=weight)
    x, real = inputs.astype(np.float64) @ w + b, weight[:, None]
    flat = np.concatenate([w.ravel(), b])
    penalty = np.abs(flat).sum() if kind == "L1" else 0.5 * (flat**2).sum()
    share = 0.3 / 10  # by the places of a batch, whatever its samples weigh
    assert_close(
        network.loss(), (real * binary_cross_entropy(x, label)).sum() / 8 + share * penalty
    )
    network.backward({})
    dx = real * (sigmoid(x) - label) / 8
    slope = np.sign if kind == "L1" else lambda values: values
    assert_close(network.parameter_gradient("x.weight"), inputs.T @ dx + share * slope(w))
    assert_close(network.parameter_gradient("x.bias"), dx.sum(0) + share * slope(b))


def test_logits_must_be_one_column():
    with pytest.raises(_core.InvalidArgument, match=r'"loss": bottom "x" has shape \(4, 2\)'):
        _core.Network({"x": (4, 2), "label": (4, 1)}, [layer()], no_gradient=["label"])
