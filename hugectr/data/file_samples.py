# SPDX-License-Identifier: Apache-2.0
"""The first samples of a data file as arrays, for predictions of what is in files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import DataError
from hugectr.data.arrays import MemoryDataset
from hugectr.data.columns import prefix_sums
from hugectr.data.inspect_columns import RawShape, Table, read_parquet, read_raw
from hugectr.data.norm_table import norm_table

Keys = npt.NDArray[np.int64]


def first_file_samples(
    source: str,
    form: str,
    label_dim: int,
    dense_dim: int,
    slots: Sequence[tuple[str, int]],
    limit: int,
    *,
    i64: bool = False,
    raw: RawShape | None = None,
    slot_size_array: Sequence[int] = (),
) -> MemoryDataset:
    """Read the first samples of a source.

    Parameters
    ----------
    source : str
        As of ``DataReaderParams``.
    form : {"Norm", "Raw", "Parquet"}
    label_dim, dense_dim : int
    slots : sequence of (str, int)
        Name and number of slots of each sparse input, in the order of the data.
    limit : int
        Samples to read at most.
    i64 : bool
        Norm: keys are int64, else uint32.
    raw : RawShape, optional
        Raw: shape of a sample.
    slot_size_array : sequence of int
        What is added to the keys of a slot is the sum of the sizes of the slots before it.

    Raises
    ------
    DataError
        When the file is damaged or does not hold such samples.
    """
    try:
        table = _table(source, form, limit, i64, raw)
    except ValueError as error:
        raise DataError(str(error)) from None
    wanted = (label_dim, dense_dim, sum(count for _, count in slots))
    found = (len(table.labels), len(table.dense), len(table.keys))
    if found != wanted:
        raise DataError(
            f"{source}: a sample has {found[0]} labels, {found[1]} dense features and {found[2]} "
            f"slots, the model's Input {wanted[0]}, {wanted[1]} and {wanted[2]}"
        )
    keys = _moved(table.keys, slot_size_array)
    sparse, first = {}, 0
    for name, count in slots:
        part = slice(first, first + count)
        sparse[name] = csr_of_slots(table.counts[:, part], keys[part])
        first += count
    dense = table.values[:, label_dim:]
    if raw is not None and not raw.floats:
        dense = np.log1p(dense)
    return MemoryDataset(
        np.ascontiguousarray(table.values[:, :label_dim]), np.ascontiguousarray(dense), sparse
    )


def _table(source: str, form: str, limit: int, i64: bool, raw: RawShape | None) -> Table:
    if form == "Parquet":
        return read_parquet(source, limit)
    if form == "Norm":
        return norm_table(source, 8 if i64 else 4, limit)
    assert raw is not None, "a Raw file says nothing of its shape"
    return read_raw(source, raw, limit)


def _moved(keys: Sequence[Keys], sizes: Sequence[int]) -> list[Keys]:
    offsets = prefix_sums(sizes) or [0] * len(keys)
    if len(offsets) != len(keys):
        raise DataError(f"slot_size_array has {len(offsets)} sizes, the data {len(keys)} slots")
    return [one + offset for one, offset in zip(keys, offsets, strict=True)]


def csr_of_slots(counts: Keys, keys: Sequence[Keys]) -> tuple[Keys, npt.NDArray[np.uint64]]:
    """Keys of some slots in the order of the samples, and their row offsets.

    Parameters
    ----------
    counts : ndarray of int64, (n, slots)
    keys : list of ndarray of int64
        All keys of each slot, in the order of the samples.
    """
    offsets = np.concatenate([[0], np.cumsum(counts.reshape(-1))])
    merged = np.empty(offsets[-1], np.int64)
    starts = offsets[:-1].reshape(counts.shape)
    for slot, of_slot in enumerate(keys):
        count = counts[:, slot]
        before = np.cumsum(count) - count
        inside = np.arange(len(of_slot)) - np.repeat(before, count)
        merged[np.repeat(starts[:, slot], count) + inside] = of_slot
    return merged, offsets.astype(np.uint64)
