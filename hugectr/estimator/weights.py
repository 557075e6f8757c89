# SPDX-License-Identifier: Apache-2.0
"""Weights of samples, from several sides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hugectr.data.schema import EncodedData

Floats = npt.NDArray[np.float32]


def product(one: Floats | None, other: Floats | None) -> Floats | None:
    """Weights of two kinds together."""
    if one is None or other is None:
        return other if one is None else one
    return one * other


def weighed(
    data: EncodedData, weight: Floats | None, rows: npt.NDArray[np.bool_] | None = None
) -> EncodedData:
    """Samples with these weights, of the chosen rows, besides their own."""
    if weight is None:
        return data
    return replace(data, weight=product(weight if rows is None else weight[rows], data.weight))


def of_mean_one(data: EncodedData) -> EncodedData:
    """Samples whose weights are divided by their mean.

    They say how much rows count beside each other. Their sum must not decide how large gradients
    are beside the optimizer's epsilon and the penalties: with weights that sum to 1, as many have
    them, nothing would be learnt.
    """
    if data.weight is None or not (mean := data.weight.mean(dtype=np.float64)):
        return data
    return replace(data, weight=(data.weight / mean).astype(np.float32))
