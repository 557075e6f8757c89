# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

SPECIAL = np.array([0.0, -0.0, 1.0, 65504.0, 1e6, -1e6, 6e-8, 1e-9, np.inf, np.nan], np.float32)


def to_bfloat16(x):
    """Bits of bfloat16, nearest even, by integer arithmetic."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def numbers(rng):
    return np.concatenate([SPECIAL, rng.standard_normal(390).astype(np.float32) * 100]).reshape(
        40, 10
    )


def test_cast_float32_to_float16_and_back(rng):
    x = numbers(rng)
    half, back = np.empty(x.shape, np.float16), np.empty_like(x)
    _core.run_op("cast", {"x": x, "y": half})
    with np.errstate(over="ignore"):
        wanted = x.astype(np.float16)
    np.testing.assert_array_equal(half, wanted)
    _core.run_op("cast", {"x": half, "y": back})
    np.testing.assert_array_equal(back, wanted.astype(np.float32))


def test_cast_float32_to_bfloat16_and_back(rng):
    x = numbers(rng)
    bits, back = np.empty(x.shape, np.uint16), np.empty_like(x)
    _core.run_op("cast", {"x": x, "y": bits})
    np.testing.assert_array_equal(from_bfloat16(bits), from_bfloat16(to_bfloat16(x)))
    _core.run_op("cast", {"x": bits, "y": back})
    np.testing.assert_array_equal(back, from_bfloat16(bits))


def test_cast_between_the_short_types(rng):
    half = rng.standard_normal((30, 7)).astype(np.float16)
    bits, back = np.empty(half.shape, np.uint16), np.empty_like(half)
    _core.run_op("cast", {"x": half, "y": bits})
    np.testing.assert_array_equal(bits, to_bfloat16(half.astype(np.float32)))
    _core.run_op("cast", {"x": bits, "y": back})
    np.testing.assert_array_equal(back, from_bfloat16(bits).astype(np.float16))


def test_cast_of_strided_rows_to_the_same_type(rng):
    wide, y = rng.standard_normal((300, 9)).astype(np.float32), np.empty((300, 4), np.float32)
    _core.run_op("cast", {"x": wide[:, 2:6], "y": y})
    np.testing.assert_array_equal(y, wide[:, 2:6])


def test_cast_rejects_other_types():
    with pytest.raises(ValueError, match="float32, float16 or bfloat16"):
        _core.run_op("cast", {"x": np.zeros((2, 2), np.int64), "y": np.zeros((2, 2), np.float32)})
