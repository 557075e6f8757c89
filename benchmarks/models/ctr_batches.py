# SPDX-License-Identifier: Apache-2.0
"""Batches for CTR benchmarks: some that name every row once, then distinct power-law ones."""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from hugectr.data import MemoryDataset, from_arrays

DENSE = 13
ALPHA = 1.2


def cover_batches(a: argparse.Namespace) -> int:
    """Batches needed to name every row of every slot at least once."""
    return -(-a.rows // (a.batch * a.hot))


def power_law(rng: np.random.Generator, count: int, rows: int) -> npt.NDArray[np.int64]:
    """Categories 0 .. rows - 1 with P(k) ~ k**-ALPHA: the continuous law inverted, rounded down."""
    g = 1.0 - ALPHA
    draw = ((float(rows) ** g - 1.0) * rng.random(count) + 1.0) ** (1.0 / g)
    return np.clip(draw.astype(np.int64) - 1, 0, rows - 1)


def make_batches(a: argparse.Namespace, cover: int | None = None) -> MemoryDataset:
    """``cover_batches`` (or ``cover``) that hold all rows, then ``a.batches`` distinct ones;
    slot s has the keys s * rows .. (s + 1) * rows - 1, so that one table holds all slots."""
    cover = cover_batches(a) if cover is None else cover
    total = cover + a.batches
    keys = np.empty((total, a.batch, a.slots, a.hot), np.int64)
    dense = np.empty((total, a.batch, DENSE), np.float32)
    label = np.empty((total, a.batch), np.float32)

    def fill(i: int) -> None:
        rng = np.random.default_rng([a.seed, i])
        count = a.batch * a.hot
        for slot in range(a.slots):
            if i < cover:
                part = np.arange(i * count, (i + 1) * count, dtype=np.int64) % a.rows
            else:
                part = power_law(rng, count, a.rows)
            keys[i, :, slot] = part.reshape(a.batch, a.hot) + slot * a.rows
        dense[i] = rng.random((a.batch, DENSE), np.float32)
        label[i] = rng.random(a.batch) < 0.25

    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(total)))
    samples = total * a.batch
    offsets = np.arange(0, samples * a.slots * a.hot + 1, a.hot, dtype=np.uint64)
    return from_arrays(
        label.reshape(samples, 1),
        dense.reshape(samples, DENSE),
        {"keys": (keys.reshape(-1), offsets)},
    )
