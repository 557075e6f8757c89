# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(ranges, tops=None):
    return {
        "type": "Slice",
        "bottoms": ["x"],
        "tops": tops or [f"y{i}" for i in range(len(ranges) // 2)],
        "attributes": {"ranges": ranges},
    }


@pytest.mark.parametrize(
    "ranges", [[0, 3, 3, 8], [0, 8, 0, 8, 0, 8], [1, 5, 4, 6], [6, 8, 0, 2, 1, 3]]
)
@pytest.mark.parametrize("shape", [(5, 8), (5, 8, 3), (5, 8, 3, 2)])
def test_slice(check_layer, shape, ranges):
    pairs = list(zip(ranges[::2], ranges[1::2], strict=True))
    check_layer(layer(ranges), {"x": shape}, lambda x: [x[:, a:b] for a, b in pairs])


@pytest.mark.parametrize(
    ("ranges", "tops", "message"),
    [
        ([0, 3, 2, 9], None, r'range 1 is \[2, 9\), must be a part of \[0, 8\) of bottom "x"'),
        ([3, 3], None, r"range 0 is \[3, 3\).* not empty"),
        ([0, 3], ["a", "b"], "ranges has 2 numbers, must have two for each of 2 tops"),
    ],
)
def test_wrong_ranges_are_named(ranges, tops, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network({"x": (5, 8)}, [layer(ranges, tops)])


def test_a_tensor_used_seven_times(rng, assert_close):
    """More uses than the five that once were the limit; one layer uses it twice."""
    uses = [
        {"type": "ElementwiseMultiply", "bottoms": ["x", "x"], "tops": ["square"]},
        *({"type": "ReLU", "bottoms": ["x"], "tops": [f"r{i}"]} for i in range(5)),
        {"type": "Add", "bottoms": ["square", *(f"r{i}" for i in range(5))], "tops": ["y"]},
    ]
    x = rng.standard_normal((6, 4)).astype(np.float32)
    dy = rng.standard_normal((6, 4)).astype(np.float32)
    network = _core.Network({"x": x.shape}, uses)
    network.forward({"x": x})
    assert_close(network.tensor("y"), x.astype(np.float64) ** 2 + 5 * np.maximum(x, 0))
    network.backward({"y": dy})
    assert_close(network.gradient("x"), dy * (2.0 * x + 5 * (x > 0)))


def test_an_embedding_used_twice(rng, assert_close):
    layers = [
        {"type": "Reshape", "bottoms": ["e"], "tops": ["flat"]},
        {"type": "ReduceSum", "bottoms": ["e"], "tops": ["sum"], "attributes": {"axis": 1}},
    ]
    e = rng.standard_normal((6, 3, 4)).astype(np.float32)
    network = _core.Network({"e": e.shape}, layers)
    network.forward({"e": e})
    np.testing.assert_array_equal(network.tensor("flat"), e.reshape(6, 12))
    dflat = rng.standard_normal((6, 12)).astype(np.float32)
    dsum = rng.standard_normal((6, 1, 4)).astype(np.float32)
    network.backward({"flat": dflat, "sum": dsum})
    assert_close(network.gradient("e"), dflat.reshape(6, 3, 4) + dsum)
