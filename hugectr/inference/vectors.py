# SPDX-License-Identifier: Apache-2.0
"""Samples as lists of numbers, one table after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import rejected
from hugectr.base.row_keys import check_row_keys
from hugectr.data.given_arrays import given_floats
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.input import Input

Csr = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]


def csr_of_request(
    inputs: Input,
    tables: Sequence[SparseEmbedding],
    dense_feature: Sequence[float],
    embeddingcolumns: Sequence[int],
    row_ptrs: Sequence[int],
) -> tuple[int, npt.NDArray[np.float32], list[Csr]]:
    """What ``InferenceSession.predict`` was given, as the core takes samples.

    Parameters
    ----------
    inputs : Input
    tables : sequence of SparseEmbedding
        Of the model, in its order.
    dense_feature, embeddingcolumns, row_ptrs
        As of ``predict``.

    Returns
    -------
    (int, ndarray of float32 (n, dense_dim), list of (keys, row offsets))
        Number of samples n; the lists in the order of the model's sparse inputs.

    Raises
    ------
    InvalidArgument
        When they do not fit together.
    """
    slots = []
    for table in tables:
        if len(table.bottom_names) != 1:
            raise rejected(
                f"predict: table {table.sparse_embedding_name!r} reads",
                table.bottom_names,
                "one input; hugectr.load and its predict take tables of several",
            )
        param = inputs.sparse_param(table.bottom_names[0])
        assert param is not None, "a graph file was checked"
        slots.append(param.slot_num)
    keys = _whole_numbers("predict: embeddingcolumns", embeddingcolumns)
    offsets = _whole_numbers("predict: row_ptrs", row_ptrs)
    rows = offsets.size - len(tables)
    count = rows // max(sum(slots), 1)
    if rows < 0 or count * sum(slots) != rows:
        allowed = f"for each table samples * slots + 1 numbers; the tables have {slots} slots"
        raise rejected("predict: row_ptrs", f"{offsets.size} numbers", allowed)
    dense = given_floats("predict: dense_feature", dense_feature, "number").reshape(-1)
    dim, says = inputs.dense_dim, "as row_ptrs says"
    if not tables and dim > 0:  # nothing but the features says how many samples there are
        count, says = dense.size // dim, "a model without tables"
    if dense.size != count * dim:
        allowed = f"{dim} for each of {count} samples, {says}"
        raise rejected("predict: dense_feature", f"{dense.size} numbers", allowed)
    of_input: dict[str, Csr] = {}
    first_row = first_key = 0
    for table, width in zip(tables, slots, strict=True):
        own = offsets[first_row : first_row + count * width + 1]
        own = own - own[0]
        if (np.diff(own) < 0).any() or first_key + own[-1] > keys.size:
            allowed = f"offsets that grow, into {keys.size} embeddingcolumns"
            raise rejected(f"predict: row_ptrs of {table.sparse_embedding_name!r}", own, allowed)
        used = keys[first_key : first_key + own[-1]]
        of_input[table.bottom_names[0]] = used, own.astype(np.uint64)
        first_row += count * width + 1
        first_key += int(own[-1])
    if first_key != keys.size:
        allowed = f"{first_key} keys, as row_ptrs says"
        raise rejected("predict: embeddingcolumns", f"{keys.size} keys", allowed)
    nothing = np.zeros(0, np.int64)
    sparse = [
        of_input.get(param.top_name, (nothing, np.zeros(count * param.slot_num + 1, np.uint64)))
        for param in inputs.sparse
    ]
    return count, dense.reshape(count, inputs.dense_dim), sparse


def _whole_numbers(name: str, values: Sequence[int]) -> npt.NDArray[np.int64]:
    """One number after the other, whatever the shape."""
    try:
        flat: Any = np.asanyarray(values).reshape(-1)
    except ValueError:  # lists of several lengths, which no array takes
        flat = values
    return check_row_keys(name, flat)
