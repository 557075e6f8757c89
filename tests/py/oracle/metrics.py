# SPDX-License-Identifier: Apache-2.0
"""Metrics of log-odds and labels in float64."""

import numpy as np
import numpy.typing as npt
from oracle.activations import binary_cross_entropy, sigmoid

Array = npt.NDArray[np.float64]


def log_loss(scores: Array, labels: Array, weights: Array) -> float:
    """Weighted mean of the binary cross-entropy."""
    return float(weights @ binary_cross_entropy(scores, labels) / weights.sum())


def hit_rate(predictions: Array, labels: Array, weights: Array) -> float:
    """Positives among those predicted above 0.8."""
    chosen = weights * (predictions > np.float32(0.8))
    return float(chosen @ (labels > 0.5) / chosen.sum())


def smape(predictions: Array, labels: Array, weights: Array) -> float:
    """Mean of |p - y| / ((|p| + |y|) / 2), 0 where both are 0."""
    size = (np.abs(predictions) + np.abs(labels)) / 2
    each = np.abs(predictions - labels) / np.where(size > 0, size, 1)
    return float(weights @ each / weights.sum())


def mse(predictions: Array, labels: Array, weights: Array) -> float:
    """Weighted mean of squared errors."""
    return float(weights @ (predictions - labels) ** 2 / weights.sum())


def ndcg(scores: Array, labels: Array, weights: Array) -> float:
    """All samples as one list; equal scores each have the mean discount of their places."""
    kept = weights != 0
    gains, scores = (weights * labels)[kept], scores[kept]
    discounts = 1 / np.log2(np.arange(len(gains)) + 2)
    places = np.array(
        [
            discounts[(scores > s).sum() : (scores > s).sum() + (scores == s).sum()].mean()
            for s in scores
        ]
    )
    return float(gains @ places / (np.sort(gains)[::-1] @ discounts))


def auc_by_pairs(scores: Array, labels: Array, weights: Array) -> float:
    """Share of (positive, negative) pairs in the right order, ties half; NaN without a pair."""
    p, n = labels > 0.5, labels <= 0.5
    above = scores[p][:, None] - scores[n]
    pairs = weights[p][:, None] * weights[n]
    total = pairs.sum()
    wins = ((above > 0) + 0.5 * (above == 0)).ravel() @ pairs.ravel()
    return float(wins / total) if total > 0 else float("nan")


def gauc(scores: Array, labels: Array, weights: Array, groups: Array) -> float:
    """AUC by group, weighted by the weight of its samples; groups of one class left out."""
    total, size = 0.0, 0.0
    for group in np.unique(groups):
        own = groups == group
        value = auc_by_pairs(scores[own], labels[own], weights[own])
        if not np.isnan(value):
            total += value * weights[own].sum()
            size += weights[own].sum()
    return float(total / size)


def calibration(scores: Array, labels: Array, weights: Array) -> float:
    """Mean prediction / mean label."""
    return float(weights @ sigmoid(scores) / (weights @ labels))
