# SPDX-License-Identifier: Apache-2.0
"""Vectors as bytes of 16 and 8 bits, against formulas in float64."""

from __future__ import annotations

import numpy as np
import pytest

from hugectr import _core

BF16, FP16, FP8 = 2, 3, 4
TYPES = [BF16, FP16, FP8]
#: stored mantissa bits, smallest normal exponent, largest number, bytes, bytes of the scale
FORMATS = {
    BF16: (7, -126, 3.3895e38, 2, 0),
    FP16: (10, -14, 65504.0, 2, 4),
    FP8: (3, -6, 448.0, 1, 4),
}


def width(kind: int, d: int) -> int:
    _, _, _, size, head = FORMATS[kind]
    return head + -(-d * size // 4) * 4


def pack(kind, x, step=None, seed=7, stream=3):
    y = np.full((len(x), width(kind, x.shape[1])), 0xAB, np.uint8)
    tensors = {"x": x, "y": y}
    if step is not None:
        tensors["step"] = np.array([step], np.int64)
    fields = {"type": kind, "seed": seed, "stream": stream}
    _core.run_op("wire_pack", tensors, fields)
    return y


def unpack(kind, y, d, blocks=1):
    out = np.full((len(y) // blocks, d), 9.0, np.float32)
    _core.run_op("wire_unpack", {"x": y, "y": out}, {"type": kind, "blocks": blocks})
    return out


def scales(kind, x):
    """Smallest power of two that brings each vector into range; 1 without a scale."""
    if not FORMATS[kind][4]:
        return np.ones((len(x), 1))
    most = np.abs(x.astype(np.float64)).max(axis=1, keepdims=True)
    most = np.maximum(most, 1e-30)
    limit = 448.0 if kind == FP8 else 2.0**15
    k = np.ceil(np.log2(most / limit))
    if kind == FP16:  # below 2^15, not at it
        k = np.floor(np.log2(most)) - 14
    return 2.0**k


def neighbours(kind, x):
    """The numbers of the format below and above each of x, in float64, and where x is between."""
    mantissa, emin, _, _, _ = FORMATS[kind]
    scale = scales(kind, x)
    size = np.abs(x.astype(np.float64)) / scale
    e = np.maximum(np.floor(np.log2(np.maximum(size, 1e-300))), emin)
    step = 2.0 ** (e - mantissa)
    low = np.floor(size / step) * step
    sign = np.sign(x).astype(np.float64)
    return sign * low * scale, sign * (low + step) * scale, (size - low) / step


def numbers(rng, n, d):
    x = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-6, 6, (n, 1))
    x[0] = 0
    x[1, : d // 2] = 0
    x[2] *= 10.0 ** rng.uniform(-12, 0, d)  # subnormal beside the largest
    return x.astype(np.float32)


@pytest.mark.parametrize("d", [1, 3, 4, 6, 16, 128, 130])
@pytest.mark.parametrize("kind", TYPES)
def test_nearest_is_the_nearest_number(rng, kind, d):
    x = numbers(rng, 33, d)
    found = unpack(kind, pack(kind, x), d).astype(np.float64)
    low, high, part = neighbours(kind, x)
    wanted = np.where(part < 0.5, low, high)
    clear = np.abs(part - 0.5) > 1e-6
    np.testing.assert_array_equal(found[clear], wanted[clear].astype(np.float32))
    assert np.all((found == low) | (found == high))


@pytest.mark.parametrize("kind", TYPES)
def test_ties_go_to_even(kind):
    mantissa = FORMATS[kind][0]
    ulp = 2.0**-mantissa
    x = np.array([[1 + 0.5 * ulp, 1 + 1.5 * ulp, -1 - 0.5 * ulp, 1.0]], np.float32)
    wanted = [[1, 1 + 2 * ulp, -1, 1]]
    np.testing.assert_array_equal(unpack(kind, pack(kind, x), 4), np.array(wanted, np.float32))


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_of_the_format_are_kept(rng, kind):
    x = numbers(rng, 20, 24)
    once = unpack(kind, pack(kind, x, step=5), 24)
    again = unpack(kind, pack(kind, once, step=6), 24)
    np.testing.assert_array_equal(again, once)


@pytest.mark.parametrize("kind", TYPES)
def test_chance_is_unbiased_and_takes_a_neighbour(rng, kind):
    """Of 2000 steps: the mean is within five standard errors, and each draw is a neighbour.

    Where less than one hit is expected, five standard errors are less than a single one: there are
    at most ten then, which is as unlikely.
    """
    x, draws = numbers(rng, 5, 12), 2000
    low, high, part = neighbours(kind, x)
    total = np.zeros(x.shape)
    for step in range(draws):
        found = unpack(kind, pack(kind, x, step=step), 12).astype(np.float64)
        assert np.all((found == low.astype(np.float32)) | (found == high.astype(np.float32)))
        total += found
    error = np.abs(high - low) * np.sqrt(part * (1 - part) / draws)
    off = np.abs(total / draws - x.astype(np.float64))
    rare = np.minimum(part, 1 - part) * draws < 1
    bound = np.where(rare, 10 * np.abs(high - low) / draws, 5 * error)
    assert np.all(off <= bound + 1e-6 * np.abs(x))
    assert np.mean(off > error) < 0.6


@pytest.mark.parametrize("kind", TYPES)
def test_draws_depend_on_seed_stream_step_and_content_alone(rng, kind):
    x = numbers(rng, 40, 16)[3:]
    one = pack(kind, x, step=5)
    np.testing.assert_array_equal(pack(kind, x, step=5), one)
    order = rng.permutation(len(x))
    np.testing.assert_array_equal(pack(kind, x[order], step=5), one[order])
    for other in ({"step": 6}, {"seed": 8}, {"stream": 4}):
        assert np.mean(pack(kind, x, **({"step": 5} | other)) != one) > 0.05
    # One number changed in its last bit: all others draw anew.
    near = x.copy()
    near[:, 3] = np.nextafter(near[:, 3], np.float32(np.inf))
    elsewhere = np.delete(unpack(kind, pack(kind, near, step=5), 16), 3, axis=1)
    assert np.mean(elsewhere != np.delete(unpack(kind, one, 16), 3, axis=1)) > 0.05


@pytest.mark.parametrize("d", [1, 6, 16, 128, 300])
@pytest.mark.parametrize("kind", TYPES)
def test_every_device_draws_the_same_bits(rng, kind, d):
    x = numbers(rng, 70, d)
    y = np.zeros((len(x), width(kind, d)), np.uint8)
    tensors = {"x": x, "y": y, "step": np.array([9], np.int64)}
    _core.run_op("wire_pack", tensors, {"type": kind, "seed": 7, "stream": 3}, device="cpu")
    np.testing.assert_array_equal(pack(kind, x, step=9), y)
    out = np.zeros((len(x) // 2, d), np.float32)
    _core.run_op("wire_unpack", {"x": y, "y": out}, {"type": kind, "blocks": 2}, device="cpu")
    np.testing.assert_array_equal(unpack(kind, y, d, blocks=2), out)


@pytest.mark.parametrize("kind", [FP16, FP8])
def test_vectors_with_what_is_no_number_are_none(kind):
    x = np.ones((3, 6), np.float32)
    x[0, 2], x[1, 5] = np.nan, -np.inf
    found = unpack(kind, pack(kind, x, step=1), 6)
    assert np.isnan(found[:2]).all()
    np.testing.assert_array_equal(found[2], x[2])


def test_bfloat16_keeps_infinities_and_nan():
    x = np.array([[np.nan, np.inf, -np.inf, -0.0]], np.float32)
    for step in (None, 3):
        found = unpack(BF16, pack(BF16, x, step=step), 4)
        np.testing.assert_array_equal(found, x)
        assert np.signbit(found[0, 3])


@pytest.mark.parametrize("kind", TYPES)
def test_blocks_are_added_up(rng, kind):
    x = numbers(rng, 12, 10)
    y = pack(kind, x, step=2)
    parts = unpack(kind, y, 10).reshape(3, 4, 10).astype(np.float64)
    np.testing.assert_allclose(
        unpack(kind, y, 10, blocks=3), parts.sum(axis=0), rtol=1e-6, atol=1e-6 * np.abs(parts).max()
    )


@pytest.mark.parametrize("kind", TYPES)
def test_the_size_on_the_way(kind):
    assert (
        pack(kind, np.ones((2, 128), np.float32)).shape[1] == {BF16: 256, FP16: 260, FP8: 132}[kind]
    )
    y = pack(kind, np.ones((2, 5), np.float32))
    tail = FORMATS[kind][4] + 5 * FORMATS[kind][3]
    assert not y[:, tail:].any()  # padding


def test_what_does_not_fit_is_refused():
    x = np.ones((2, 5), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"bytes must be uint8 \(2, 12\)"):
        _core.run_op("wire_pack", {"x": x, "y": np.zeros((2, 11), np.uint8)}, {"type": FP8})
    with pytest.raises(_core.InvalidArgument, match="not bfloat16, float16 or float8"):
        _core.run_op("wire_pack", {"x": x, "y": np.zeros((2, 20), np.uint8)}, {"type": 0})
    with pytest.raises(_core.InvalidArgument, match="0 blocks"):
        _core.run_op(
            "wire_unpack", {"x": np.zeros((2, 12), np.uint8), "y": x}, {"type": FP8, "blocks": 0}
        )
