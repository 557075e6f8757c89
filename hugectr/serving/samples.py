# SPDX-License-Identifier: Apache-2.0
"""Users' data as the samples of a model: encoded by its schema, or arrays as for training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument, rejected
from hugectr.data.arrays import MemoryDataset, from_arrays, one_array_of_rows
from hugectr.spec.input import Input

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema


@dataclass(frozen=True)
class Samples:
    """Samples as the core takes them.

    Attributes
    ----------
    count : int
    label : ndarray of float32, (count, label_dim) or (count, 0)
    dense : ndarray of float32, (count, dense_dim)
    sparse : list of (ndarray of int64, ndarray of uint64)
        Keys and count * slots + 1 row offsets of each sparse input, in the order of the model's.
    weight : ndarray of float32, (count,), or None
        How much each counts in metrics; None: each counts 1.
    """

    count: int
    label: npt.NDArray[np.float32]
    dense: npt.NDArray[np.float32]
    sparse: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]]
    weight: npt.NDArray[np.float32] | None = None


def samples_in_pieces(
    where: str, data: Any, inputs: Input, schema: Schema | None, labels: bool
) -> Iterator[Samples]:
    """The samples of any data, in the pieces that it comes in; none for data without rows.

    Parameters
    ----------
    where : str
        The call, for messages.
    data
        A MemoryDataset or dict of arrays by the names of the model's inputs; with a schema whatever
        ``Schema.encode`` takes.
    inputs : Input
        Of the model.
    schema : Schema or None
    labels : bool
        Whether labels are there and wanted.

    Raises
    ------
    InvalidArgument, DataError
        When the data does not fit the model, or its schema.
    """
    if isinstance(data, MemoryDataset):
        yield _fitting(where, data, inputs, labels)
    elif schema is not None:
        # Here, and below: arrays need neither schema nor pyarrow.
        from hugectr.data.schema.encode_source import encode_all, encode_in_batches

        if labels and inputs.group_name:  # groups are numbered over all of the data
            yield _fitting(where, encode_all(schema, data, labels), inputs, labels)
            return
        for part in encode_in_batches(schema, data, labels, None, may_be_empty=True):
            yield _fitting(where, part, inputs, labels)
    else:
        yield _fitting(where, _of_arrays(where, data, inputs, labels), inputs, labels)


def _fitting(where: str, data: MemoryDataset, inputs: Input, labels: bool) -> Samples:
    """Checked against the model's inputs."""
    found = inputs.memory_data(where, data, labels)
    return Samples(data.samples, found["label"], found["dense"], found["sparse"], data.weight)


def _of_arrays(where: str, data: Any, inputs: Input, labels: bool) -> MemoryDataset:
    names = [param.top_name for param in inputs.sparse]
    if not isinstance(data, Mapping):
        raise rejected(
            f"{where}: data",
            type(data).__name__,
            "what hugectr.data.from_arrays returns, or a dict of arrays by the names of the "
            "model's inputs: the model was trained without a schema, which would read other data "
            "(train it on what Schema.encode gives, or set Model.schema)",
        )
    needed = [*([inputs.dense_name] if inputs.dense_dim else []), *names]
    needed += inputs.label_names if labels else []
    missing = [name for name in needed if name not in data]
    if missing:
        raise rejected(f"{where}: arrays", sorted(map(str, data)), f"a dict with {missing}")
    count = _rows(data[needed[0]], needed[0], inputs)
    sparse = {name: data[name] for name in names}
    if count == 0:
        return _nothing(inputs)
    label = _labels(data, inputs) if labels else np.zeros((count, 0), np.float32)
    return from_arrays(label, data[inputs.dense_name] if inputs.dense_dim else None, sparse)


def _labels(data: Mapping[str, Any], inputs: Input) -> Any:
    """The labels side by side."""
    if len(inputs.label_names) == 1:
        return data[inputs.label_name]
    columns = []
    for name, dim in zip(inputs.label_names, inputs.label_dims, strict=True):
        columns.append(one_array_of_rows(name, data[name]))
        if columns[-1].shape[1] != dim:
            raise rejected(f"array {name!r}", columns[-1].shape, f"{dim} columns")
    return np.concatenate(columns, axis=1)


def _rows(value: Any, name: str, inputs: Input) -> int:
    """Samples that an array of an input has."""
    if isinstance(value, tuple):
        param = inputs.sparse_param(name)
        slots = param.slot_num if param else 1
        return max(len(value[1]) - 1, 0) // slots
    try:
        return len(value)
    except TypeError:
        raise InvalidArgument(f"array {name!r} is {value!r:.60}, not an array") from None


def _nothing(inputs: Input) -> MemoryDataset:
    empty = (np.zeros(0, np.int64), np.zeros(1, np.uint64))
    return MemoryDataset(
        np.zeros((0, inputs.label_dim), np.float32),
        np.zeros((0, inputs.dense_dim), np.float32),
        {param.top_name: empty for param in inputs.sparse},
    )


def joined(outputs: Iterable[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    """Outputs of pieces, one after the other."""
    found = list(outputs)
    if not found:
        return np.zeros(0, np.float32)
    return found[0] if len(found) == 1 else np.concatenate(found)


def whole(pieces: Iterable[Samples]) -> Samples:
    """All pieces as one, which metrics need.

    Raises
    ------
    InvalidArgument
        When there is no sample.
    """
    found = [piece for piece in pieces if piece.count]
    if not found:
        raise InvalidArgument("evaluate: the data has no rows; metrics need at least one")
    if len(found) == 1:
        return found[0]
    from hugectr.data.schema.encode import joined_csr

    return Samples(
        sum(piece.count for piece in found),
        np.concatenate([piece.label for piece in found]),
        np.concatenate([piece.dense for piece in found]),
        [
            joined_csr([piece.sparse[place] for piece in found])
            for place in range(len(found[0].sparse))
        ],
        _weights(found),
    )


def _weights(pieces: Sequence[Samples]) -> npt.NDArray[np.float32] | None:
    if all(piece.weight is None for piece in pieces):
        return None
    ones = [np.ones(piece.count, np.float32) for piece in pieces]
    return np.concatenate(
        [one if p.weight is None else p.weight for p, one in zip(pieces, ones, strict=True)]
    )
