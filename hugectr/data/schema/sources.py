# SPDX-License-Identifier: Apache-2.0
"""What a schema reads: frames, Arrow data and files, all as tables one after the other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hugectr.base.errors import DataError, InvalidArgument, did_you_mean, rejected
from hugectr.data.parquet_files import (
    open_parquet,
    parquet_files,
    partitions_of,
    way_of_partitions,
)
from hugectr.data.patterns import is_pattern, matches
from hugectr.data.regular_file import open_regular
from hugectr.data.schema.files_in_turn import FilesInTurn
from hugectr.data.schema.frames import from_mapping, from_pandas, is_pandas, pandas_names
from hugectr.data.schema.header_hint import hint_of_names
from hugectr.data.schema.pieces import BLOCK_ROWS
from hugectr.data.schema.text_files import (
    csv_names,
    csv_tables,
    json_names,
    json_tables,
    unpacked_name,
    with_columns,
)
from hugectr.data.sound_columns import sound_table

_ALLOWED = (
    "a pandas or polars DataFrame, Arrow data (Table, RecordBatch, RecordBatchReader, Dataset, "
    "__arrow_c_stream__), a dict of arrays, a list of dicts, or paths of CSV, Parquet or JSON lines"
)

_NO_SERIES = (
    "a DataFrame: of one column series.to_frame(), of one row frame.iloc[[3]], with two brackets"
)

#: Columns that complaints name.
_SHOWN = 12


def _more(names: Sequence[str]) -> str:
    return ", ..." if len(names) > _SHOWN else ""


@dataclass(frozen=True)
class Source:
    """Data with named columns.

    Attributes
    ----------
    what : str
        What it is, for complaints.
    names : list of str
        All its columns.
    tables : callable
        Names of columns to an iterator of tables with these.
    untyped : bool
        Whether columns are text because the format has no types.
    names_in_rows : bool
        Whether each row has its names, so that without rows there are no names.
    hint : str
        Why its names may be none, such as those of a CSV without a line of names.
    files : FilesInTurn or None
        Where it is several files: which rows are in which, as far as they were read.
    """

    what: str
    names: list[str]
    tables: Callable[[Sequence[str]], Iterator[pa.Table]]
    untyped: bool = False
    names_in_rows: bool = False
    hint: str = ""
    files: FilesInTurn | None = None

    def check(self, wanted: Sequence[str], optional: Collection[str] = ()) -> list[str]:
        """Complains about a wanted column that is not there, or there twice.

        Rows that name their values may leave out what is missing, so that of a few rows none may
        have a name: such a name that is ``optional`` is no error, unless there is one like it that
        nobody wants.

        Returns
        -------
        list of str
            Optional names that no row has, when these are of ``names_in_rows``.

        Raises
        ------
        DataError
            With a column of a name like it.
        """
        if not any(self.names):
            raise DataError(f"{self.what} has no columns with a name, or no rows at all")
        there = Counter(self.names)
        for name in wanted:
            if there[name] > 1:
                raise DataError(
                    f"{self.what} has {there[name]} columns {name!r}: rename all but one"
                    f"{self._hinted}"
                )
        absent = [name for name in wanted if name not in there]
        unused = set(there).difference(wanted)
        left_out = [
            name
            for name in absent
            if self.names_in_rows and name in optional and not did_you_mean(name, unused)
        ]
        absent = [name for name in absent if name not in left_out]
        if left_out and len(left_out) == len(wanted):
            absent = left_out
        if absent:
            said = [f"{name!r}{did_you_mean(name, there)}" for name in absent[:_SHOWN]]
            raise DataError(
                f"{self.what} has no column {' and no '.join(said)}{_more(absent)}; it has: "
                f"{', '.join(map(repr, self.names[:_SHOWN]))}{_more(self.names)}. Add what is "
                f"missing (with nulls where it is not known){self._hinted}"
            )
        return left_out

    @property
    def _hinted(self) -> str:
        return f"; {self.hint}" if self.hint else ""


def _of_table(what: str, table: pa.Table) -> Source:
    def tables(names: Sequence[str]) -> Iterator[pa.Table]:
        return iter([sound_table(what, table.select(list(names)))])

    return Source(what, table.column_names, tables)


def _of_pandas(frame: Any) -> Source:
    return Source(
        "the DataFrame",
        pandas_names(frame),
        lambda names: iter([from_pandas(frame, names)]),
    )


def _of_mapping(columns: Mapping[str, Any]) -> Source:
    names = [str(name) for name in columns]
    return Source("the dict", names, lambda wanted: iter([from_mapping(columns, wanted)]))


def _of_records(records: Sequence[Mapping[str, Any]]) -> Source:
    given: dict[str, Any] = {str(name): name for one in records for name in one}

    def tables(wanted: Sequence[str]) -> Iterator[pa.Table]:
        columns = {name: [one.get(given.get(name, name)) for one in records] for name in wanted}
        return iter([from_mapping(columns, wanted)])

    return Source("the list", list(given), tables, names_in_rows=True)


def _of_reader(what: str, reader: pa.RecordBatchReader) -> Source:
    used = False

    def tables(names: Sequence[str]) -> Iterator[pa.Table]:
        nonlocal used
        if used:
            raise InvalidArgument(f"{what} has been read to its end already; make it anew")
        used = True
        try:
            for batch in reader:
                yield sound_table(what, pa.Table.from_batches([batch]).select(list(names)))
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{what} can not be read: {error}") from error

    return Source(what, list(reader.schema.names), tables)


def _of_dataset(dataset: Any) -> Source:
    def tables(names: Sequence[str]) -> Iterator[pa.Table]:
        try:
            for batch in dataset.to_batches(columns=list(names)):
                yield sound_table("the dataset", pa.Table.from_batches([batch]))
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"the dataset can not be read: {error}") from error

    return Source("the dataset", list(dataset.schema.names), tables)


def _of_parquet(source: str) -> Source:
    filesystem, paths, _ = parquet_files(source)
    folders = {name: folder for path in paths for name, folder in partitions_of(path).items()}
    files = FilesInTurn()

    def tables(names: Sequence[str]) -> Iterator[pa.Table]:
        files.begins.clear()
        row = 0
        for path in paths:
            file = open_parquet(filesystem, path)  # closed when it goes: a generator holds no with
            files.begins.append((row, repr(path), None))
            row += file.metadata.num_rows
            Source(repr(path), list(file.schema_arrow.names), tables, hint=hint).check(names)
            try:
                for batch in file.iter_batches(BLOCK_ROWS, columns=list(names)):
                    yield pa.Table.from_batches([batch]).select(list(names))
            except (OSError, pa.ArrowException, ValueError) as error:
                raise DataError(f"{path!r} can not be read: {error}") from error
            file.close()

    with open_parquet(filesystem, paths[0]) as first:
        names = list(first.schema_arrow.names)
    unread = [folder for name, folder in folders.items() if name not in names]
    hint = way_of_partitions(unread) if unread else ""
    several = files if len(paths) > 1 else None
    return Source(repr(source), names, tables, hint=hint, files=several)


def _of_csv(path: str) -> Source:
    names = csv_names(path)
    return Source(
        repr(path), names, lambda names: csv_tables(path, names), True, hint=hint_of_names(names)
    )


def _of_json(path: str) -> Source:
    def tables(names: Sequence[str]) -> Iterator[pa.Table]:
        return (with_columns(table, names) for table in json_tables(path))

    return Source(repr(path), json_names(path), tables, names_in_rows=True)


_CSV = (".csv", ".tsv")
_JSON = (".jsonl", ".ndjson", ".json")


def _is_text(path: str) -> bool:
    return unpacked_name(path).endswith((*_CSV, *_JSON))


def _of_path(path: str) -> Source:
    bare = unpacked_name(path)
    if is_pattern(path):
        found = matches(path)
        # Parquet of folders and hidden files has rules of its own.
        return _of_paths(found) if any(map(_is_text, found)) else _of_parquet(path)
    if _is_text(path) and os.path.isdir(path):
        ending = os.path.splitext(path)[1]
        way = os.path.join(path, f"*{ending}")
        raise DataError(f"{path!r} is a folder: give its files, by a pattern such as {way!r}")
    if bare.endswith(_CSV):
        return _of_csv(path)
    if bare.endswith(_JSON):
        return _of_json(path)
    if os.path.isfile(path) and not bare.endswith((".parquet", ".txt", ".list")):
        with open_regular(path) as file:
            if file.read(4) != b"PAR1":
                raise rejected(
                    "path of data", path, "a file called *.csv, *.tsv, *.jsonl or *.parquet"
                )
    return _of_parquet(path)


def _of_paths(paths: Sequence[str]) -> Source:
    sources = [_of_path(path) for path in paths]
    files = FilesInTurn()

    def tables(names: Sequence[str]) -> Iterator[pa.Table]:
        files.begins.clear()
        row = 0
        for source in sources:
            source.check(names, optional=names)
            files.begins.append((row, source.what, source.files))
            for table in source.tables(names):
                yield table
                row += table.num_rows

    what = f"{sources[0].what} and {len(sources) - 1} more" if sources[1:] else sources[0].what
    untyped = any(source.untyped for source in sources)
    in_rows = all(source.names_in_rows for source in sources)
    return Source(what, sources[0].names, tables, untyped, in_rows, sources[0].hint, files)


def open_source(data: Any) -> Source:
    """Data of any kind as a Source.

    Columns without a name are left out of text files, such as the row numbers that pandas writes
    to CSV.

    Raises
    ------
    InvalidArgument
        When it is of no kind that is known.
    DataError
        When it can not be read.
    """
    if isinstance(data, Source):
        return data
    source = _opened(data)
    if not source.untyped:
        return source
    return replace(source, names=[name for name in source.names if name != ""])


def _odd_columns(data: Any) -> str:
    """Which columns of a frame Arrow does not take, and of what type, where it can be asked."""
    odd = []
    try:
        for name in data.columns:
            try:
                pa.RecordBatchReader.from_stream(data[[name]])
            except (ValueError, pa.ArrowException):
                odd.append(f"{name!r} ({getattr(data[name], 'dtype', 'of a new type')})")
    except (AttributeError, TypeError, KeyError, IndexError):
        return ""
    return f", {', '.join(odd[:_SHOWN])}{_more(odd)}" if odd else ""


def _opened(data: Any) -> Source:
    if isinstance(data, pa.Table):
        return _of_table("the table", data)
    if isinstance(data, pa.RecordBatch):
        return _of_table("the record batch", pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return _of_reader("the reader", data)
    if is_pandas(data):
        return _of_pandas(data)
    if type(data).__name__ == "Series":  # of pandas or polars: a column, or a row in its place
        raise rejected("data", "Series", _NO_SERIES)
    if hasattr(data, "__arrow_c_stream__"):
        what = f"the {type(data).__name__}"
        try:
            return _of_reader(what, pa.RecordBatchReader.from_stream(data))
        except (TypeError, ValueError, pa.ArrowException) as error:  # a column alone, a new type
            raise DataError(
                f"{what} has columns that Arrow does not take{_odd_columns(data)}: {error}; give a "
                "table, and cast them, such as to 64 bits or to text"
            ) from error
    if hasattr(data, "to_batches") and hasattr(data, "schema"):  # pyarrow.dataset.Dataset
        return _of_dataset(data)
    if isinstance(data, Mapping):
        return _of_mapping(data)
    if isinstance(data, str | os.PathLike):
        return _of_path(os.fspath(data))
    if isinstance(data, list | tuple) and data:
        if all(isinstance(one, str | os.PathLike) for one in data):
            return _of_paths([os.fspath(one) for one in data])
        if all(isinstance(one, Mapping) for one in data):
            return _of_records(data)
    hint = "; collect() the LazyFrame" if type(data).__name__ == "LazyFrame" else ""
    raise rejected("data", f"{type(data).__name__}: {data!r:.80}", _ALLOWED + hint)


def first_rows(source: Source, limit: int) -> Source:
    """The source, but for what comes behind so many rows."""

    def tables(names: Sequence[str]) -> Iterator[pa.Table]:
        left = limit
        for table in source.tables(names):
            yield table.slice(0, left)
            left -= table.num_rows
            if left <= 0:
                return

    return replace(source, tables=tables)
