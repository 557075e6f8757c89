# SPDX-License-Identifier: Apache-2.0
"""Training data from pandas, polars or Arrow tables, without files in between."""

from __future__ import annotations

import hashlib
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hugectr.base.arguments import check_str
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.data.columns import Columns
from hugectr.data.sound_columns import sound_table
from hugectr.data.table_dataset import TableDataset


def from_arrow(
    table: pa.Table,
    *,
    label: str | Sequence[str],
    dense: str | Sequence[str] = (),
    sparse: Mapping[str, Sequence[str]] | None = None,
    sequences: str | Sequence[str] = (),
) -> TableDataset:
    """Make a source of samples from an Arrow table, keys as they are.

    Parameters
    ----------
    table : pyarrow.Table or RecordBatch
        Not copied; it must not change while it is read.
    label, dense : str or sequence of str
        Columns of numbers.
    sparse : mapping of str to sequence of str
        For each sparse input the columns of its slots: integers or lists of integers, used as keys
        unchanged. Keys of different slots are different categories only if their numbers differ;
        ``from_frame`` takes care of that.
    sequences : str or sequence of str
        As of ``Columns``: columns whose last keys count where there are more than ``nnz_per_slot``.

    Returns
    -------
    TableDataset
        Usable as ``source`` and ``eval_source`` of DataReaderParams.

    Raises
    ------
    InvalidArgument
        When a column is missing.
    DataError
        When a column is damaged, such as by offsets that lead out of it.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise rejected("from_arrow: table", type(table).__name__, "a pyarrow Table or RecordBatch")
    columns = Columns(label, dense, {} if sparse is None else sparse, sequences)
    _check_unique("from_arrow", table, columns)
    for name in columns.all:
        if name not in table.column_names:
            raise rejected(f"from_arrow: column {name!r}", table.column_names, "a table with it")
    return TableDataset(sound_table("from_arrow", table, columns.all), columns)


def _check_unique(where: str, table: pa.Table, columns: Columns) -> None:
    names = Counter(table.column_names)
    for name in columns.all:
        if names[name] > 1:
            raise InvalidArgument(
                f"{where}: the table has {names[name]} columns {name!r}: rename all but one"
            )


def _to_table(frame: Any) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    if type(frame).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(frame, preserve_index=False)
    if isinstance(frame, Mapping):
        return pa.table(dict(frame))
    raise rejected(
        "from_frame: frame", type(frame).__name__, "a pandas, polars or Arrow table, or a dict"
    )


def _hash_strings(column: str, values: Sequence[str | bytes]) -> npt.NDArray[np.int64]:
    """Keys of categories that are text; stable across runs and machines."""
    seed = hashlib.blake2b(column.encode(), digest_size=16).digest()
    keys = np.empty(len(values), np.int64)
    for i, value in enumerate(values):
        raw = value.encode() if isinstance(value, str) else value
        digest = hashlib.blake2b(raw, digest_size=8, key=seed).digest()
        keys[i] = int.from_bytes(digest, "little") >> 1
    return keys


def _hash_integers(column: str, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Keys of categories that are integers: splitmix64 of the value and the column's name."""
    seed = np.uint64(
        int.from_bytes(hashlib.blake2b(column.encode(), digest_size=8).digest(), "little")
    )
    with np.errstate(over="ignore"):
        z = values.astype(np.int64).view(np.uint64) + seed
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(1)).view(np.int64)


def key_of(column: str, value: str | bytes | int) -> int:
    """The key that ``from_frame`` gives a category.

    Parameters
    ----------
    column : str
        Name of the column.
    value : str, bytes or int
        The category.

    Returns
    -------
    int
        From 0 to 2**63 - 1; the same on every machine and in every run.

    Raises
    ------
    InvalidArgument
        When the category is of another type, or an integer of more than 64 bits.
    """
    column = check_str("key_of: column", column)
    if isinstance(value, str):
        value = check_str("key_of: value", value).encode()
    if isinstance(value, bytes):
        return int(_hash_strings(column, [value])[0])
    number: Any = value  # a type checker has seen to it that it is one
    if not isinstance(number, numbers.Integral | np.bool_) or not -(2**63) <= int(number) < 2**64:
        raise rejected("key_of: value", number, "text, bytes, or an integer of 64 bits")
    return int(_hash_integers(column, np.array([int(number)]))[0])


