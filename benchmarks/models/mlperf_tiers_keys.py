# SPDX-License-Identifier: Apache-2.0
"""Samples on MLPerf's 26 tables for mlperf_tiers.py: files that name every row, then drawn ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dcnv2_raw import Words
from dcnv2_samples import DENSE, ROWS, draw_first, write_bags

#: Popular rows lie anywhere: a rank times this, modulo a table's rows, is a permutation.
_SPREAD = 2654435761


def rows_that_fit(rows: tuple[int, ...], budget: int) -> tuple[int, ...]:
    """min(rows, R) of each table, with the largest R for which they are no more than ``budget``."""
    low, high = 1, max(rows)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(r, middle) for r in rows) <= budget:
            low = middle
        else:
            high = middle - 1
    return tuple(min(r, low) for r in rows)


@dataclass(frozen=True)
class TierSamples:
    """Files 0 to ``cover - 1`` name the rows of each table one after the other, those after them
    are drawn: first keys by a power law (tables of more than a million rows at full size) or even,
    bags as in dcnv2_samples.py; keys modulo ``modulo``.

    Attributes
    ----------
    rows, modulo, hot : tuple of int
        Of each table: rows that keys are drawn from, rows there are, keys of a sample.
    samples : int
        Of a file.
    """

    rows: tuple[int, ...]
    modulo: tuple[int, ...]
    hot: tuple[int, ...]
    alpha: float
    seed: int
    cover: int
    samples: int

    @property
    def words(self) -> int:
        """Label, dense features, keys."""
        return 1 + DENSE + sum(self.hot)

    def make(self, number: int, begin: int, count: int) -> Words:
        """As a Source of dcnv2_raw.py."""
        rng = np.random.default_rng([self.seed, number, begin])
        records = np.empty((count, self.words), np.int32)
        records[:, 0] = (rng.random(count) < 0.25).astype(np.float32).view(np.int32)
        records[:, 1 : 1 + DENSE] = rng.random((count, DENSE), np.float32).view(np.int32)
        at = 1 + DENSE
        place = np.arange(count)[:, None] + number * self.samples + begin
        for table, hot in enumerate(self.hot):
            bags = records[:, at : at + hot]
            at += hot
            if number < self.cover:
                bags[:] = (place * hot + np.arange(hot)) % self.modulo[table]
                continue
            size = self.rows[table]
            first = draw_first(rng, count, table, size, self.alpha)
            if ROWS[table] > 1_000_000:
                first = first * _SPREAD % size
            write_bags(first, table, size, bags)
            if self.modulo[table] < size:
                bags %= self.modulo[table]
        return records


def cover_batches(modulo: tuple[int, ...], hot: tuple[int, ...], batch: int) -> int:
    """Batches until every row was named."""
    return max(-(-rows // (batch * h)) for rows, h in zip(modulo, hot, strict=True))
