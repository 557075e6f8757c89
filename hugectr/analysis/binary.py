# SPDX-License-Identifier: Apache-2.0
"""Measures of probabilities against labels of 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
#: Probabilities nearer to 0 or 1 than this count as this.
_LEAST = 1e-7


def auc(label: Floats, predicted: Floats) -> float:
    """Area under the ROC curve, ties counted half; NaN when a class is missing."""
    positive = label > 0.5
    ones = int(positive.sum())
    zeros = positive.size - ones
    if ones == 0 or zeros == 0:
        return float("nan")
    _, inverse, counts = np.unique(predicted, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2.0)[inverse]
    return float((ranks[positive].sum() - ones * (ones + 1) / 2.0) / (ones * zeros))


def log_loss(label: Floats, predicted: Floats) -> float:
    """Mean of -y log(p) - (1 - y) log(1 - p), in float64."""
    p = np.clip(predicted.astype(np.float64), _LEAST, 1.0 - _LEAST)
    y = label.astype(np.float64)
    return float(-np.mean(y * np.log(p) + (1.0 - y) * np.log1p(-p)))


@dataclass(frozen=True)
class Calibration:
    """Bins of as many samples each, by their prediction.

    Attributes
    ----------
    predicted, observed : list of float
        Mean prediction and share of positive labels of every bin.
    rows : list of int
    error : float
        Mean over all samples of the distance between the two (expected calibration error).
    """

    predicted: list[float]
    observed: list[float]
    rows: list[int]
    error: float


def calibration(label: Floats, predicted: Floats, bins: int = 10) -> Calibration:
    """Mean prediction against share of positive labels; equal predictions share a bin.

    Parameters
    ----------
    label, predicted : ndarray, (n,)
    bins : int
    """
    edges = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, bins + 1))[1:-1])
    places = np.searchsorted(edges, predicted, side="right")
    rows = np.bincount(places, minlength=edges.size + 1)
    kept = rows > 0
    sums = np.bincount(places, predicted.astype(np.float64), edges.size + 1)
    hits = np.bincount(places, label.astype(np.float64), edges.size + 1)
    p, y, n = sums[kept] / rows[kept], hits[kept] / rows[kept], rows[kept]
    error = float(np.sum(n * np.abs(p - y)) / max(1, n.sum()))
    return Calibration(p.tolist(), y.tolist(), n.tolist(), error)
