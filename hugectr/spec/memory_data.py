# SPDX-License-Identifier: Apache-2.0
"""Data in memory as the core takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument, rejected
from hugectr.data.arrays import MemoryDataset
from hugectr.data.group import group_column

if TYPE_CHECKING:
    from hugectr._core import MemoryData
    from hugectr.spec.input import Input


def _with_group(inputs: Input, where: str, data: MemoryDataset) -> npt.NDArray[np.float32]:
    """The labels; with a column of the groups at its place where only that is missing."""
    if not inputs.group_name or data.label.shape[1] != inputs.label_dim - 1:
        return data.label
    if data.group is None:
        raise InvalidArgument(
            f"{where}: the data has no group, which is the label {inputs.group_name!r} of the "
            "model: from_arrays(group=), or a schema with a GroupField"
        )
    place = sum(inputs.label_dims[: inputs.label_names.index(inputs.group_name)])
    parts = [data.label[:, :place], group_column(f"{where}: group", data.group)]
    return np.concatenate([*parts, data.label[:, place:]], axis=1)


def memory_data(inputs: Input, where: str, data: MemoryDataset, labels: bool) -> MemoryData:
    """Samples in the order of an input and checked against it; see ``Input.memory_data``."""
    tops = [param.top_name for param in inputs.sparse]
    label = _with_group(inputs, where, data) if labels else data.label
    if labels and label.shape[1] != inputs.label_dim:
        raise rejected(f"{where}: label columns", label.shape[1], str(inputs.label_dim))
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
        "label": label,
        "dense": data.dense,
        "sparse": sparse,
        "weight": data.weight,
    }
