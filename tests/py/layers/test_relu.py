# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import relu

from hugectr import _core

LAYER = {"type": "ReLU", "bottoms": ["x"], "tops": ["y"], "attributes": {}}


@pytest.mark.parametrize("shape", [(7, 5), (4, 3, 5)])
def test_relu(check_layer, rng, shape):
    x = rng.standard_normal(shape)
    check_layer(LAYER, {"x": x + 0.01 * np.sign(x)}, relu)  # away from the kink


def test_relu_after_inner_product(rng, assert_close):
    """The pair the schedule joins into one record."""
    linear = {"type": "InnerProduct", "bottoms": ["x"], "tops": ["z"]}
    layers = [{**linear, "attributes": {"num_output": 6}}, {**LAYER, "bottoms": ["z"]}]
    network = _core.Network({"x": (300, 5)}, layers)
    x, dy = (rng.standard_normal(s).astype(np.float32) for s in ((300, 5), (300, 6)))
    w, b = (network.parameter(f"z.{name}").astype(np.float64) for name in ("weight", "bias"))
    network.forward({"x": x})
    z = x.astype(np.float64) @ w + b
    assert_close(network.tensor("y"), relu(z))
    network.backward({"y": dy})
    dz = dy * (z > 0)
    assert_close(network.gradient("x"), dz @ w.T)
    assert_close(network.parameter_gradient("z.weight"), x.T.astype(np.float64) @ dz)
    assert_close(network.parameter_gradient("z.bias"), dz.sum(0))
