# SPDX-License-Identifier: Apache-2.0
"""How good predictions are on parts of the data: the samples of one category each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hugectr.analysis.binary import Floats, auc, mean
from hugectr.analysis.fields import Feature, single_keys
from hugectr.data.arrays import MemoryDataset


@dataclass(frozen=True)
class Slice:
    """The samples of one category.

    Attributes
    ----------
    feature : Feature
    key : int
    rows : int
    auc, predicted, observed : float
        AUC among them; mean prediction; share of positive labels: by their weights.
    """

    feature: Feature
    key: int
    rows: int
    auc: float
    predicted: float
    observed: float


def slices_of(
    data: MemoryDataset,
    features: Sequence[Feature],
    label: Floats,
    predicted: Floats,
    least_rows: int = 100,
    most_each: int = 12,
) -> list[Slice]:
    """Slices by category, the most frequent ones of each field; those with both labels.

    Parameters
    ----------
    data : MemoryDataset
        Its weights count.
    features : sequence of Feature
        Those without one key in every sample are passed over.
    label, predicted : ndarray, (n,)
    least_rows : int
        Fewer tell nothing.
    most_each : int
        Slices of a field.
    """
    found = []
    for feature in features:
        keys = single_keys(data, feature)
        if keys is None:
            continue
        values, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:most_each]
        for i in frequent[counts[frequent] >= least_rows]:
            rows = inverse == i
            weight = None if data.weight is None else data.weight[rows]
            area = auc(label[rows], predicted[rows], weight)
            if math.isnan(area):
                continue
            found.append(
                Slice(
                    feature,
                    int(values[i]),
                    int(counts[i]),
                    area,
                    mean(predicted[rows], weight),
                    mean(label[rows], weight),
                )
            )
    return found
