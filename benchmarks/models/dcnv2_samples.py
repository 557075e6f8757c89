# SPDX-License-Identifier: Apache-2.0
"""Samples of the shape of MLPerf Training's recommender (DLRM-DCNv2), with a planted signal.

The first key k of a bag follows a power law in tables of more than a million rows and is uniform
in the others; the other keys of the bag are a fixed function of k, as in the reference data, so
that equal first keys are equal bags. Labels are drawn from a logistic model of frequent first keys,
of products of two tables' weights and of the dense features, so that the best AUC is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.data import MemoryDataset, from_arrays
from hugectr.data.planted import auc

#: Rows of the tables, and keys of a sample in each.
ROWS = (
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10,
    2209, 11938, 155, 4, 976, 14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
)  # fmt: skip
HOTNESS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
DENSE = 13
KEYS = sum(HOTNESS)
#: A sample in a Raw file: label, dense features and keys of 4 bytes each.
RECORD_BYTES = 4 * (1 + DENSE + KEYS)
_LARGE = 1_000_000
#: First keys with a weight: the most frequent ones of a large table, which a model can learn.
_WEIGHTED = 1000

Keys = npt.NDArray[np.int64]


def table_rows(scale: float = 1.0, most: int = 0) -> tuple[int, ...]:
    """Rows of the tables, times ``scale`` (but not below 100 where there are as many), and at most
    ``most`` (0: no bound)."""
    rows = (max(min(r, 100), round(r * scale)) for r in ROWS)
    return tuple(min(r, most) if most else r for r in rows)


def mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def bag(first: Keys, table: int, hot: int, rows: int) -> Keys:
    """The bags of first keys, (n, hot): the same key, the same bag."""
    keys = np.empty((len(first), hot), np.int64)
    keys[:, 0] = first
    seed = first.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for j in range(1, hot):
        keys[:, j] = mix(seed + np.uint64(table * 1000 + j)) % np.uint64(rows)
    return keys


def normal_of(keys: Keys, table: int, salt: int) -> npt.NDArray[np.float64]:
    """About normal, of variance 1, a function of key and table; 0 for keys without a weight."""
    x = mix(keys.astype(np.uint64) + np.uint64((table << 40) + (salt << 50) + 1))
    parts = [(x >> np.uint64(16 * i) & np.uint64(0xFFFF)).astype(np.float64) for i in range(4)]
    value = (sum(parts) / 65536.0 - 2.0) * np.sqrt(3.0)
    return np.where(keys < _WEIGHTED, value, 0.0)


@dataclass(frozen=True)
class Samples:
    """``n`` of them: labels, dense features (n, 13), keys of each table (n, hot), logits."""

    label: npt.NDArray[np.float32]
    dense: npt.NDArray[np.float32]
    keys: list[Keys]
    logit: npt.NDArray[np.float64]

    @property
    def ceiling(self) -> float:
        """The AUC of what labels were drawn from."""
        return auc(self.label, self.logit)

    def to_memory(self) -> MemoryDataset:
        """One sparse input of 26 slots."""
        n = len(self.label)
        starts = np.concatenate([[0], np.cumsum(HOTNESS)[:-1]])
        offsets = (np.arange(n)[:, None] * KEYS + starts).reshape(-1)
        offsets = np.append(offsets, n * KEYS).astype(np.uint64)
        keys = np.concatenate(self.keys, axis=1).reshape(-1)
        return from_arrays(self.label[:, None], self.dense, {"keys": (keys, offsets)})

    def write_raw(self, path: Path) -> None:
        """As records of RECORD_BYTES, appended to a file."""
        records = np.empty((len(self.label), RECORD_BYTES // 4), np.int32)
        records[:, 0] = self.label
        records[:, 1 : 1 + DENSE] = self.dense.view(np.int32)
        records[:, 1 + DENSE :] = np.concatenate(self.keys, axis=1)
        with path.open("ab") as file:
            records.tofile(file)


def make_samples(n: int, rows: tuple[int, ...], alpha: float, seed: Any) -> Samples:
    """``n`` samples; the same seed, the same samples."""
    rng = np.random.default_rng(seed)
    dense = np.log(rng.gamma(0.6, 4.0, (n, DENSE)) + 2.0).astype(np.float32)
    logit = np.full(n, -1.0) + (dense - 1.3) @ np.linspace(0.3, -0.3, DENSE)
    keys, factors = [], []
    for table, (size, hot) in enumerate(zip(rows, HOTNESS, strict=True)):
        if ROWS[table] > _LARGE:
            power = 1.0 - alpha
            draw = ((size + 1.0) ** power - 1.0) * rng.random(n) + 1.0
            first = np.minimum((draw ** (1.0 / power)).astype(np.int64), size) - 1
        else:
            first = rng.integers(0, size, n)
        keys.append(bag(first, table, hot, size))
        logit += 0.4 * normal_of(first, table, 0)
        factors.append(normal_of(first, table, 1))
    for a, b in ((0, 9), (19, 20), (2, 7)):
        logit += 0.4 * factors[a] * factors[b]
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-logit))).astype(np.float32)
    return Samples(label, dense, keys, logit)
