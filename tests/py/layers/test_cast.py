# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def network(dtype, computes_in="float32"):
    layers = [
        {"type": "Cast", "bottoms": ["x"], "tops": ["h"], "attributes": dtype},
        {"type": "Cast", "bottoms": ["h"], "tops": ["y"], "attributes": {}},
    ]
    return _core.Network({"x": (9, 5)}, layers, dtype=computes_in)


def bfloat16(x):
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


def float16(x):
    return x.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize(
    ("attributes", "rounded"),
    [({}, lambda x: x), ({"dtype": "float16"}, float16), ({"dtype": "bfloat16"}, bfloat16)],
)
def test_cast_there_and_back(rng, attributes, rounded):
    x, dy = (rng.standard_normal((9, 5)).astype(np.float32) for _ in range(2))
    cast = network(attributes)
    cast.forward({"x": x})
    np.testing.assert_array_equal(cast.tensor("y"), rounded(x))
    cast.backward({"y": dy})
    np.testing.assert_array_equal(cast.gradient("x"), rounded(dy))


@pytest.mark.parametrize(("computes_in", "rounded"), [("float16", float16), ("bfloat16", bfloat16)])
def test_cast_goes_to_what_the_network_computes_in(rng, computes_in, rounded):
    x, dy = (rng.standard_normal((9, 5)).astype(np.float32) for _ in range(2))
    cast = network({}, computes_in)
    cast.forward({"x": x})
    np.testing.assert_array_equal(cast.tensor("y"), rounded(x))
    cast.backward({"y": dy})
    np.testing.assert_array_equal(cast.gradient("x"), rounded(dy))


@pytest.mark.parametrize("computes_in", ["float32", "float16", "bfloat16"])
def test_layers_behind_a_cast(rng, computes_in):
    """In a float32 network a Cast changes nothing; what follows takes what it makes."""

    def outcome(casts):
        layers = [
            {"type": "InnerProduct", "bottoms": ["x"], "tops": ["h"]},
            {"type": "Cast", "bottoms": ["h"], "tops": ["cast"], "attributes": {}},
            {"type": "ReLU", "bottoms": ["cast" if casts else "h"], "tops": ["r"]},
            {"type": "InnerProduct", "bottoms": ["r"], "tops": ["y"]},
        ]
        for layer in layers:
            layer.setdefault("attributes", {"num_output": 6})
        if not casts:
            del layers[1]
        made = _core.Network({"x": (9, 5)}, layers, dtype=computes_in)
        made.forward({"x": x})
        made.backward({"y": dy})
        return made.tensor("y"), made.gradient("x")

    x, dy = rng.standard_normal((9, 5)), rng.standard_normal((9, 6))
    for with_cast, without in zip(outcome(True), outcome(False), strict=True):
        np.testing.assert_allclose(
            with_cast, without, rtol=0 if computes_in == "float32" else 2e-2, atol=2e-2
        )
        if computes_in == "float32":
            np.testing.assert_array_equal(with_cast, without)


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
        with pytest.raises(_core.InvalidArgument, match="layer 'y': linear_fwd"):
            _core.Network({"x": (9, 500)}, layers)


def test_cast_names_what_is_allowed():
    with pytest.raises(_core.InvalidArgument, match='dtype is "int8", must be float32'):
        network({"dtype": "int8"})
