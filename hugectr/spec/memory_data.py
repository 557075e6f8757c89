# SPDX-License-Identifier: Apache-2.0
"""Data in memory as the core takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hugectr.base.errors import rejected
from hugectr.data.arrays import MemoryDataset

if TYPE_CHECKING:
    from hugectr._core import MemoryData
    from hugectr.spec.input import Input


def memory_data(inputs: Input, where: str, data: MemoryDataset, labels: bool) -> MemoryData:
    """Samples in the order of an input and checked against it; see ``Input.memory_data``."""
    tops = [param.top_name for param in inputs.sparse]
    if labels and data.label.shape[1] != inputs.label_dim:
        raise rejected(f"{where}: label columns", data.label.shape[1], str(inputs.label_dim))
    if data.dense.shape[1] != inputs.dense_dim:
        raise rejected(f"{where}: dense columns", data.dense.shape[1], str(inputs.dense_dim))
    if sorted(data.sparse) != sorted(tops):
        raise rejected(f"{where}: sparse inputs", sorted(data.sparse), f"exactly {sorted(tops)}")
    sparse = []
    for param in inputs.sparse:
        keys, offsets = data.sparse[param.top_name]
        if len(offsets) != data.samples * param.slot_num + 1:
            raise rejected(
                f"{where}: row offsets of {param.top_name!r}",
                len(offsets),
                f"{data.samples} samples * {param.slot_num} slots + 1 of them",
            )
        sparse.append((keys, offsets))
    return {
        "label": data.label,
        "dense": data.dense,
        "sparse": sparse,
        "weight": data.weight,
    }
