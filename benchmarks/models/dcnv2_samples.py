# SPDX-License-Identifier: Apache-2.0
"""Samples of the shape of MLPerf Training's recommender (DLRM-DCNv2), with a planted signal.

The first key k of a bag follows a power law in tables of more than a million rows and is uniform
in the others; the other keys of the bag are a fixed function of k, as in the reference data, so
that equal first keys are equal bags. Labels are drawn from a logistic model of frequent first keys,
of products of two tables' weights and of the dense features, so that the best AUC is known.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
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
#: The tables of each sparse input, by its name.
Inputs = Mapping[str, Sequence[int]]
ONE_INPUT: Inputs = {"keys": tuple(range(len(ROWS)))}
DENSE = 13
KEYS = sum(HOTNESS)
#: First word of each table's keys in a record, and the end of all.
BEGIN = 1 + DENSE + np.concatenate([[0], np.cumsum(HOTNESS)])
#: A sample in a Raw file: label, dense features and keys of 4 bytes each.
WORDS = 1 + DENSE + KEYS
RECORD_BYTES = 4 * WORDS
_LARGE = 1_000_000
#: First keys with a weight: the most frequent ones of a large table, which a model can learn.
_WEIGHTED = 1000
#: Tables whose factors are multiplied: of long bags, whose vectors move far enough for crosses to
#: learn products soon (benchmarks/NOTES.md).
PAIRS = ((9, 21), (19, 20), (20, 21))
#: Samples made at a time: the keys of the longest bags stay in the second-level cache.
_TILE = 1024

Keys = npt.NDArray[np.int64]
Words = npt.NDArray[np.int32]


def table_rows(scale: float = 1.0, most: int = 0) -> tuple[int, ...]:
    """Rows of the tables, times ``scale`` (but not below 100 where there are as many), and at most
    ``most`` (0: no bound)."""
    rows = (max(min(r, 100), round(r * scale)) for r in ROWS)
    return tuple(min(r, most) if most else r for r in rows)


def mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64, in place."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def write_bags(first: Keys, table: int, rows: int, bags: Words) -> None:
    """The bags (n, hot) of first keys (n): the same key, the same bag."""
    bags[:, 0] = first
    hot = bags.shape[1]
    if hot == 1:
        return
    places = np.arange(table * 1000 + 1, table * 1000 + hot, dtype=np.uint64)
    x = mix((first.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))[:, None] + places)
    # The high half times the number of rows is even over them, without a division.
    x >>= np.uint64(32)
    x *= np.uint64(rows)
    x >>= np.uint64(32)
    bags[:, 1:] = x


@functools.cache
def weights_of(table: int, salt: int) -> npt.NDArray[np.float64]:
    """Of the first keys of a table: about normal, of variance 1; and at the end 0, that of all
    others."""
    x = mix(np.arange(_WEIGHTED, dtype=np.uint64) + np.uint64((table << 40) + (salt << 50) + 1))
    parts = [(x >> np.uint64(16 * i) & np.uint64(0xFFFF)).astype(np.float64) for i in range(4)]
    return np.append((sum(parts) / 65536.0 - 2.0) * np.sqrt(3.0), 0.0)


@dataclass(frozen=True)
class Samples:
    """``n`` of them: records (n, WORDS) of a Raw file, where labels and dense features are float32,
    and what labels were drawn from, logits (n)."""

    records: Words
    logit: npt.NDArray[np.float64]

    @property
    def label(self) -> npt.NDArray[np.float32]:
        """(n, 1)."""
        return self.records[:, :1].view(np.float32)

    @property
    def ceiling(self) -> float:
        """The AUC of what labels were drawn from."""
        return auc(self.label[:, 0], self.logit)

    @property
    def products(self) -> npt.NDArray[np.float64]:
        """(n, pairs): what of the logits is products."""

        def factor(table: int) -> npt.NDArray[np.float64]:
            first = np.minimum(self.records[:, BEGIN[table]], _WEIGHTED)
            return weights_of(table, 1)[first]

        return np.stack([0.4 * factor(a) * factor(b) for a, b in PAIRS], axis=1)

    def distinct(self, n: int) -> list[int]:
        """Distinct keys of each table in the first ``n`` samples."""
        parts = (slice(*BEGIN[table : table + 2]) for table in range(len(HOTNESS)))
        return [len(np.unique(self.records[:n, part])) for part in parts]

    def to_memory(self, inputs: Inputs = ONE_INPUT) -> MemoryDataset:
        """The sparse inputs, a slot a table."""
        n = len(self.records)
        dense = self.records[:, 1 : 1 + DENSE].view(np.float32)
        found = {}
        for name, tables in inputs.items():
            words = np.concatenate([np.arange(*BEGIN[table : table + 2]) for table in tables])
            starts = np.cumsum([0, *(HOTNESS[table] for table in tables)])
            offsets = (np.arange(n)[:, None] * starts[-1] + starts[:-1]).reshape(-1)
            offsets = np.append(offsets, n * starts[-1]).astype(np.uint64)
            found[name] = (self.records[:, words].astype(np.int64).reshape(-1), offsets)
        return from_arrays(self.label, dense, found)

    def write_raw(self, path: Path) -> None:
        """As records of RECORD_BYTES, appended to a file."""
        with path.open("ab") as file:
            self.records.tofile(file)


def draw_first(rng: np.random.Generator, n: int, table: int, rows: int, alpha: float) -> Keys:
    """First keys (n) of a table."""
    if ROWS[table] <= _LARGE:
        return rng.integers(0, rows, n)
    power = 1.0 - alpha
    draw = ((rows + 1.0) ** power - 1.0) * rng.random(n) + 1.0
    return np.minimum((draw ** (1.0 / power)).astype(np.int64), rows) - 1


def make_tile(
    records: Words, rows: tuple[int, ...], alpha: float, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Fills records (n, WORDS) and returns their logits (n)."""
    n = len(records)
    dense = np.log(3.0 * rng.standard_exponential((n, DENSE), np.float32) + np.float32(2.0))
    records[:, 1 : 1 + DENSE] = dense.view(np.int32)
    logit = np.full(n, -1.0) + (dense - 1.4) @ np.linspace(0.3, -0.3, DENSE)
    factors, begin = [], 1 + DENSE
    for table, (size, hot) in enumerate(zip(rows, HOTNESS, strict=True)):
        first = draw_first(rng, n, table, size, alpha)
        write_bags(first, table, size, records[:, begin : begin + hot])
        begin += hot
        known = np.minimum(first, _WEIGHTED)
        logit += 0.4 * weights_of(table, 0)[known]
        factors.append(weights_of(table, 1)[known])
    for a, b in PAIRS:
        logit += 0.4 * factors[a] * factors[b]
    label = (rng.random(n) < 1.0 / (1.0 + np.exp(-logit))).astype(np.float32)
    records[:, 0] = label.view(np.int32)
    return logit


def make_samples(n: int, rows: tuple[int, ...], alpha: float, seed: Any) -> Samples:
    """``n`` samples; the same seed, the same samples."""
    rng = np.random.default_rng(seed)
    records = np.empty((n, WORDS), np.int32)
    logits = [make_tile(records[i : i + _TILE], rows, alpha, rng) for i in range(0, n, _TILE)]
    return Samples(records, np.concatenate(logits))
