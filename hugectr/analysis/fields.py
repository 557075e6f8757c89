# SPDX-License-Identifier: Apache-2.0
"""The fields of samples in memory: which of their numbers belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hugectr.data.arrays import Csr, MemoryDataset

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Feature:
    """A field: columns of ``dense``, or a slot of a sparse input.

    Attributes
    ----------
    name : str
    dense : tuple of int
        Its columns; empty: it has a slot.
    sparse : str
        Name of the sparse input.
    slot : int
    """

    name: str
    dense: tuple[int, ...] = ()
    sparse: str = ""
    slot: int = 0


def features_of(data: MemoryDataset, schema: Schema | None) -> list[Feature]:
    """All fields of samples, in their order; without a schema they have numbers for names."""
    dense_names: Sequence[str] = [f"dense {i}" for i in range(data.dense.shape[1])]
    owner = {name: name for name in dense_names}
    slots: dict[str, Sequence[str]] = {}
    if schema is not None:
        inputs = schema.input_layer()
        dense_names = inputs.dense
        owner = _owners(schema, dense_names)
        slots = {one.name: one.fields for one in inputs.sparse}
    columns: dict[str, list[int]] = {}
    for i, name in enumerate(dense_names):
        columns.setdefault(owner[name], []).append(i)
    found = [Feature(name, dense=tuple(places)) for name, places in columns.items()]
    for sparse, (_, offsets) in data.sparse.items():
        count = (len(offsets) - 1) // max(1, data.samples)
        names = slots.get(sparse) or [f"{sparse} {i}" for i in range(count)]
        found += [Feature(names[i], sparse=sparse, slot=i) for i in range(count)]
    return found


def _owners(schema: Schema, dense_names: Sequence[str]) -> dict[str, str]:
    """Dense feature -> its column of the user's data: "age is missing" is of "age"."""
    names = sorted((field.name for field in schema.fields), key=len, reverse=True)
    return {
        dense: next((n for n in names if dense == n or dense.startswith(f"{n} ")), dense)
        for dense in dense_names
    }


def rows_of(data: MemoryDataset, rows: Ints) -> MemoryDataset:
    """Some of the samples, in the order of ``rows``."""
    sparse = {name: _csr_rows(csr, rows, data.samples) for name, csr in data.sparse.items()}
    weight = None if data.weight is None else data.weight[rows]
    group = None if data.group is None else data.group[rows]
    return MemoryDataset(data.label[rows], data.dense[rows], sparse, weight, group)


def permuted(data: MemoryDataset, feature: Feature, order: Ints) -> MemoryDataset:
    """The samples with one field taken from other samples: sample i has that of ``order[i]``.

    Labels and weights stay where they are.
    """
    if feature.dense:
        dense = data.dense.copy()
        columns = list(feature.dense)
        dense[:, columns] = data.dense[order][:, columns]
        return replace(_plain(data), dense=dense)
    keys, offsets = data.sparse[feature.sparse]
    slots = (len(offsets) - 1) // data.samples
    # Places of (sample, slot) pairs: those of the field come from elsewhere.
    places = np.arange(data.samples * slots).reshape(data.samples, slots)
    places[:, feature.slot] = places[order, feature.slot]
    sparse = {**data.sparse, feature.sparse: _take(keys, offsets, places.ravel())}
    return replace(_plain(data), sparse=sparse)


def _plain(data: MemoryDataset) -> MemoryDataset:
    return MemoryDataset(data.label, data.dense, data.sparse, data.weight, data.group)


def _csr_rows(csr: Csr, rows: Ints, samples: int) -> Csr:
    keys, offsets = csr
    slots = (len(offsets) - 1) // samples
    places = rows[:, None] * slots + np.arange(slots)[None, :]
    return _take(keys, offsets, places.ravel())


def _take(keys: Ints, offsets: npt.NDArray[np.uint64], places: npt.NDArray[Any]) -> Csr:
    """The key lists at some places, one after the other."""
    begins = offsets[:-1].astype(np.int64)[places]
    lengths = np.diff(offsets.astype(np.int64))[places]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    return keys[np.repeat(begins, lengths) + within], ends.astype(np.uint64)


def single_keys(data: MemoryDataset, feature: Feature) -> Ints | None:
    """The key of every sample; None where some sample has none, or several."""
    if feature.dense:
        return None
    keys, offsets = data.sparse[feature.sparse]
    slots = (len(offsets) - 1) // data.samples
    begins = offsets.astype(np.int64)
    places = np.arange(data.samples) * slots + feature.slot
    if not np.all(begins[places + 1] - begins[places] == 1):
        return None
    return keys[begins[places]]
