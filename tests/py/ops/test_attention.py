# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.attention import (
    attention,
    attention_gradients,
    heads_apart,
    heads_joined,
    sequence_mask,
)
from oracle.reals import REALS
from oracle.row_layouts import assert_near

from hugectr import _core

#: samples, queries, keys, width, heads, mask
SIZES = [
    (3, 1, 1, 16, 1, False),
    (2, 17, 50, 64, 4, False),
    (2, 17, 50, 64, 4, True),
    (2, 50, 17, 64, 2, True),
    (1, 100, 100, 32, 2, False),
    (2, 33, 40, 64, 1, True),
    (2, 20, 70, 40, 2, True),  # heads of 20: no tensor-core shape
    (2, 5, 6, 48, 3, False),  # an odd number of heads
    (1, 7, 600, 128, 2, False),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
def test_attention(rng, lay_out, size, real):
    samples, queries, keys, width, heads, masked = size
    shapes = {"q": (samples, queries, width)} | dict.fromkeys("kv", (samples, keys, width))

    def stored(shape):
        return lay_out(real.store(rng.standard_normal(shape)))

    tensors = {name: stored(shape) for name, shape in shapes.items()}
    if masked:
        lengths = rng.integers(1, keys + 1, samples)
        every = np.full(samples, queries)
        tensors["mask"] = lay_out(real.store(sequence_mask(every, lengths, queries, keys)))
    q, k, v, *mask = (real.values(tensor) for tensor in tensors.values())
    wanted = attention(q, k, v, heads, *mask)
    o = lay_out(real.empty(wanted.shape))
    lse = np.full((samples, heads, queries), np.nan, np.float32)
    _core.run_op("attention_fwd", {**tensors, "o": o, "lse": lse}, {"heads": heads})
    assert_near(real.values(o), wanted, real.tolerance)

    dy = stored(wanted.shape)
    gradients = {f"d{name}": lay_out(real.empty(shape)) for name, shape in shapes.items()}
    _core.run_op(
        "attention_bwd",
        {**tensors, "o": o, "lse": lse, "dy": dy, **gradients, "delta": np.zeros_like(lse)},
        {"heads": heads},
    )
    expected = attention_gradients(q, k, v, heads, real.values(dy), *mask)
    scale = np.linalg.norm(wanted)  # one key alone has no gradient of scores
    for found, gradient in zip(gradients.values(), expected, strict=True):
        assert_near(real.values(found), gradient, 2 * real.tolerance, scale)


@pytest.mark.parametrize("size", [s for s in SIZES if s[4] > 1])
@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
def test_heads_that_lie_apart(rng, real, size):
    samples, queries, keys, width, heads, masked = size
    lengths = {"q": queries, "k": keys, "v": keys}
    shapes = {name: (samples, heads, m, width // heads) for name, m in lengths.items()}
    tensors = {name: real.store(rng.standard_normal(shape)) for name, shape in shapes.items()}
    if masked:
        every = np.full(samples, queries)
        lengths_to = rng.integers(1, keys + 1, samples)
        tensors["mask"] = real.store(sequence_mask(every, lengths_to, queries, keys))
    mask = [real.values(tensors["mask"])] if masked else []
    q, k, v = (heads_joined(real.values(tensors[name])) for name in "qkv")
    wanted = attention(q, k, v, heads, *mask)
    o, lse = real.empty(shapes["q"]), np.full((samples, heads, queries), np.nan, np.float32)
    _core.run_op("attention_fwd", {**tensors, "o": o, "lse": lse}, {"heads": heads})
    assert_near(real.values(o), heads_apart(wanted, heads), real.tolerance)

    dy = real.store(rng.standard_normal(shapes["q"]))
    gradients = {f"d{name}": real.empty(shape) for name, shape in shapes.items()}
    tensors |= {"o": o, "lse": lse, "dy": dy, **gradients, "delta": np.zeros_like(lse)}
    _core.run_op("attention_bwd", tensors, {"heads": heads})
    expected = attention_gradients(q, k, v, heads, heads_joined(real.values(dy)), *mask)
    scale = np.linalg.norm(wanted)
    for found, gradient in zip(gradients.values(), expected, strict=True):
        assert_near(real.values(found), heads_apart(gradient, heads), 2 * real.tolerance, scale)


@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
def test_great_scores_do_not_overflow(real):
    q = real.store(np.full((1, 3, 16), 40.0))
    v = real.store(np.arange(48.0).reshape(1, 3, 16))
    o, lse = real.empty((1, 3, 16)), np.zeros((1, 1, 3), np.float32)
    _core.run_op("attention_fwd", {"q": q, "k": q, "v": v, "o": o, "lse": lse})
    np.testing.assert_allclose(lse, 40 * 40 * 4 + np.log(3), rtol=1e-6)
    assert_near(real.values(o), np.tile(real.values(v).mean(axis=1), (1, 3, 1)), real.tolerance)


def test_heads_must_divide():
    q = np.zeros((1, 3, 8), np.float32)
    tensors = {name: q.copy() for name in "qkvo"} | {"lse": np.zeros((1, 3, 3), np.float32)}
    with pytest.raises(_core.InvalidArgument, match="3 heads do not divide the 8 columns"):
        _core.run_op("attention_fwd", tensors, {"heads": 3})


def test_heads_that_lie_apart_are_packed_and_all_there():
    wide = np.zeros((2, 3, 4, 8), np.float32)
    q = wide[:, :2]  # of each sample two heads of three
    tensors = dict.fromkeys("qkvo", q) | {"lse": np.zeros((2, 2, 4), np.float32)}
    with pytest.raises(_core.InvalidArgument, match="must be contiguous where heads lie apart"):
        _core.run_op("attention_fwd", tensors, {"heads": 2})
    tensors = dict.fromkeys("qkvo", wide) | {"lse": np.zeros((2, 2, 4), np.float32)}
    with pytest.raises(_core.InvalidArgument, match=r"q \(2, 3, 4, 8\) must have 2 heads"):
        _core.run_op("attention_fwd", tensors, {"heads": 2})
