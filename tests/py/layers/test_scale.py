# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(**attributes):
    return {"type": "Scale", "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize("columns", [1, 5, 16])
@pytest.mark.parametrize("factor", [1, 3, 8])
@pytest.mark.parametrize(("axis", "along"), [(0, 1), (1, 0)])
def test_scale_repeats_elements_or_rows(check_layer, columns, factor, axis, along):
    check_layer(
        layer(axis=axis, factor=factor),
        {"x": (6, columns)},
        lambda x: np.repeat(x, factor, axis=along),
    )


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"axis": 2}, "axis is 2, must be 0"),
        ({"factor": 1.5}, "factor is 1.5, must be a whole number"),
        ({"factor": 0}, "factor is 0"),
    ],
)
def test_what_is_wrong_is_named(attributes, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network({"x": (6, 9)}, [layer(**attributes)])
