# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def network(dtype):
    layers = [
        {"type": "Cast", "bottoms": ["x"], "tops": ["h"], "attributes": dtype},
        {"type": "Cast", "bottoms": ["h"], "tops": ["y"], "attributes": {}},
    ]
    return _core.Network({"x": (9, 5)}, layers)


def bfloat16(x):
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


def float16(x):
    return x.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize(
    ("attributes", "rounded"),
    [({}, float16), ({"dtype": "float16"}, float16), ({"dtype": "bfloat16"}, bfloat16)],
)
def test_cast_there_and_back(rng, attributes, rounded):
    x, dy = (rng.standard_normal((9, 5)).astype(np.float32) for _ in range(2))
    cast = network(attributes)
    cast.forward({"x": x})
    np.testing.assert_array_equal(cast.tensor("y"), rounded(x))
    cast.backward({"y": dy})
    np.testing.assert_array_equal(cast.gradient("x"), rounded(dy))


def test_types_that_do_not_fit_are_an_error_and_no_more():
    """What is queued on a network's memory is done before the memory goes."""
    layers = [
        {"type": "Cast", "bottoms": ["x"], "tops": ["h"], "attributes": {"dtype": "float16"}},
        {
            "type": "InnerProduct",
            "bottoms": ["h"],
            "tops": ["y"],
            "attributes": {"num_output": 900},
        },
    ]
    for _ in range(30):
        with pytest.raises(_core.InvalidArgument, match="linear_fwd"):
            _core.Network({"x": (9, 500)}, layers)


def test_cast_names_what_is_allowed():
    with pytest.raises(_core.InvalidArgument, match='dtype is "int8", must be float32'):
        network({"dtype": "int8"})
