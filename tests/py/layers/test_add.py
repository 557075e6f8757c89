# SPDX-License-Identifier: Apache-2.0
import pytest

from hugectr import _core


def layer(bottoms):
    return {"type": "Add", "bottoms": bottoms, "tops": ["y"]}


@pytest.mark.parametrize("shape", [(6, 1), (6, 5), (4, 3, 2)])
def test_add(check_layer, shape):
    check_layer(
        layer(["a", "b", "c"]), {"a": shape, "b": shape, "c": shape}, lambda a, b, c: a + b + c
    )


def test_a_bottom_without_gradient(check_layer):
    shapes = {"a": (4, 3), "b": (4, 3)}
    check_layer(layer(["a", "b"]), shapes, lambda a, b: a + b, no_gradient=["a"])


def test_wrong_shape_names_layer_bottom_and_shapes():
    with pytest.raises(
        _core.InvalidArgument,
        match=r'Add layer "y": bottom "b" has shape \(6, 4\), must be \(6, 3\) like bottom "a"',
    ):
        _core.Network({"a": (6, 3), "b": (6, 4)}, [layer(["a", "b"])])
    with pytest.raises(_core.InvalidArgument, match="needs at least 2"):
        _core.Network({"a": (6, 3)}, [layer(["a"])])
