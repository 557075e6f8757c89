# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(bottoms, kind="ElementwiseMultiply"):
    return {"type": kind, "bottoms": bottoms, "tops": ["y"]}


@pytest.mark.parametrize("kind", ["ElementwiseMultiply", "DotProduct"])
@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 2)])
def test_product_of_three(check_layer, kind, shape):
    check_layer(
        layer(["a", "b", "c"], kind),
        {"a": shape, "b": shape, "c": shape},
        lambda a, b, c: a * b * c,
    )


def test_factors_of_zero(check_layer, rng):
    a, b, c = rng.standard_normal((3, 6, 5)) * (rng.random((3, 6, 5)) > 0.4)
    check_layer(layer(["a", "b", "c"]), {"a": a, "b": b, "c": c}, lambda a, b, c: a * b * c)


def test_a_bottom_without_gradient(check_layer):
    shapes = {"a": (4, 3), "b": (4, 3), "c": (4, 3)}
    check_layer(layer(["a", "b", "c"]), shapes, lambda a, b, c: a * b * c, no_gradient=["b"])


def test_wrong_shape_names_layer_bottom_and_shapes():
    shapes = {"a": (6, 3), "b": (6, 1)}
    with pytest.raises(
        _core.InvalidArgument,
        match=r'DotProduct layer "y": bottom "b" has shape \(6, 1\), must be \(6, 3\)',
    ):
        _core.Network(shapes, [layer(["a", "b"], "DotProduct")])


def test_bottom_used_twice(rng, assert_close):
    x = rng.standard_normal((6, 3)).astype(np.float32)
    network = _core.Network({"x": x.shape}, [layer(["x", "x"])])
    network.forward({"x": x})
    network.backward({"y": np.ones_like(x)})
    assert_close(network.gradient("x"), 2.0 * x)
