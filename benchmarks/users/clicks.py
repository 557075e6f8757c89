# SPDX-License-Identifier: Apache-2.0
"""Clicks as a user has them in a CSV file: text, gaps, numbers on odd scales, a planted signal.

The logit is the sum of weights of categories, products of hidden vectors of pairs of categorical
columns, bumps and steps of numbers, a number whose effect depends on a category, and what a gap
says by itself. Nothing in it is of the form that one of the compared models has: vectors suit
embeddings, steps suit trees.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

#: Column -> number of categories, exponent of the power law they follow, share of gaps.
CATEGORIES = {
    "site": (2000, 1.1, 0.0),
    "ad": (3000, 1.05, 0.0),
    "advertiser": (200, 1.0, 0.02),
    "device": (300, 1.2, 0.05),
    "city": (800, 1.0, 0.08),
    "segment": (40, 0.6, 0.15),
    "topic": (25, 0.5, 0.0),
    "browser": (8, 1.0, 0.0),
    "weekday": (7, 0.0, 0.0),
}
PAIRS = (("site", "topic"), ("ad", "segment"), ("city", "advertiser"), ("device", "browser"))
_DIM = 3


def _drawn(rng: np.random.Generator, rows: int, size: int, power: float) -> npt.NDArray[np.int64]:
    share = np.arange(1, size + 1, dtype=np.float64) ** -power
    return rng.choice(size, size=rows, p=share / share.sum())


def make(rows: int, seed: int) -> tuple[pa.Table, npt.NDArray[np.float64]]:
    """Rows of clicks, and the logit that each ``clicked`` was drawn from.

    Parameters
    ----------
    rows, seed : int
    """
    rng = np.random.default_rng(seed)
    logit = np.full(rows, -1.7)
    columns: dict[str, pa.Array] = {}
    index: dict[str, npt.NDArray[np.int64]] = {}
    for name, (size, power, gaps) in CATEGORIES.items():
        index[name] = _drawn(rng, rows, size, power)
        logit += rng.normal(0.0, 0.35, size)[index[name]]
        missing = rng.random(rows) < gaps
        logit[missing] += 0.2
        words = np.array([f"{name}-{i * 7919 % 10007:04d}" for i in range(size)], dtype=object)
        columns[name] = pa.array(np.where(missing, None, words[index[name]]), pa.string())
    for one, other in PAIRS:
        left = rng.normal(0.0, 0.6, (CATEGORIES[one][0], _DIM))
        right = rng.normal(0.0, 0.6, (CATEGORIES[other][0], _DIM))
        logit += np.einsum("nd,nd->n", left[index[one]], right[index[other]])
    age = np.clip(rng.normal(38, 14, rows), 14, 90)
    price = rng.lognormal(2.5, 1.3, rows)
    visits = rng.negative_binomial(1, 0.05, rows).astype(np.float64)
    dwell = rng.gamma(2.0, 20.0, rows)
    hour = rng.uniform(0, 24, rows)
    logit += 0.7 * np.exp(-(((age - 30) / 9) ** 2)) - 0.4 * (age > 62)
    logit += np.where(price < 6, 0.5, np.where(price > 60, -0.6, 0.0))
    logit += (
        0.25 * np.log1p(visits) * rng.choice([-1.0, 1.0], CATEGORIES["topic"][0])[index["topic"]]
    )
    logit += 0.4 * np.sin(2 * np.pi * (hour - 15) / 24)
    numbers = {
        "age": age.round(),
        "price": price.round(2),
        "visits": visits,
        "dwell": dwell.round(1),
        "hour": hour.round(2),
    }
    for name, gaps in (("age", 0.12), ("price", 0.03), ("dwell", 0.2)):
        missing = rng.random(rows) < gaps
        logit[missing] -= 0.1
        numbers[name] = np.where(missing, np.nan, numbers[name])
    for name, values in numbers.items():
        columns[name] = pa.array(values, mask=np.isnan(values))
    clicked = rng.random(rows) < 1.0 / (1.0 + np.exp(-logit))
    columns["clicked"] = pa.array(clicked.astype(np.int8))
    return pa.table(columns), logit


def write(path: Path, rows: int, seed: int) -> None:
    """Write rows as CSV."""
    pa.csv.write_csv(make(rows, seed)[0], path)
