# SPDX-License-Identifier: Apache-2.0
"""Parquet files as a source of samples: pyarrow decodes row groups, the core takes their memory.

``hugectr.data.parquet_files`` says which files a source is.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data.columns import Columns
from hugectr.data.decode_room import decode_room
from hugectr.data.parquet_files import (
    open_parquet,
    parquet_files,
    partitions_of,
    way_of_partitions,
)
from hugectr.data.parquet_metadata import METADATA, metadata_of
from hugectr.data.plain_numbers import plain_numbers
from hugectr.data.regular_file import regular_file_size

# Of files written here: what a reading thread decodes, and holds, at a time.
ROW_GROUP_ROWS = 1 << 16
#: Bytes of values that are decoded at a time, whole columns of a row group. What pyarrow holds
#: besides the values, the pages as they are stored, is about as much.
_DECODED_AT_A_TIME = 32 << 20


def columns_of_metadata(source: str, tops: dict[str, int]) -> Columns:
    """The columns that ``_metadata.json`` names, dealt to the sparse inputs in their order.

    Parameters
    ----------
    source : str
        As ``DataReaderParams.source``.
    tops : dict of str to int
        Slots of each sparse input, in order.
    """
    filesystem, _, folder = parquet_files(source)
    names = metadata_of(filesystem, folder)
    if names is None:
        raise InvalidArgument(
            f"source {source!r} has no {METADATA}: say which column is what with "
            "DataReaderParams(columns=hugectr.data.Columns(label=..., dense=..., sparse=...))"
        )
    sparse, rest = {}, names["cats"]
    for top, slots in tops.items():
        sparse[top], rest = rest[:slots], rest[slots:]
    return Columns(names["labels"], names["conts"], sparse)


class ParquetBlocks:
    """Decodes row groups for the core, from any number of its threads.

    Parameters
    ----------
    columns : list of str
        Columns to read; no others are decoded.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._filesystem: pafs.FileSystem = pafs.LocalFileSystem()
        self._files: list[str] = []
        self._blocks: list[tuple[int, int, int]] = []  # file, row group, bytes in memory
        self._sizes: list[tuple[int, int]] = []  # of each file: row groups, rows
        self._open_files = threading.local()
        self._source = ""
        self._opened = 0

    def open(self, source: str) -> tuple[list[str], list[tuple[int, int, int]]]:
        """Files and (file, rows, bytes in memory) of all row groups that are not empty."""
        self._source = source or self._source
        self._filesystem, self._files, _ = parquet_files(self._source)
        self._blocks, self._sizes, rows = [], [], []
        self._opened += 1
        for index, path in enumerate(self._files):
            meta, schema = self._metadata(path)
            for group in range(meta.num_row_groups):
                count = meta.row_group(group).num_rows
                if count < 0:
                    raise DataError(f"{path!r}: row group {group} claims {count} rows")
                if count > 0:
                    stored = meta.row_group(group).total_byte_size
                    size = self._decoded_bytes(schema, count, stored)
                    self._blocks.append((index, group, size))
                    rows.append((index, count, size))
            found = sum(meta.row_group(group).num_rows for group in range(meta.num_row_groups))
            if found != meta.num_rows:
                raise DataError(
                    f"{path!r}: its row groups have {found} rows, the file claims {meta.num_rows}: "
                    "the description at its end is damaged; restore the file"
                )
            self._sizes.append((meta.num_row_groups, meta.num_rows))
        return self._files, rows

    def _decoded_bytes(self, schema: pa.Schema, rows: int, stored: int) -> int:
        """About how much memory a row group takes: its values, or its pages where they are more.

        How many values the lists of a column hold only the column's own description says, and of a
        damaged file pyarrow can not be asked for that: its C++ exception passes through Python. So
        lists count as twice their pages, for keys that are packed by dictionary there.
        """
        width, lists = 0, False
        for name in self._columns:
            kind = schema.types[schema.get_field_index(name)]
            try:
                width += kind.bit_width // 8
            except ValueError:
                lists = True
        return max(rows * width, stored, 0) + (max(stored, 0) if lists else 0)

    def _metadata(self, path: str) -> tuple[pq.FileMetaData, pa.Schema]:
        if isinstance(self._filesystem, pafs.LocalFileSystem) and regular_file_size(path) == 0:
            raise DataError(f"{path!r} is empty, and no Parquet file")
        try:
            with self._filesystem.open_input_file(path) as file:
                found = pq.read_metadata(file)
            schema = found.schema.to_arrow_schema()
            names = Counter(schema.names)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise DataError(f"{path!r} is no readable Parquet file: {error}") from error
        twice = [c for c in self._columns if names[c] > 1]
        if twice:
            raise DataError(
                f"{path!r} has {names[twice[0]]} columns {twice[0]!r}: rename all but one"
            )
        missing = [c for c in self._columns if c not in names]
        if missing:
            some = ", ".join(repr(n) for n in sorted(names)[:8])
            folders = partitions_of(path)
            inside = folders.get(missing[0])
            way = f"; {way_of_partitions([inside])}" if inside else ""
            raise DataError(f"{path!r} has no column {missing[0]!r}; it has: {some}{way}")
        return found, schema

    def _file(self, index: int) -> pq.ParquetFile:
        """This thread's handle; one file is open a thread."""
        current = getattr(self._open_files, "current", None)
        if current is None or current[0] != (self._opened, index):
            path = self._files[index]
            # Without a size of buffers a row group lies there twice: stored, and decoded.
            file = open_parquet(self._filesystem, path, pre_buffer=False, buffer_size=1 << 20)
            self._check_size(index, file.metadata)
            current = ((self._opened, index), file)
            self._open_files.current = current
        return current[1]

    def _check_size(self, index: int, meta: pq.FileMetaData) -> None:
        """A DataError for another file than was opened: of a longer one a part would be read."""
        groups, rows = self._sizes[index]
        if (meta.num_row_groups, meta.num_rows) != (groups, rows):
            raise DataError(
                f"{self._files[index]!r} has {meta.num_rows} rows in {meta.num_row_groups} row "
                f"groups, and had {rows} rows in {groups} when the data was opened: restore the "
                "file, or open the data again (set_source, a new model)"
            )

    def _read(self, file: pq.ParquetFile, group: int, size: int, what: str) -> pa.Table:
        """A row group of about ``size`` bytes, some columns at a time."""
        step = max(1, _DECODED_AT_A_TIME * len(self._columns) // max(size, 1))
        parts = []
        for begin in range(0, len(self._columns), step):
            columns = self._columns[begin : begin + step]
            # A damaged file may claim any size; what is more than this comes from pyarrow's pool,
            # which says so when it has none.
            values = min(size * len(columns) // len(self._columns), 2 * _DECODED_AT_A_TIME)
            with decode_room(values, what):
                read = file.read_row_group(group, columns, use_threads=False)
            parts.append(read.select(columns))  # of "item" pyarrow reads "item.id" too
        if len(parts) == 1:
            return parts[0]
        fields = [field for part in parts for field in part.schema]
        columns = [column for part in parts for column in part.columns]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def read(self, block: int) -> pa.RecordBatch:
        """A row group."""
        index, group, size = self._blocks[block]
        try:
            what = f"row group {group} of {self._files[index]!r}"
            table = self._read(self._file(index), group, size, what)
            batches = table.combine_chunks().to_batches()
            if len(batches) != 1:
                raise DataError(f"{self._files[index]!r}: row group {group} has no rows")
        except (OSError, pa.ArrowException, ValueError) as error:
            self._open_files.current = None
            raise DataError(f"{self._files[index]!r}, row group {group}: {error}") from error
        return plain_numbers(batches[0], f"{self._files[index]!r}, row group {group}")

    def decode(self, block: int, schema: int, array: int) -> None:
        """Export a row group to the addresses of an ArrowSchema and an ArrowArray."""
        self.read(block)._export_to_c(array, schema)
