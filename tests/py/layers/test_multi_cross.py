# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(**attributes):
    return {"type": "MultiCross", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


def cross(x0, *weights):
    x = x0
    for w, b in zip(weights[::2], weights[1::2], strict=True):
        x = x0 * (x @ w)[:, None] + x + b
    return x


def projected_cross(x0, *weights):
    x = x0
    for u, v, b in zip(weights[::3], weights[1::3], weights[2::3], strict=True):
        x = x0 * (x @ u @ v + b) + x
    return x


@pytest.mark.parametrize("no_gradient", [[], ["x"]])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_vectors(check_layer, layers, no_gradient):
    network = check_layer(layer(num_layers=layers), {"x": (7, 11)}, cross, no_gradient=no_gradient)
    names = [f"y.{what}{i}" for i in range(layers) for what in ("weight", "bias")]
    assert network.parameters() == [(name, (11,)) for name in names]


@pytest.mark.parametrize("no_gradient", [[], ["x"]])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_projection(check_layer, rng, layers, no_gradient):
    # In 16 bits every layer rounds, and the next one multiplies that by its input. Small inputs
    # keep it near one rounding; of many samples no single one decides the distance.
    network = check_layer(
        layer(num_layers=layers, projection_dim=3),
        {"x": rng.standard_normal((40, 12)) * 0.5},
        projected_cross,
        no_gradient=no_gradient,
    )
    assert network.parameters()[:3] == [("y.u0", (12, 3)), ("y.v0", (3, 12)), ("y.bias0", (12,))]
    assert len(network.parameters()) == 3 * layers


def test_first_weights():
    network = _core.Network({"x": (2, 400)}, [layer(num_layers=2)])
    weight = network.parameter("y.weight1")
    bound = (3 / 200.5) ** 0.5
    assert 0.95 * bound < abs(weight).max() <= bound
    np.testing.assert_array_equal(network.parameter("y.bias1"), 0)


def test_wrong_arguments_are_named():
    with pytest.raises(
        _core.InvalidArgument, match=r'MultiCross layer "y": bottom "x" has shape \(2, 3, 4\)'
    ):
        _core.Network({"x": (2, 3, 4)}, [layer(num_layers=2)])
    with pytest.raises(_core.InvalidArgument, match="num_layers is 0, must be at least 1"):
        _core.Network({"x": (2, 3)}, [layer()])
