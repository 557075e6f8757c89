# SPDX-License-Identifier: Apache-2.0
"""Settings of the hybrid embedding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from hugectr.base.arguments import check_bool, check_enum, check_float, check_int
from hugectr.base.keywords import named_keywords
from hugectr.spec.enums import CommunicationType, HybridEmbeddingType


@named_keywords("HybridEmbeddingParam")
@dataclass(frozen=True)
class HybridEmbeddingParam:
    """Which categories v3's hybrid embedding calls frequent, and how their vectors travel.

    A table of ``placement="hybrid"`` whose frequent keys are not given counts those of
    ``num_iterations_statistics`` batches. A key is frequent that is there at least
    batchsize * batches * sqrt(2 * p_dup_max / (b * (b - 1))) times, b samples a device, so that an
    infrequent one is hardly ever twice in a device's batch; with another ``communication_type``
    than NVLink_SingleNode and several processes at least batches * P / (P - 1) * P * all-to-all /
    all-reduce bandwidth * efficiency_bandwidth_ratio times, P processes. The others
    (max_num_infrequent_samples, precomputed indices, hybrid_embedding_type) change nothing.

    Parameters
    ----------
    max_num_frequent_categories : int
        In units of the batch size.
    max_num_infrequent_samples : int
        -1: as many as there are.
    p_dup_max : float
        Largest probability, 0 to 1, that an infrequent category is twice in a device's batch.
    max_all_reduce_bandwidth, max_all_to_all_bandwidth : float
        Bytes a second.
    efficiency_bandwidth_ratio : float
    use_train_precompute_indices, use_eval_precompute_indices : bool
    communication_type : CommunicationType
    hybrid_embedding_type : HybridEmbeddingType
    """

    max_num_frequent_categories: int = 1
    max_num_infrequent_samples: int = -1
    p_dup_max: float = 0.01
    max_all_reduce_bandwidth: float = 1.3e11
    max_all_to_all_bandwidth: float = 1.9e11
    efficiency_bandwidth_ratio: float = 1.0
    use_train_precompute_indices: bool = False
    use_eval_precompute_indices: bool = False
    communication_type: CommunicationType = CommunicationType.NVLink_SingleNode
    hybrid_embedding_type: HybridEmbeddingType = HybridEmbeddingType.Distributed

    def __post_init__(self) -> None:
        where = "HybridEmbeddingParam: "

        def keep(name: str, check: Callable[..., Any], *bounds: float) -> None:
            # Python's own numbers, which JSON has.
            object.__setattr__(self, name, check(where + name, getattr(self, name), *bounds))

        keep("max_num_frequent_categories", check_int, 0)
        keep("max_num_infrequent_samples", check_int, -1)
        keep("p_dup_max", check_float, 0.0, 1.0)
        for name in (
            "max_all_reduce_bandwidth",
            "max_all_to_all_bandwidth",
            "efficiency_bandwidth_ratio",
        ):
            keep(name, check_float, 0.0)
        for name in ("use_train_precompute_indices", "use_eval_precompute_indices"):
            keep(name, check_bool)
        check_enum(where + "communication_type", self.communication_type, CommunicationType)
        check_enum(where + "hybrid_embedding_type", self.hybrid_embedding_type, HybridEmbeddingType)

    def to_json(self) -> dict[str, Any]:
        """The settings as they stand in ``sparse_embedding_hparam``."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {
            name: value.name if isinstance(value, Enum) else value for name, value in values.items()
        }
