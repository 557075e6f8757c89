# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(bottoms, **attributes):
    return {"type": "Concat", "bottoms": bottoms, "tops": ["y"], "attributes": attributes}


def test_columns_of_three_bottoms(check_layer):
    check_layer(
        layer(["a", "b", "c"]),
        {"a": (6, 3), "b": (6, 1), "c": (6, 5)},
        lambda a, b, c: np.concatenate([a, b, c], axis=1),
    )


@pytest.mark.parametrize("axis", [1, 2])
def test_three_dimensions(check_layer, axis):
    shapes = {"a": (4, 2, 3), "b": (4, 5, 3) if axis == 1 else (4, 2, 6)}
    check_layer(
        layer(["a", "b"], axis=axis), shapes, lambda a, b: np.concatenate([a, b], axis=axis)
    )


def test_a_bottom_without_gradient(check_layer):
    check_layer(
        layer(["dense", "emb"]),
        {"dense": (6, 3), "emb": (6, 4)},
        lambda a, b: np.concatenate([a, b], axis=1),
        no_gradient=["dense"],
    )


def test_wrong_shape_names_layer_bottom_and_shapes():
    with pytest.raises(
        _core.InvalidArgument,
        match=r'Concat layer "y": bottom "b" has shape \(6, 4, 2\), must be \(6, 3\) like bottom',
    ):
        _core.Network({"a": (6, 3), "b": (6, 4, 2)}, [layer(["a", "b"])])
    with pytest.raises(_core.InvalidArgument, match='Concat layer "y": axis is 2, must be 1'):
        _core.Network({"a": (6, 3), "b": (6, 4)}, [layer(["a", "b"], axis=2)])
