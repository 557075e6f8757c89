# SPDX-License-Identifier: Apache-2.0
"""Samples held in memory, given to a reader instead of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import rejected
from hugectr.data.given_arrays import given_array, given_floats
from hugectr.data.group import checked_groups

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema

Csr = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]


@dataclass(frozen=True)
class MemoryDataset:
    """Samples in memory, made by ``from_arrays``.

    Parameters
    ----------
    label : ndarray of float32, (n, label_dim)
    dense : ndarray of float32, (n, dense_dim)
    sparse : dict of str to (ndarray of int64, ndarray of uint64)
        For each sparse input all keys, and n * slots + 1 row offsets, sample-major.
    weight : ndarray of float32, (n,), or None
        How much each sample counts, from 0 on; None: each counts 1.
    group : ndarray of int64, (n,), or None
        What samples belong together, such as those of a user: what ``MetricsType.GAUC`` ranks
        within, where ``Input.group_name`` is a label that ``label`` has no column of.
    schema : Schema or None
        What made them of a user's data (``Schema.encode``): a model that trains on them keeps it.
    """

    label: npt.NDArray[np.float32]
    dense: npt.NDArray[np.float32]
    sparse: dict[str, Csr]
    weight: npt.NDArray[np.float32] | None = None
    group: npt.NDArray[np.int64] | None = None
    schema: Schema | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self.label.shape[0])


def one_array_of_rows(name: str, value: Any, samples: int | None = None) -> npt.NDArray[np.float32]:
    """An array of any library as float32 of the host, (samples, columns)."""
    array = given_floats(f"from_arrays: {name}", value)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise rejected(f"from_arrays: {name}", array.shape, "a (samples, columns) array")
    if samples is not None and array.shape[0] != samples:
        raise rejected(f"from_arrays: rows of {name}", array.shape[0], f"{samples}, as label has")
    return array


def _csr(name: str, value: Any, samples: int) -> Csr:
    where = f"from_arrays: sparse[{name!r}]"
    if isinstance(value, tuple):
        if len(value) != 2:
            raise rejected(where, f"a tuple of {len(value)}", "a tuple (keys, row_offsets)")
        keys = given_array(f"{where}: keys", value[0], "place").ravel()
        offsets = given_array(f"{where}: row offsets", value[1], "place").ravel()
    else:
        one_hot = given_array(where, value)
        if one_hot.ndim == 1:
            one_hot = one_hot[:, None]
        if one_hot.ndim != 2 or one_hot.shape[0] != samples:
            raise rejected(
                where, one_hot.shape, f"a ({samples}, slots) array of keys, or (keys, row_offsets)"
            )
        keys, offsets = one_hot.ravel(), np.arange(one_hot.size + 1)
    for what, array in (("keys", keys), ("row offsets", offsets)):
        if array.size and array.dtype.kind not in "iu":
            raise rejected(f"{where}: dtype of {what}", str(array.dtype), "an integer dtype")
    if offsets.size == 0 or offsets[0] != 0 or np.any(offsets[1:] < offsets[:-1]):
        raise rejected(f"{where}: row offsets", offsets, "ascending, from 0")
    if int(offsets[-1]) != keys.size:
        raise rejected(
            f"{where}: last row offset", int(offsets[-1]), f"{keys.size}, the keys given"
        )
    if samples == 0 or (offsets.size - 1) % samples != 0:
        raise rejected(
            f"{where}: row offsets", offsets.size, f"a multiple of {samples} samples, plus 1"
        )
    return (
        np.ascontiguousarray(keys, dtype=np.int64),
        np.ascontiguousarray(offsets, dtype=np.uint64),
    )


def _weights(value: Any, samples: int) -> npt.NDArray[np.float32]:
    weight = one_array_of_rows("weight", value, samples)
    if weight.shape[1] != 1:
        raise rejected("from_arrays: weight", weight.shape, "one number a sample")
    bad = ~((weight >= 0) & np.isfinite(weight)).ravel()
    if bad.any():
        row = int(bad.argmax())
        raise rejected(
            f"from_arrays: weight[{row}]", float(weight[row, 0]), "a finite number from 0 on"
        )
    return weight.ravel()


def from_arrays(
    label: Any, dense: Any, sparse: Mapping[str, Any], *, weight: Any = None, group: Any = None
) -> MemoryDataset:
    """Make a source of samples from arrays.

    Parameters
    ----------
    label : array_like of float, (n,) or (n, label_dim)
        Arrays of any library do (``hugectr.interop.as_view``); those of a GPU are copied to the
        host, where the reader takes its batches from.
    dense : array_like of float or None, (n,) or (n, dense_dim)
        None: no dense features.
    sparse : mapping of str to array_like or tuple
        For each sparse input by name: an integer (n, slots) array with one key a slot, or a tuple
        (keys, row_offsets) with n * slots + 1 offsets, sample-major.
    weight : array_like of float, (n,), or None
        How much each sample counts, from 0 on, in the loss, in batch statistics and in metrics;
        None: each counts 1. The loss of a batch is the weighted sum divided by its samples, not by
        its weights, so that a sample pulls as hard whatever else is in its batch.
    group : array_like of int, (n,), or None
        What samples belong together, such as users: the label ``Input.group_name``, where ``label``
        does not have it.

    Returns
    -------
    MemoryDataset
        Usable as ``source`` and ``eval_source`` of DataReaderParams.

    Raises
    ------
    InvalidArgument
        When sizes or dtypes do not fit together.

    Examples
    --------
    >>> data = from_arrays(label=[0, 1], dense=None, sparse={"ids": [[3, 7], [3, 8]]})
    >>> data.samples
    2
    """
    if not isinstance(sparse, Mapping):
        raise rejected(
            "from_arrays: sparse", sparse, "a dict of keys by sparse input, {} where there is none"
        )
    labels = one_array_of_rows("label", label, None)
    samples = labels.shape[0]
    if samples == 0:
        raise rejected("from_arrays: label", labels.shape, "at least one sample")
    if dense is None:
        dense = np.zeros((samples, 0), dtype=np.float32)
    return MemoryDataset(
        labels,
        one_array_of_rows("dense", dense, samples),
        {name: _csr(name, value, samples) for name, value in sparse.items()},
        None if weight is None else _weights(weight, samples),
        None if group is None else checked_groups("from_arrays: group", group, samples),
    )


def first_samples(data: MemoryDataset, count: int) -> MemoryDataset:
    """The first samples of a dataset, as views; count must not reach beyond its end."""
    sparse = {}
    for name, (keys, offsets) in data.sparse.items():
        slots = (len(offsets) - 1) // data.samples
        rows = offsets[: count * slots + 1]
        sparse[name] = (keys[: int(rows[-1])], rows)
    weight = None if data.weight is None else data.weight[:count]
    group = None if data.group is None else data.group[:count]
    label, dense = data.label[:count], data.dense[:count]
    return MemoryDataset(label, dense, sparse, weight, group, schema=data.schema)
