# SPDX-License-Identifier: Apache-2.0
"""Rows of a table as samples: what training and prediction read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field as dataclass_field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hugectr.data.arrays import Csr, MemoryDataset
from hugectr.data.schema.counts import Categories
from hugectr.data.schema.fields import (
    CategoricalField,
    DenseField,
    GroupField,
    LabelField,
    ListField,
    TimestampField,
    WeightField,
)
from hugectr.data.schema.fit import DENSE_WAY_OUT, LABEL_WAY_OUT
from hugectr.data.schema.groups import group_ids
from hugectr.data.schema.keys import FieldKeys, category_keys
from hugectr.data.schema.lists import list_keys
from hugectr.data.schema.moments import Moments, signed_log
from hugectr.data.schema.times import cyclic_features, nanoseconds
from hugectr.data.schema.unseen import Unseen
from hugectr.data.schema.values import (
    Float64s,
    as_numbers,
    bad_value,
    one_array,
    without_gaps,
)

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema

Float32s = npt.NDArray[np.float32]
Int64s = npt.NDArray[np.int64]

#: Name of the sparse input of all categorical fields: one slot each, one key a slot.
ONE_HOT = "categories"
_LEAST_SPREAD = 1e-30
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class EncodedData(MemoryDataset):
    """Samples made by ``Schema.encode``: a MemoryDataset, with what else a row has.

    Parameters
    ----------
    label : ndarray of float32, (n, label_dim)
        (n, 0) when encoded without labels.
    dense : ndarray of float32, (n, dense_dim)
    sparse : dict of str to (ndarray of int64, ndarray of uint64)
        As of MemoryDataset: ``"categories"``, and one input for each list.
    weight : ndarray of float32, (n,), or None
        As of MemoryDataset, of the WeightField.
    group : ndarray of int64, (n,), or None
        As of MemoryDataset, of the GroupField.
    timestamps : dict of str to ndarray of int64, (n,)
        Nanoseconds since 1970 in UTC of each timestamp field; -2**63 where it is missing.
    """

    timestamps: dict[str, Int64s] = dataclass_field(default_factory=dict)


def _fill(field: DenseField, moments: Moments) -> float:
    if field.fill == "mean":
        return moments.mean
    if field.fill == "median":
        return moments.median or 0.0
    return float(field.fill)


def _scaling(field: DenseField, moments: Moments) -> tuple[float, float]:
    """What is subtracted, and what then divides."""
    if field.scaling == "none":
        return 0.0, 1.0
    ends = np.array([moments.minimum, moments.maximum])
    low, high = (float(end) for end in (signed_log(ends) if field.log else ends))
    if field.scaling == "standard":
        low, spread = moments.mean_scaled, moments.deviation
    else:
        spread = high - low
    # By less, an ordinary value that comes later would leave float32.
    least = max(_LEAST_SPREAD, 1e-13 * abs(high))
    return low, spread if least < spread < np.inf else 1.0


def _dense(field: DenseField, moments: Moments, values: Float64s, first_row: int) -> Float64s:
    """Filled, logarithm taken, scaled."""
    filled = np.where(np.isnan(values), _fill(field, moments), values)
    result = signed_log(filled) if field.log else filled
    low, divisor = _scaling(field, moments)
    result = (result - low) / divisor
    beyond = ~(np.abs(result) <= _FLOAT32_MAX)
    if beyond.any():
        row = int(beyond.argmax())
        raise bad_value(
            field.name, first_row + row, values[row], "is beyond float32", "use log=True or clip it"
        )
    return result


def _csr(slots: Sequence[tuple[Int64s, Int64s]]) -> Csr:
    """Keys and lengths of each slot, sample after sample."""
    lengths = np.stack([of_slot for _, of_slot in slots], axis=1)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if len(slots) == 1:
        return slots[0][0], offsets.astype(np.uint64)
    keys = np.empty(offsets[-1], np.int64)
    begins = offsets[:-1].reshape(lengths.shape)
    for place, (own, of_slot) in enumerate(slots):
        first = np.cumsum(of_slot) - of_slot
        keys[np.arange(len(own)) + np.repeat(begins[:, place] - first, of_slot)] = own
    return keys, offsets.astype(np.uint64)


class _Block:
    """One table being encoded; every method gives the columns of one kind of field."""

    def __init__(
        self, schema: Schema, table: pa.Table, first_row: int, unseen: Unseen | None
    ) -> None:
        self._schema, self._table, self._first = schema, table, first_row
        self._unseen = unseen
        self.rows = table.num_rows

    def _array(self, name: str) -> pa.Array:
        return one_array(self._table.column(name))

    def labels(self) -> Float32s:
        fields = self._schema.of_kind(LabelField)
        result = np.empty((self.rows, len(fields)), np.float32)
        for place, field in enumerate(fields):
            values = as_numbers(field.name, self._array(field.name), self._first, LABEL_WAY_OUT)
            result[:, place] = without_gaps(field.name, values, self._first, "the label")
        return result

    def weight(self) -> Float32s | None:
        for field in self._schema.of_kind(WeightField):
            way_out = "make the weight a number"
            values = as_numbers(field.name, self._array(field.name), self._first, way_out)
            without_gaps(field.name, values, self._first, "the weight")
            if (values < 0).any():
                row = int((values < 0).argmax())
                raise bad_value(
                    field.name, self._first + row, values[row], "is negative", "drop the row"
                )
            return values.astype(np.float32)
        return None

    def group(self) -> Int64s | None:
        for field in self._schema.of_kind(GroupField):
            array = self._array(field.name)
            return group_ids(field.name, array, self._first, self._schema.seed)
        return None

    def timestamps(self) -> dict[str, Int64s]:
        return {
            field.name: nanoseconds(field, self._array(field.name), self._first)
            for field in self._schema.of_kind(TimestampField)
        }

    def dense(self, times: dict[str, Int64s]) -> Float32s:
        result = np.empty((self.rows, len(self._schema.dense_names)), np.float32)
        place = 0
        for field in self._schema.of_kind(DenseField):
            moments = self._schema.state[field.name]
            assert isinstance(moments, Moments)
            values = as_numbers(field.name, self._array(field.name), self._first, DENSE_WAY_OUT)
            result[:, place] = _dense(field, moments, values, self._first)
            place += 1
            if field.indicator:
                result[:, place] = np.isnan(values)
                place += 1
        for time in self._schema.of_kind(TimestampField):
            features = cyclic_features(time, times[time.name])
            result[:, place : place + features.shape[1]] = features
            place += features.shape[1]
        return result

    def sparse(self) -> dict[str, Csr]:
        result = {}
        one_hot = self._schema.one_hot_fields
        if one_hot:
            keys = np.empty((self.rows, len(one_hot)), np.int64)
            for place, field in enumerate(one_hot):
                keys[:, place] = self._one(field)
            result[ONE_HOT] = (keys.ravel(), np.arange(keys.size + 1, dtype=np.uint64))
        for several in self._schema.of_kind(ListField):
            if several.owner == several.name:
                result[several.name] = _csr([self._listed(several)])
        for target, histories in self._schema.shared.items():
            keys_of_target = self._one(target)
            slots = [(keys_of_target, np.ones(self.rows, np.int64))]
            result[target.name] = _csr([*slots, *map(self._listed, histories)])
        return result

    def _one(self, field: CategoricalField) -> Int64s:
        """The key of every row."""
        state, own = self._categories(field), FieldKeys.of(field.owner, self._schema.seed)
        array = self._array(field.name)
        keys = category_keys(field.name, array, self._first, state.values, own, state.known)
        if self._unseen is not None:
            self._unseen.add(field.name, array, keys, own, state.known, state.values)
        return keys

    def _listed(self, field: ListField) -> tuple[Int64s, Int64s]:
        """Keys of all rows, and the number of them in each."""
        state, own = self._categories(field), FieldKeys.of(field.owner, self._schema.seed)
        return list_keys(
            field,
            self._array(field.name),
            self._first,
            state.values,
            own,
            state.known,
            self._schema.max_length(field),
            self._unseen,
        )

    def _categories(self, field: CategoricalField) -> Categories:
        state = self._schema.state[field.name]
        assert isinstance(state, Categories)
        return state


def encode_table(
    schema: Schema, table: pa.Table, first_row: int, labels: bool, unseen: Unseen | None = None
) -> EncodedData:
    """The rows of a table as samples.

    Parameters
    ----------
    schema : Schema
        Fitted.
    table : pyarrow.Table
    first_row : int
        Number of its first row in all of the data.
    labels : bool
        Whether labels and weights are there and wanted.
    unseen : Unseen, optional
        What counts the categories that are not known.
    """
    block = _Block(schema, table, first_row, unseen)
    times = block.timestamps()
    grouped = all(field.name in table.column_names for field in schema.of_kind(GroupField))
    return EncodedData(
        label=block.labels() if labels else np.zeros((block.rows, 0), np.float32),
        dense=block.dense(times),
        sparse=block.sparse(),
        weight=block.weight() if labels else None,
        group=block.group() if grouped else None,
        timestamps=times,
        schema=schema,
    )


def joined_csr(parts: Sequence[Csr]) -> Csr:
    """Keys and row offsets of samples one after the other."""
    keys = np.concatenate([keys for keys, _ in parts])
    begins = np.cumsum([0, *(len(keys) for keys, _ in parts)], dtype=np.uint64)
    ends = [offsets[1:] + begin for (_, offsets), begin in zip(parts, begins[:-1], strict=True)]
    return keys, np.concatenate([np.zeros(1, np.uint64), *ends])


def joined(parts: Sequence[EncodedData]) -> EncodedData:
    """Samples one after the other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    weights = [part.weight for part in parts if part.weight is not None]
    groups = [part.group for part in parts if part.group is not None]
    return EncodedData(
        label=np.concatenate([part.label for part in parts]),
        dense=np.concatenate([part.dense for part in parts]),
        sparse={name: joined_csr([part.sparse[name] for part in parts]) for name in first.sparse},
        weight=np.concatenate(weights) if weights else None,
        group=np.concatenate(groups) if groups else None,
        timestamps={
            name: np.concatenate([part.timestamps[name] for part in parts])
            for name in first.timestamps
        },
        schema=first.schema,
    )
