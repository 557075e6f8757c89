# SPDX-License-Identifier: Apache-2.0
"""SequenceMask and MultiHeadAttention."""

import numpy as np
import pytest
from oracle.attention import (
    attention,
    attention_gradients,
    heads_apart,
    heads_joined,
    sequence_mask,
)
from oracle.row_layouts import assert_near

from hugectr import _core

#: Of fewer the gradient of the scores, what is left of numbers that cancel, may by chance be as
#: small as what 16 bits round off.
SAMPLES = 12


def layer(heads, mask=False):
    bottoms = ["q", "k", "v", "mask"] if mask else ["q", "k", "v"]
    return {
        "type": "MultiHeadAttention",
        "bottoms": bottoms,
        "tops": ["o"],
        "attributes": {"num_attention_heads": heads, "transpose_b": True},
    }


def mask_layer(size_from, size_to):
    return {
        "type": "SequenceMask",
        "bottoms": ["from", "to"],
        "tops": ["mask"],
        "attributes": {"max_sequence_len_from": size_from, "max_sequence_len_to": size_to},
    }


@pytest.mark.parametrize(
    ("queries", "keys", "width", "heads"), [(3, 4, 6, 1), (4, 4, 6, 2), (2, 5, 16, 1)]
)
def test_attention(check_layer, queries, keys, width, heads):
    shapes = {
        "q": (SAMPLES, queries, width),
        "k": (SAMPLES, keys, width),
        "v": (SAMPLES, keys, width),
    }
    check_layer(layer(heads), shapes, lambda q, k, v: attention(q, k, v, heads))


def test_attention_with_a_mask(check_layer):
    shapes = {"q": (SAMPLES, 3, 8), "k": (SAMPLES, 5, 8), "v": (SAMPLES, 5, 8)}
    mask = sequence_mask(np.full(SAMPLES, 3), np.resize([5, 2, 1], SAMPLES), 3, 5)
    check_layer(
        layer(2, mask=True),
        {**shapes, "mask": mask},
        lambda q, k, v, mask: attention(q, k, v, 2, mask),
        no_gradient=["mask"],
    )


@pytest.mark.parametrize("number", [1, 2])  # 1, the default, goes with any
def test_heads_that_lie_apart(check_layer, number):
    # In 16 bits a gradient of few numbers may be of terms that cancel: there are many.
    shapes = {"q": (9, 2, 7, 5), "k": (9, 2, 4, 5), "v": (9, 2, 4, 5)}
    mask = sequence_mask(np.full(9, 7), np.resize([4, 2, 1], 9), 7, 4)

    def wanted(q, k, v, mask):
        return heads_apart(attention(*(heads_joined(x) for x in (q, k, v)), 2, mask), 2)

    check_layer(layer(number, mask=True), {**shapes, "mask": mask}, wanted, no_gradient=["mask"])


def test_heads_that_are_columns_of_a_wider_tensor(rng):
    """Slices are views for whoever takes samples that lie apart; these heads must not."""
    slices = {
        "type": "Slice",
        "bottoms": ["x"],
        "tops": ["q flat", "k flat", "v flat"],
        "attributes": {"ranges": [0, 40, 40, 80, 80, 120]},
    }
    shape = {"type": "Reshape", "attributes": {"shape": [-1, 2, 4, 5]}}
    heads = [{**shape, "bottoms": [f"{name} flat"], "tops": [name]} for name in "qkv"]
    x, dy = rng.standard_normal((3, 120)).astype("f4"), rng.standard_normal((3, 2, 4, 5))
    network = _core.Network({"x": x.shape}, [slices, *heads, layer(2)])
    network.forward({"x": x})
    q, k, v = (heads_joined(part.reshape(3, 2, 4, 5)) for part in np.split(x.astype("f8"), 3, 1))
    assert_near(network.tensor("o"), heads_apart(attention(q, k, v, 2), 2), 1e-5)
    network.backward({"o": dy.astype(np.float32)})
    gradients = attention_gradients(q, k, v, 2, heads_joined(dy))
    wanted = np.concatenate([heads_apart(g, 2).reshape(3, 40) for g in gradients], axis=1)
    assert_near(network.gradient("x"), wanted, 1e-5)


def test_one_bottom_without_gradient(check_layer):
    shapes = {"q": (SAMPLES, 3, 8), "k": (SAMPLES, 3, 8), "v": (SAMPLES, 3, 8)}
    check_layer(layer(1), shapes, lambda q, k, v: attention(q, k, v, 1), no_gradient=["k"])


def test_attention_under_a_sequence_mask(rng):
    """Places beyond the end see all keys alike: 1e4 off each score changes nothing but rounding."""
    shape = (3, 4, 6)
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name in "qkv"}
    lengths = np.array([4.0, 2.0, 1.0], np.float32)[:, None]
    network = _core.Network(
        {**dict.fromkeys("qkv", shape), "from": (3, 1), "to": (3, 1)},
        [mask_layer(4, 4), layer(3, mask=True)],
        no_gradient=["from", "to"],
    )
    network.forward({**arrays, "from": lengths, "to": lengths})
    mask = sequence_mask(lengths[:, 0], lengths[:, 0], 4, 4)
    wanted = attention(*(arrays[n].astype(np.float64) for n in "qkv"), 3, mask)
    found = network.tensor("o")
    there = np.arange(4) < lengths
    assert_near(found[there], wanted[there], 1e-5)
    assert_near(found, wanted, 2e-3)  # a float32 of 1e4 has steps of 1e-3


@pytest.mark.parametrize(
    ("shapes", "heads", "message"),
    [
        ([(2, 3, 6), (2, 4, 6), (2, 4, 6)], 4, "num_attention_heads is 4, must divide the 6"),
        ([(2, 3, 6), (2, 4, 5), (2, 4, 6)], 1, r'bottom "k" has shape \(2, 4, 5\)'),
        ([(2, 3, 6), (2, 4, 6), (2, 5, 6)], 1, r'bottom "v" has shape \(2, 5, 6\)'),
        ([(2, 18), (2, 4, 6), (2, 4, 6)], 1, "must be .batch, length"),
        ([(2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 6)], 2, "is 2, must be 1 or the 3 heads"),
        ([(2, 3, 4, 6), (2, 2, 5, 6), (2, 3, 5, 6)], 3, r'bottom "k" has shape \(2, 2, 5, 6\)'),
        ([(2, 3, 4, 6), (2, 5, 6), (2, 3, 5, 6)], 3, r'bottom "k" has shape \(2, 5, 6\)'),
    ],
)
def test_wrong_shapes_are_named(shapes, heads, message):
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network(dict(zip("qkv", shapes, strict=True)), [layer(heads)])


def test_lengths_that_need_a_gradient_are_refused():
    network = [
        {"type": "ReLU", "bottoms": ["x"], "tops": ["from"], "attributes": {}},
        mask_layer(3, 3),
    ]
    with pytest.raises(_core.InvalidArgument, match="lengths have none"):
        _core.Network({"x": (2, 1), "to": (2, 1)}, network)
