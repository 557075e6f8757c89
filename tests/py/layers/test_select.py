# SPDX-License-Identifier: Apache-2.0
"""Gather and Select: places of one axis."""

import pytest

from hugectr import _core


def layer(kind, **attributes):
    return {"type": kind, "bottoms": ["x"], "tops": ["y"], "attributes": attributes}


@pytest.mark.parametrize("shape", [(6, 9), (6, 3, 8)])
@pytest.mark.parametrize("indices", [[2], [5, 0, 5, 1]])
def test_gather(check_layer, shape, indices):
    check_layer(layer("Gather", indices=indices), {"x": shape}, lambda x: x[indices])


@pytest.mark.parametrize(
    ("shape", "dim", "index"),
    [
        ((6, 9), 0, [1, 4]),
        ((6, 9), 1, [8, 0, 8]),
        ((6, 5, 8), 1, [4]),
        ((6, 5, 8), 1, [3, 3, 0]),
        ((6, 5, 3), 2, [2, 0]),
        ((3, 2, 4, 5), 2, [3, 1]),
    ],
)
def test_select(check_layer, shape, dim, index):
    check_layer(layer("Select", dim=dim, index=index), {"x": shape}, lambda x: x.take(index, dim))


@pytest.mark.parametrize(
    ("kind", "attributes", "message"),
    [
        ("Gather", {"indices": []}, "indices is empty"),
        ("Gather", {"indices": [6]}, r"indices has 6, which is not in \[0, 6\)"),
        ("Select", {"dim": 2, "index": [0]}, r"dim is 2, must be in \[0, 2\)"),
        ("Select", {"dim": 1, "index": [0, 9]}, r"index has 9, which is not in \[0, 9\)"),
    ],
)
def test_what_is_wrong_is_named(kind, attributes, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network({"x": (6, 9)}, [layer(kind, **attributes)])
