# SPDX-License-Identifier: Apache-2.0
"""Measures of probabilities against labels of 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
#: Probabilities nearer to 0 or 1 than this count as this.
_LEAST = 1e-7


def auc(label: Floats, predicted: Floats, weight: Floats | None = None) -> float:
    """Area under the ROC curve, ties counted half; NaN when no sample of a class counts.

    A pair of a positive and a negative sample counts by the product of their weights.
    """
    positive = label > 0.5
    counts = np.ones(label.size) if weight is None else weight.astype(np.float64)
    values, places = np.unique(predicted, return_inverse=True)
    ones = np.bincount(places[positive], counts[positive], values.size)
    zeros = np.bincount(places[~positive], counts[~positive], values.size)
    pairs = ones.sum() * zeros.sum()
    if pairs == 0:
        return float("nan")
    return float((ones * (np.cumsum(zeros) - zeros / 2.0)).sum() / pairs)


def log_loss(label: Floats, predicted: Floats, weight: Floats | None = None) -> float:
    """Mean of -y log(p) - (1 - y) log(1 - p), in float64."""
    p = np.clip(predicted.astype(np.float64), _LEAST, 1.0 - _LEAST)
    y = label.astype(np.float64)
    return float(-mean(y * np.log(p) + (1.0 - y) * np.log1p(-p), weight))


def mean(values: Floats, weight: Floats | None = None) -> float:
    """Mean in float64, of samples that count by their weights."""
    of = None if weight is None else weight.astype(np.float64)
    return float(np.average(values.astype(np.float64), weights=of))


@dataclass(frozen=True)
class Calibration:
    """Bins of as many samples each, by their prediction.

    Attributes
    ----------
    predicted, observed : list of float
        Mean prediction and share of positive labels of every bin.
    rows : list of int
    error : float
        Mean over all samples of the distance between the two (expected calibration error), by their
        weights as the means of the bins are.
    """

    predicted: list[float]
    observed: list[float]
    rows: list[int]
    error: float


def calibration(
    label: Floats, predicted: Floats, bins: int = 10, weight: Floats | None = None
) -> Calibration:
    """Mean prediction against share of positive labels; equal predictions share a bin.

    Parameters
    ----------
    label, predicted : ndarray, (n,)
    bins : int
    weight : ndarray, (n,), or None
        A bin whose weights are all 0 is left out.
    """
    edges = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, bins + 1))[1:-1])
    places = np.searchsorted(edges, predicted, side="right")
    rows = np.bincount(places, minlength=edges.size + 1)
    counts = np.ones(label.size) if weight is None else weight.astype(np.float64)
    n = np.bincount(places, counts, edges.size + 1)
    kept = n > 0
    sums = np.bincount(places, counts * predicted, edges.size + 1)
    hits = np.bincount(places, counts * label, edges.size + 1)
    p, y, n = sums[kept] / n[kept], hits[kept] / n[kept], n[kept]
    error = float(np.sum(n * np.abs(p - y)) / max(n.sum(), _LEAST))
    return Calibration(p.tolist(), y.tolist(), rows[kept].tolist(), error)
