# SPDX-License-Identifier: Apache-2.0
import pytest

from hugectr import _core


def layer(**attributes):
    return {"type": "ReduceMean", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 9), 1), ((6, 4, 3), 1), ((6, 4, 3), 2), ((6, 5, 16), 1)]
)
def test_reduce_mean(check_layer, shape, axis):
    check_layer(layer(axis=axis), {"x": shape}, lambda x: x.mean(axis=axis, keepdims=True))


def test_the_batch_is_refused():
    with pytest.raises(_core.InvalidArgument, match=r"ReduceMean layer .*axis 0 is the batch"):
        _core.Network({"x": (6, 9)}, [layer(axis=0)])