def _encode(name: str, values: pa.ChunkedArray | pa.Array, salt: str) -> pa.Array:
    """A column of categories, or of lists of them, as the keys that they have in column ``salt``.

    Null becomes a slot without keys.
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):  # an empty table, or one too large for one chunk
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        array = array.cast(pa.list_(kind.value_type))
        kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        flat = array.flatten()
        if flat.null_count:
            raise InvalidArgument(f"from_frame: column {name!r} has a null inside a list; drop it")
        flat = _encode(name, flat, salt)
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), flat)
    if array.null_count:
        lengths = np.asarray(array.is_valid()).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        flat = _encode(name, array.drop_null(), salt)
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), flat)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        numbers = array.cast(pa.int64(), safe=not pa.types.is_uint64(kind))
        return pa.array(_hash_integers(salt, numbers.to_numpy(zero_copy_only=False)))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        encoded = array.dictionary_encode()
        keys = _hash_strings(salt, encoded.dictionary.to_pylist())
        return pa.array(keys[np.asarray(encoded.indices)])
    raise rejected(
        f"from_frame: column {name!r}", str(kind), "categories: integers, text, or lists of them"
    )


def _inputs(
    name: str, categorical: Sequence[str], owners: Mapping[str, str | None]
) -> dict[str, list[str]]:
    """The columns of each sparse input: those without an order, then targets with histories."""
    for column, target in owners.items():
        if target in owners or column in categorical:
            found = f"{target!r}, a sequence" if target in owners else "in categorical too"
            allowed = "a column of lists, and a column without an order"
            raise rejected(f"from_frame: sequences[{column!r}]", found, allowed)
    alone = [column for column in categorical if column not in owners.values()]
    found_inputs = {name: alone} if alone else {}
    for column, target in owners.items():
        if target is None:
            found_inputs[column] = [column]
        else:
            found_inputs.setdefault(target, [target]).append(column)
    return found_inputs


def from_frame(
    frame: Any,
    *,
    label: str | Sequence[str],
    dense: str | Sequence[str] = (),
    categorical: Sequence[str] = (),
    name: str = "categories",
    sequences: Mapping[str, str | None] | Sequence[str] = (),
) -> TableDataset:
    """Make a source of samples from a pandas, polars or Arrow table.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table or dict of arrays
        The samples.
    label, dense : str or sequence of str
        Columns of numbers. Missing values are an error: fill them first.
    categorical : sequence of str
        One column a slot: integers, text, or lists of them. Every (column, category) becomes a key
        of its own (see ``key_of``), so columns may use the same numbers. Missing: no key.
    name : str
        Name of their sparse input: the bottom of a SparseEmbedding.
    sequences : mapping of str to (str or None), or sequence of str
        Columns of lists in an order, oldest first, and the column that each is the history of, as
        of ``Schema.infer``. A column and its histories have an input of their own of that name, the
        column first, and share their keys (``key_of`` of the column); a sequence of nothing has one
        of its own name. Where a list is longer than ``nnz_per_slot``, its last keys count.

    Returns
    -------
    TableDataset
        Usable as ``source`` and ``eval_source`` of DataReaderParams. Its keys are int64: build the
        solver with ``i64_input_key=True``.

    Raises
    ------
    InvalidArgument
        When a column is missing or has a type that can not be what it is said to be.
    DataError
        When a column is damaged, such as by offsets that lead out of it.

    Examples
    --------
    >>> frame = {"click": [0, 1], "age": [31.0, 25.0], "city": ["Rome", "Oslo"], "tags": [[1], [2]]}
    >>> data = from_frame(frame, label="click", dense="age", categorical=["city", "tags"])
    >>> data.samples
    2
    """
    table = _to_table(frame)
    owners = dict(sequences) if isinstance(sequences, Mapping) else dict.fromkeys(sequences)
    columns = Columns(label, dense, _inputs(name, categorical, owners), tuple(owners))
    slots = {column for of_input in columns.sparse.values() for column in of_input}
    twice = slots & {*columns.label, *columns.dense}
    if twice:
        raise rejected(
            f"from_frame: column {min(twice)!r}", "both a number and a category", "one of the two"
        )
    _check_unique("from_frame", table, columns)
    for column in columns.all:
        if column not in table.column_names:
            raise rejected(f"from_frame: column {column!r}", table.column_names, "a frame with it")
    sound_table("from_frame", table, columns.all)
    arrays: dict[str, pa.Array | pa.ChunkedArray] = {}
    for column in (*columns.label, *columns.dense):
        values = table.column(column)
        if values.null_count:
            raise InvalidArgument(
                f"from_frame: column {column!r} has {values.null_count} missing values; fill or "
                "drop them"
            )
        try:
            arrays[column] = values.cast(pa.float32(), safe=False)
        except pa.ArrowException as error:
            raise InvalidArgument(
                f"from_frame: column {column!r} is of type {values.type} and not all of it are "
                f"numbers ({error}); correct it, or name it in categorical"
            ) from error
    for column in slots:
        arrays[column] = _encode(column, table.column(column), owners.get(column) or column)
    return TableDataset(pa.table(arrays), columns)
