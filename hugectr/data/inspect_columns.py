# SPDX-License-Identifier: Apache-2.0
"""Reading Raw and Parquet data column by column, to look into it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hugectr.base.errors import DataError
from hugectr.data.parquet_files import open_parquet, parquet_files
from hugectr.data.parquet_metadata import METADATA, columns_of_kinds
from hugectr.data.patterns import is_pattern, matches, raw_paths
from hugectr.data.regular_file import open_regular, read_file_list, regular_file_size
from hugectr.data.schema.pieces import joined_tables

_PARQUET = b"PAR1"


@dataclass(frozen=True)
class RawShape:
    """What a Raw file does not say of itself.

    Attributes
    ----------
    label_dim, dense_dim : int
    hotness : tuple of int
        Keys of each slot.
    floats : bool
        Labels and dense features are float32, else int32.
    num_samples : int
        Samples of the file: its size then says whether slots hold one key each, or as many as
        ``hotness`` says. 0: as many as that.
    """

    label_dim: int
    dense_dim: int
    hotness: tuple[int, ...]
    floats: bool = True
    num_samples: int = 0

    def words(self, hotness: tuple[int, ...]) -> int:
        """Numbers of a sample whose slots hold so many keys."""
        return self.label_dim + self.dense_dim + sum(hotness)

    def hotness_in(self, path: str | os.PathLike[str], size: int) -> tuple[int, ...]:
        """Keys of each slot in a file of so many bytes.

        Raises
        ------
        ValueError
            When neither reading makes ``num_samples`` samples.
        """
        one = (1,) * len(self.hotness)
        if self.num_samples == 0 or one == self.hotness:
            return self.hotness
        sizes = [4 * self.words(hotness) for hotness in (one, self.hotness)]
        for hotness, bytes_each in zip((one, self.hotness), sizes, strict=True):
            if size == self.num_samples * bytes_each:
                return hotness
        raise ValueError(
            f"{os.fspath(path)} has {size} bytes; {self.num_samples} samples are of {sizes[0]} "
            f"bytes each with one key a slot, or of {sizes[1]} bytes with the hotness given"
        )


@dataclass
class Table:
    """Rows as the report wants them: labels and dense side by side, keys slot by slot."""

    rows: int
    files: int
    key_type: str
    labels: list[str]
    dense: list[str]
    values: npt.NDArray[np.float32]
    counts: npt.NDArray[np.int64]
    keys: list[npt.NDArray[np.int64]]


def read_raw(path: str | os.PathLike[str], shape: RawShape, limit: int) -> Table:
    """The first rows of Raw data: a file, several on lines of their own, or a pattern."""
    paths = raw_paths(os.fspath(path))
    sizes = [regular_file_size(one) for one in paths]
    size = sum(sizes)
    hotness = shape.hotness_in(path, size)
    words = shape.words(hotness)
    for one, bytes_there in zip(paths, sizes, strict=True):
        if words and bytes_there % (4 * words) == 0:
            continue
        raise ValueError(
            f"{one} has {bytes_there} bytes, which is not a multiple of the {4 * words} of a "
            "sample of this shape: the file is truncated, or the shape is another"
        )
    if size == 0:
        raise ValueError(f"{os.fspath(path)} is empty")
    rows = size // (4 * words)
    parts, left = [], min(rows, limit)
    for one, bytes_there in zip(paths, sizes, strict=True):
        count = min(bytes_there // (4 * words), left)
        with open_regular(one) as file:
            parts.append(np.fromfile(file, "<u4", count=count * words).reshape(-1, words))
        left -= count
    data = np.concatenate(parts)
    width = shape.label_dim + shape.dense_dim
    front = np.ascontiguousarray(data[:, :width])
    values = front.view(np.float32) if shape.floats else front.view(np.int32).astype(np.float32)
    keys, at = [], width
    for nnz in hotness:
        keys.append(data[:, at : at + nnz].reshape(-1).astype(np.int64))
        at += nnz
    counts = np.tile(np.array(hotness, np.int64), (len(data), 1))
    labels = [f"label {i}" for i in range(shape.label_dim)]
    dense = [f"dense {i}" for i in range(shape.dense_dim)]
    return Table(rows, len(paths), "uint32", labels, dense, values, counts, keys)


def is_parquet_source(path: str) -> bool:
    """Whether a path or URL is Parquet data rather than Norm: of several files the first is."""
    if "://" in path:
        return True
    if is_pattern(path):
        path = matches(path)[0]
    begin = _begin(path)
    if begin[:1].isdigit():  # as file lists begin
        with contextlib.suppress(DataError):
            begin = _begin(read_file_list(path)[0])
    return begin == _PARQUET


def _begin(path: str) -> bytes:
    # No other format has folders; what is wrong with a file that is called so its reader says.
    if path.lower().endswith(".parquet") or os.path.isdir(path):
        return _PARQUET
    with open_regular(path) as file:
        return file.read(len(_PARQUET))


def is_of_numbers(path: str) -> bool:
    """Whether Parquet data has what a reader takes: numbers and lists of integers, or a
    ``_metadata.json`` that says what its columns are."""
    filesystem, files, folder = parquet_files(path)
    if columns_of_kinds(filesystem, folder) is not None:
        return True
    try:
        with filesystem.open_input_file(files[0]) as stream:
            schema = pq.read_schema(stream)
    except (OSError, pa.ArrowException):  # which its reader says in more words
        return True
    kinds = [kind.value_type if _is_list(kind) else kind for kind in schema.types]
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return all(any(one(kind) for one in numbers) for kind in kinds)


def _is_list(kind: pa.DataType) -> bool:
    of = pa.types
    return bool(of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind))


def read_parquet(path: str, limit: int) -> Table:
    """The first rows of Parquet data: floats count as labels and dense, integers as keys.

    With a ``_metadata.json`` the columns are what it says. Without, the first column is the label,
    other floating columns are dense, and columns of integers or lists are slots.
    """
    filesystem, files, folder = parquet_files(path)
    tables: list[pa.Table] = []
    rows = read = 0
    for name in files:
        with open_parquet(filesystem, name) as file:
            rows += file.metadata.num_rows
            for group in range(file.metadata.num_row_groups):
                if read >= limit:
                    break
                part = file.read_row_group(group).slice(0, limit - read)
                tables.append(_as_first(name, part, tables))
                read += part.num_rows
    if not tables:
        raise ValueError(f"{path}: the Parquet files have no rows")
    table = joined_tables(tables).combine_chunks()
    kinds = columns_of_kinds(filesystem, folder)
    if kinds is None:
        first, *others = table.column_names
        dense = [n for n in others if pa.types.is_floating(table.schema.field(n).type)]
        kinds = ([first], dense, [n for n in others if n not in dense])
    labels, dense, slots = kinds
    for name in (*labels, *dense, *slots):
        if name not in table.column_names:
            raise ValueError(
                f"{path}: {METADATA} names the column {name!r}, which the files do not have: "
                f"theirs are {table.column_names}"
            )
    floats = [_floats(n, table.column(n)) for n in (*labels, *dense)]
    values = np.stack(floats, axis=1) if floats else np.zeros((read, 0), np.float32)
    counts, keys, wide = [], [], False
    for name in slots:
        count, values_of = keys_of_column(name, table.column(name))
        wide |= table.schema.field(name).type not in (pa.uint32(), pa.int32())
        counts.append(count)
        keys.append(values_of)
    stacked = np.stack(counts, axis=1) if counts else np.zeros((read, 0), np.int64)
    kind = "int64" if wide else "uint32"
    return Table(rows, len(files), kind, list(labels), list(dense), values, stacked, keys)


def _as_first(name: str, part: pa.Table, tables: list[pa.Table]) -> pa.Table:
    """The columns that the first file has, in its order: readers go by names too."""
    wanted = tables[0].column_names if tables else part.column_names
    if part.column_names == wanted:
        return part
    missing = [column for column in wanted if column not in part.column_names]
    if missing:
        raise ValueError(f"{name!r} has no column {missing[0]!r}, as the files before it have")
    return part.select(wanted)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return array.cast(kind, safe=False)
    except pa.ArrowException as error:
        raise ValueError(
            f"column {name!r} is of type {array.type}, not of numbers: leave it out, or encode its "
            "categories first (hugectr.data.Schema reads such files)"
        ) from error


def _floats(name: str, column: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """Numbers of a column, NaN where null."""
    array = _cast(name, _one(column), pa.float32())
    return np.asarray(array.to_numpy(zero_copy_only=False), np.float32)


def keys_of_column(
    name: str, column: pa.ChunkedArray
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Keys a row, and all of them; a null counts as no key."""
    array = _one(column)
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        counts = np.asarray(array.value_lengths().fill_null(0)).astype(np.int64)
        array = array.flatten()
    else:
        counts = np.asarray(array.is_valid()).astype(np.int64)
    values = _cast(name, array.drop_null(), pa.int64())
    return counts, np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
