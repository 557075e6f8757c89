# SPDX-License-Identifier: Apache-2.0
"""What is learnt of a column of numbers: mean, spread, range, median, in one pass.

Blocks have a fixed number of rows whatever the source, so results do not depend on how it is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.data.schema.values import Float64s

#: Values of which the median is taken, of columns that have more.
SAMPLE = 65_536
#: From this on squares may leave float64: values are then held divided by a power of two.
LARGE, EXPONENT = 2.0**500, 600


@dataclass(frozen=True)
class Moments:
    """Of the values that are there.

    Attributes
    ----------
    rows, missing : int
    minimum, maximum, mean : float
        Of the values; 0 where there is none.
    median : float or None
        Where it was asked for.
    mean_scaled, deviation : float
        Mean and standard deviation of what is scaled: the values, or their signed logarithms.
    """

    rows: int
    missing: int
    minimum: float = 0.0
    maximum: float = 0.0
    mean: float = 0.0
    median: float | None = None
    mean_scaled: float = 0.0
    deviation: float = 0.0


def signed_log(values: Float64s) -> Float64s:
    """``sign(x) log(1 + |x|)``."""
    logs: Float64s = np.copysign(np.log1p(np.abs(values)), values)
    return logs


def _finite(value: float | np.floating[Any]) -> float:
    """A sum of numbers near the end of float64 may have left it; files hold none that have."""
    return float(np.nan_to_num(value))


def _median(values: Float64s) -> float:
    with np.errstate(over="ignore"):
        return _finite(np.median(values))


class _Spread:
    """Mean and variance of blocks: Chan, Golub, LeVeque, "Updating formulae and a pairwise
    algorithm for computing sample variances", 1979."""

    def __init__(self) -> None:
        self.count, self._mean, self._squares = 0, 0.0, 0.0
        self._exponent = 0

    def add(self, values: Float64s) -> None:
        if not self._exponent and np.abs(values).max() > LARGE:
            self._exponent = EXPONENT
            self._mean = float(np.ldexp(self._mean, -EXPONENT))
            self._squares = float(np.ldexp(self._squares, -2 * EXPONENT))
        if self._exponent:
            values = np.ldexp(values, -self._exponent)
        count = self.count + len(values)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            squares = float(np.square(values - mean).sum())
            apart = mean - self._mean
            self._mean += apart * (len(values) / count)
            self._squares += squares + apart * apart * (self.count * len(values) / count)
        self.count = count

    @property
    def mean(self) -> float:
        with np.errstate(over="ignore"):
            return float(np.ldexp(self._mean, self._exponent))

    @property
    def deviation(self) -> float:
        with np.errstate(over="ignore"):
            return float(np.ldexp(np.sqrt(self._squares / self.count), self._exponent))


class _Sample:
    """The values of some rows: those whose numbers hash lowest, so always the same ones."""

    def __init__(self) -> None:
        self.order = np.empty(0, np.uint64)
        self.values: Float64s = np.empty(0)

    def add(self, values: Float64s, rows: npt.NDArray[np.int64]) -> None:
        z = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z ^= z >> np.uint64(27)
        self.order = np.concatenate([self.order, z])
        self.values = np.concatenate([self.values, values])
        if len(self.order) > SAMPLE:
            lowest = np.argpartition(self.order, SAMPLE)[:SAMPLE]
            self.order, self.values = self.order[lowest], self.values[lowest]


class MomentsFit:
    """Gathers Moments block by block.

    Parameters
    ----------
    log : bool
        Whether signed logarithms are what is scaled.
    median : bool
    """

    def __init__(self, log: bool = False, median: bool = False) -> None:
        self._log = log
        self._raw, self._scaled = _Spread(), _Spread()
        self._sample = _Sample() if median else None
        self._rows = self._missing = 0
        self._low, self._high = np.inf, -np.inf

    def add(self, values: Float64s) -> None:
        """The next rows; NaN is missing."""
        there = ~np.isnan(values)
        present = values[there]
        if self._sample is not None:
            self._sample.add(present, self._rows + np.flatnonzero(there))
        self._rows += len(values)
        self._missing += len(values) - len(present)
        if not len(present):
            return
        self._low = min(self._low, float(present.min()))
        self._high = max(self._high, float(present.max()))
        self._raw.add(present)
        if self._log:
            self._scaled.add(signed_log(present))

    def finish(self) -> Moments:
        """What was found."""
        if self._rows == self._missing:
            return Moments(self._rows, self._missing, median=None if not self._sample else 0.0)
        scaled = self._scaled if self._log else self._raw
        low, high = self._low, self._high
        # Of equal values rounding would make a spread that is not there.
        constant = low == high
        ends = signed_log(np.array([low])) if self._log else np.array([low])
        return Moments(
            self._rows,
            self._missing,
            low,
            high,
            low if constant else _finite(self._raw.mean),
            None if self._sample is None else _median(self._sample.values),
            float(ends[0]) if constant else _finite(scaled.mean),
            0.0 if constant else _finite(scaled.deviation),
        )
