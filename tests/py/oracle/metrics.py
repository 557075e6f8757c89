# SPDX-License-Identifier: Apache-2.0
"""Metrics of log-odds and labels in float64."""

import numpy as np
import numpy.typing as npt
from oracle.activations import binary_cross_entropy, sigmoid

Array = npt.NDArray[np.float64]


def log_loss(scores: Array, labels: Array, weights: Array) -> float:
    """Weighted mean of the binary cross-entropy."""
    return float(weights @ binary_cross_entropy(scores, labels) / weights.sum())


def calibration(scores: Array, labels: Array, weights: Array) -> float:
    """Mean prediction / mean label."""
    return float(weights @ sigmoid(scores) / (weights @ labels))
