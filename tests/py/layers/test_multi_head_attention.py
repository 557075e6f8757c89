# SPDX-License-Identifier: Apache-2.0
"""SequenceMask and MultiHeadAttention."""

import numpy as np
import pytest
from oracle.attention import attention, attention_gradients, sequence_mask
from oracle.reals import REALS
from oracle.row_layouts import assert_near

from hugectr import _core


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
    shapes = {"q": (2, queries, width), "k": (2, keys, width), "v": (2, keys, width)}
    check_layer(layer(heads), shapes, lambda q, k, v: attention(q, k, v, heads))


def test_attention_with_a_mask(check_layer):
    shapes = {"q": (3, 3, 4), "k": (3, 5, 4), "v": (3, 5, 4)}
    mask = sequence_mask(np.array([3, 3, 3]), np.array([5, 2, 1]), 3, 5)
    check_layer(
        layer(2, mask=True),
        {**shapes, "mask": mask},
        lambda q, k, v, mask: attention(q, k, v, 2, mask),
        no_gradient=["mask"],
    )


def test_one_bottom_without_gradient(check_layer):
    shapes = {"q": (2, 3, 4), "k": (2, 3, 4), "v": (2, 3, 4)}
    check_layer(
        layer(1), shapes, lambda q, k, v: attention(q, k, v, 1), no_gradient=["k"]
    )


SIZES = [
    (3, 1, 1, 16, 1),
    (2, 17, 50, 64, 4),
    (2, 50, 17, 64, 2),
    (1, 200, 200, 32, 2),
    (2, 33, 40, 64, 1),
    (2, 20, 70, 40, 2),  # heads of 20: no tensor-core shape
    (1, 7, 600, 128, 2),
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
def test_ops_of_many_shapes(rng, size, masked, real):
    samples, queries, keys, width, heads = size
    shapes = {"q": (samples, queries, width)} | dict.fromkeys("kv", (samples, keys, width))
    tensors = {name: real.store(rng.standard_normal(shape)) for name, shape in shapes.items()}
    if masked:
        lengths = rng.integers(1, keys + 1, samples)
        every = np.full(samples, queries)
        tensors["mask"] = real.store(sequence_mask(every, lengths, queries, keys))
    q, k, v, *mask = (real.values(tensor) for tensor in tensors.values())
    wanted = attention(q, k, v, heads, *mask)
    o, lse = real.empty(wanted.shape), np.full((samples, heads, queries), np.nan, np.float32)
    _core.run_op("attention_fwd", {**tensors, "o": o, "lse": lse}, {"heads": heads})
    assert_near(real.values(o), wanted, real.tolerance)

    dy = real.store(rng.standard_normal(wanted.shape))
    gradients = {f"d{name}": real.empty(shape) for name, shape in shapes.items()}
    _core.run_op(
        "attention_bwd",
        {**tensors, "o": o, "lse": lse, "dy": dy, **gradients, "delta": np.zeros_like(lse)},
        {"heads": heads},
    )
    expected = attention_gradients(q, k, v, heads, real.values(dy), *mask)
    for found, gradient in zip(gradients.values(), expected, strict=True):
        assert_near(real.values(found), gradient, 2 * real.tolerance, np.linalg.norm(wanted))


@pytest.mark.parametrize("sizes", [(3, 4), (1, 1), (70, 5)])
def test_sequence_mask(rng, sizes):
    lengths = {
        name: rng.integers(0, size + 1, (6, 1)).astype(np.float32)
        for name, size in zip(("from", "to"), sizes, strict=True)
    }
    network = _core.Network(
        {"from": (6, 1), "to": (6, 1)}, [mask_layer(*sizes)], no_gradient=list(lengths)
    )
    network.forward(lengths)
    wanted = sequence_mask(lengths["from"][:, 0], lengths["to"][:, 0], *sizes)
    np.testing.assert_array_equal(network.tensor("mask"), wanted)


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


