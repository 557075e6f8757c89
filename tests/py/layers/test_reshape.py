# SPDX-License-Identifier: Apache-2.0
import pytest

from hugectr import _core


def layer(**attributes):
    return {"type": "Reshape", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize(
    ("attributes", "target"),
    [
        ({}, (6, 20)),
        ({"leading_dim": 20}, (6, 20)),
        ({"leading_dim": 5}, (24, 5)),
        ({"leading_dim": 40}, (3, 40)),
        ({"leading_dim": 5, "time_step": 2}, (12, 2, 5)),
        ({"leading_dim": 5, "time_step": 4, "selected": False}, (6, 4, 5)),
        ({"shape": [-1, 2, 10]}, (6, 2, 10)),
        ({"shape": [6, 20]}, (6, 20)),
    ],
)
def test_reshape(check_layer, attributes, target):
    check_layer(layer(**attributes), {"x": (6, 4, 5)}, lambda x: x.reshape(target))


@pytest.mark.parametrize(
    "attributes",
    [{"selected": [2, 0, 2]}, {"selected": True, "selected_slots": [2, 0, 2], "leading_dim": 1}],
)
def test_selected_slots(check_layer, attributes):
    check_layer(layer(**attributes), {"x": (6, 4, 5)}, lambda x: x[:, [2, 0, 2]].reshape(6, 15))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"leading_dim": 7}, r'bottom "x" has shape \(6, 4, 5\).*\(-1, 7\): a multiple of 7'),
        ({"shape": [-1, -1]}, "more than one -1"),
        ({"shape": [0, 5]}, "must be positive or -1"),
        ({"shape": [5, 5]}, r"fills \(5, 5\): 25 elements, not 120"),
        ({"selected": [4]}, r"selected slot 4 is not in \[0, 4\)"),
        ({"selected": True}, "selected_slots is empty"),
    ],
)
def test_wrong_shapes_are_named(attributes, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network({"x": (6, 4, 5)}, [layer(**attributes)])
