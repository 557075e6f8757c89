# SPDX-License-Identifier: Apache-2.0
"""Which keys of a hybrid table are frequent, counted in the first batches."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hugectr.spec.enums import CommunicationType
from hugectr.spec.hybrid import HybridEmbeddingParam
from hugectr.spec.solver import Solver

Keys = npt.NDArray[np.int64]
#: Greatest number of a key's type, which marks free places and is no row's key.
_RESERVED = {True: (1 << 63) - 1, False: (1 << 32) - 1}


def least_count(param: HybridEmbeddingParam, solver: Solver, batches: float) -> float:
    """How often a frequent key is there in so many batches, at least.

    Parameters
    ----------
    param : HybridEmbeddingParam
    solver : Solver
    batches : float
        That were counted.
    """
    processes = len(solver.vvgpu)
    if param.communication_type is not CommunicationType.NVLink_SingleNode and processes > 1:
        rates = param.max_all_to_all_bandwidth / max(param.max_all_reduce_bandwidth, 1.0)
        share = processes / (processes - 1)
        return batches * processes * rates * param.efficiency_bandwidth_ratio * share
    own = max(2, solver.batchsize // solver.num_devices)
    return solver.batchsize * batches * math.sqrt(2 * param.p_dup_max / (own * (own - 1)))


def frequent_keys(
    keys: Keys, param: HybridEmbeddingParam, solver: Solver, samples: int, budget: int = 0
) -> Keys:
    """The frequent ones of these keys, ascending.

    At most ``max_num_frequent_categories`` batches of them, and no more than a device may have rows
    of, the most frequent first; of equally frequent ones those with the lesser key. What is no key
    of the model's type is left out: the reader refuses or skips its sample.

    Parameters
    ----------
    keys : ndarray of int64
        Of the first samples.
    param : HybridEmbeddingParam
    solver : Solver
    samples : int
        That the keys are of.
    budget : int
        Rows that a device may have; 0: any number.
    """
    i64 = solver.i64_input_key
    is_key = (keys < _RESERVED[i64]) & (i64 | (keys >= 0))
    found, counts = np.unique(keys[is_key], return_counts=True)
    batches = samples / solver.batchsize
    order = np.lexsort((found, -counts))
    most = param.max_num_frequent_categories * solver.batchsize
    most = min(most, budget) if budget else most
    chosen = order[counts[order] >= least_count(param, solver, batches)][:most]
    return np.sort(found[chosen])
