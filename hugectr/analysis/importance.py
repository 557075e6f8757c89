# SPDX-License-Identifier: Apache-2.0
"""What each field tells a model: how much worse it predicts without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hugectr.analysis.binary import Floats, auc, log_loss
from hugectr.analysis.fields import Feature, permuted
from hugectr.data.arrays import MemoryDataset

Predict = Callable[[MemoryDataset], Floats]


@dataclass(frozen=True)
class Importance:
    """What is lost without a field.

    Attributes
    ----------
    name : str
    loss, auc : float
        By how much the log loss rises, and the AUC falls.
    """

    name: str
    loss: float
    auc: float


def importance_of(
    predict: Predict,
    data: MemoryDataset,
    features: Sequence[Feature],
    seed: int = 0,
) -> list[Importance]:
    """Permutation importance: every field in turn is given to the wrong samples.

    Parameters
    ----------
    predict : callable
        Samples -> probabilities.
    data : MemoryDataset
        Its first label counts, by its weights.
    features : sequence of Feature
    seed : int
        Of the one permutation that all fields have.

    Returns
    -------
    list of Importance
        Most important first.

    References
    ----------
    Breiman 2001, Random forests; Fisher, Rudin and Dominici 2019.
    """
    label, weight = data.label[:, 0], data.weight
    whole = predict(data)
    loss, area = log_loss(label, whole, weight), auc(label, whole, weight)
    order = np.random.default_rng(seed).permutation(data.samples)
    found = []
    for feature in features:
        without = predict(permuted(data, feature, order))
        rises = log_loss(label, without, weight) - loss
        found.append(Importance(feature.name, rises, area - auc(label, without, weight)))
    return sorted(found, key=lambda one: -one.loss)
