# SPDX-License-Identifier: Apache-2.0
"""Rounding to bfloat16 as updates of such rows do it, written from its description in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U64 = np.uint64
Bits = npt.NDArray[np.uint64]


def mix_key(a: npt.ArrayLike, b: npt.ArrayLike) -> Bits:
    """SplitMix64's finaliser of a + golden ratio * (b + 1)."""
    with np.errstate(over="ignore"):
        z = np.asarray(a, U64) + U64(0x9E3779B97F4A7C15) * (np.asarray(b, U64) + U64(1))
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> U64(31)))


def random_bits(
    seed: int,
    table: int,
    slots: npt.ArrayLike,
    keys: npt.ArrayLike,
    step: int,
    columns: npt.ArrayLike,
) -> Bits:
    """16 bits of every (row, column): slots and keys (n), columns (d) -> (n, d)."""
    stream = mix_key(mix_key(U64(seed), mix_key(U64(table), slots)), np.asarray(keys).astype(U64))
    stream = mix_key(stream, U64(step))
    columns = np.asarray(columns, U64)
    four = mix_key(np.atleast_1d(stream)[:, None], columns // U64(4))
    return (four >> (U64(16) * (columns % U64(4)))) & U64(0xFFFF)


def rounded(values: npt.NDArray[np.float32], random: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """bfloat16, as bits, of finite float32: up (from zero) where the 16 bits below carry."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(U64)
    carried = bits + np.asarray(random, U64)
    infinite = (carried & U64(0x7F800000)) == U64(0x7F800000)
    return (np.where(infinite, bits, carried) >> U64(16)).astype(np.uint16)


def widened(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """What bfloat16 bits stand for."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def neighbours(
    values: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The bfloat16 towards zero from each value (or itself), and the next one away from zero."""
    below = np.ascontiguousarray(values, np.float32).view(np.uint32) >> np.uint32(16)
    return widened(below.astype(np.uint16)), widened((below + np.uint32(1)).astype(np.uint16))
