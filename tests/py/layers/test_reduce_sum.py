# SPDX-License-Identifier: Apache-2.0
import pytest

from hugectr import _core


def layer(**attributes):
    return {"type": "ReduceSum", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize(
    ("shape", "attributes", "axis"),
    [
        ((6, 9), {}, 1),
        ((6, 9), {"axis": 1}, 1),
        ((6, 4, 3), {"axis": 1}, 1),
        ((6, 4, 3), {"axis": 2}, 2),
    ],
)
def test_reduce_sum(check_layer, shape, attributes, axis):
    check_layer(layer(**attributes), {"x": shape}, lambda x: x.sum(axis=axis, keepdims=True))


@pytest.mark.parametrize(
    ("axis", "message"),
    [(0, "axis 0 is the batch"), (2, r'must be 1 for bottom "x" of shape \(6, 9\)')],
)
def test_wrong_axis_is_named(axis, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network({"x": (6, 9)}, [layer(axis=axis)])
