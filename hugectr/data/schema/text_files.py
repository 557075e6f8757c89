# SPDX-License-Identifier: Apache-2.0
"""CSV and JSON lines as tables, block by block.

Columns of CSV are read as text: what a value means its field says, so that it does not depend on
which block of a file a row is in.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hugectr.base.errors import DataError
from hugectr.base.printable import printable
from hugectr.data.regular_file import open_regular
from hugectr.data.schema.json_cells import too_many_cells
from hugectr.data.schema.json_depth import nests_deeper
from hugectr.data.schema.json_null import has_null_object
from hugectr.data.schema.text_places import (
    Scan,
    find_in_json,
    is_utf8,
    lines_of,
    recoding,
    scan_csv,
)

#: What stands for a missing value in CSV, unless it is in quotes.
NULLS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>")
_BLOCK_BYTES = 16 << 20
_LONGEST_LINE = 256 << 20
#: Levels of objects and lists in JSON: Arrow calls itself for each until its stack ends.
_DEEPEST = 64
#: Of a file at most, to see how its first line is written.
_HEADER_BYTES = 1 << 20
_QUOTED = re.compile(rb'"[^"]*"')
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}


def unpacked_name(path: str) -> str:
    """A path as its ending is looked at: in small letters, without that of what packed it."""
    return path.lower().removesuffix(".gz").removesuffix(".zst")


def _open(path: str) -> pa.NativeFile:
    """The file, unpacked, read by Arrow itself.

    Arrow's threads may still read ahead when the program ends, and a thread that then calls Python
    ends the process with SIGABRT: so they never get a file of Python's.
    """
    with open_regular(path) as file:  # what it leads to, whatever the name leads to later
        opened = pa.OSFile(f"/proc/self/fd/{file.fileno()}")
    compression = _COMPRESSED.get(os.path.splitext(path.lower())[1])
    return pa.CompressedInputStream(opened, compression) if compression else opened


_WAY_OF_COMMAS = "; each line needs a value a name, text with commas quotes"
#: What Arrow says, and what to do about it.
_WAYS_OUT = (
    ("straddl", f"; is a quote not closed, or a line longer than {_BLOCK_BYTES >> 20} MiB?"),
    ("invalid UTF8", "; save it as UTF-8 (iconv -f LATIN1 -t UTF-8)"),
    ("from object to array", "; give an object a line (jq -c '.[]' makes them of an array)"),
    ("CSV parse error: Expected", _WAY_OF_COMMAS),
)
_SHOWN_BYTES = 80
_ROW = re.compile(r"in row (\d+)")
#: Characters of Arrow's words, which have what stands in the file.
_MOST_WORDS = 300


#: First bytes of files that are no text.
_PACKED = {
    b"\x1f\x8b": "packed by gzip: call it {name}.gz",
    b"\x28\xb5\x2f\xfd": "packed by zstd: call it {name}.zst",
    b"PK\x03\x04": "a zip file or a spreadsheet: unpack it, or save it as CSV",
    b"BZh": "packed by bzip2: unpack it",
    b"\xfd7zXZ": "packed by xz: unpack it",
}


def _damaged(path: str, error: Exception) -> DataError:
    said = str(error)
    ways_out = "".join(way for words, way in _WAYS_OUT if words in said)
    shown = printable(said)
    if len(shown) > _MOST_WORDS:
        shown = shown[: _MOST_WORDS - 3] + "..."
    return DataError(f"{path!r} can not be read: {shown}{ways_out}")


def _pieces(path: str) -> Iterator[bytes]:
    """A text file, unpacked, piece by piece."""
    file = _open(path)  # closed when it goes: a generator holds no `with`
    while piece := file.read(_BLOCK_BYTES):
        yield bytes(piece)
    file.close()


def _scan(path: str, names: Sequence[str] | None) -> Scan:
    """What is wrong with which line of a CSV file, as far as reading it again tells."""
    try:
        lines = lines_of(_pieces(path), _BLOCK_BYTES)
        return scan_csv(lines, _delimiter(path), names, _BLOCK_BYTES)
    except (OSError, pa.ArrowException):  # damage that is not in its text
        return Scan(0, 0)


def _damaged_csv(path: str, error: Exception, names: Sequence[str] | None) -> DataError:
    found = _scan(path, names)
    if not found.what:
        return _damaged(path, error)
    ways = "" if "quote" in found.what or "UTF-8" in found.what else _WAY_OF_COMMAS
    return DataError(f"{path!r} can not be read: {found.place} {found.what}{ways}")


def _begin(path: str) -> bytes:
    """The begin of a text file.

    Raises
    ------
    DataError
        When it is no UTF-8 from its first bytes on, or packed and not called so.
    """
    try:
        with _open(path) as file:
            begin = bytes(file.read(_HEADER_BYTES))
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    if begin.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path!r} is UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    if begin.startswith(b"PAR1"):
        raise DataError(f"{path!r} is a Parquet file: call it *.parquet")
    for sign, what in _PACKED.items():
        if begin.startswith(sign):
            raise DataError(f"{path!r} is {what.format(name=os.path.basename(path))}")
    return begin


def _delimiter(path: str) -> str:
    """What stands between the values, by the first line: a comma, or else what is there.

    Spreadsheets write semicolons where the comma is for decimals.
    """
    begin = _begin(path)
    names, ended, _ = begin.partition(b"\n")
    if ended and not is_utf8(names):
        raise DataError(
            f"{path!r} can not be read: line 1, the names of its columns, is no UTF-8 "
            f"({names[:_SHOWN_BYTES]!r}); {recoding(names)}"
        )
    line = _QUOTED.sub(b"", begin).partition(b"\n")[0]
    if unpacked_name(path).endswith(".tsv"):
        return "\t"
    return next((sign for sign in (",", ";", "\t") if sign.encode() in line), ",")


def _csv_reader(path: str, names: Sequence[str] | None) -> Any:
    from pyarrow import csv

    types = {name: pa.string() for name in names or ()}
    try:
        return csv.open_csv(
            _open(path),
            csv.ReadOptions(block_size=_BLOCK_BYTES),
            csv.ParseOptions(delimiter=_delimiter(path), newlines_in_values=True),
            csv.ConvertOptions(
                column_types=types,
                include_columns=list(names) if names else None,
                null_values=list(NULLS),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except (OSError, pa.ArrowException) as error:
        raise _damaged_csv(path, error, names) from error


def csv_names(path: str) -> list[str]:
    """The names in the first line of a CSV file."""
    return list(_csv_reader(path, None).schema.names)


def csv_tables(path: str, names: Sequence[str]) -> Iterator[pa.Table]:
    """These columns of a CSV file, as text.

    Raises
    ------
    DataError
        When it is no CSV of UTF-8, a line has another number of values, or a quote is not closed.
    """
    there = csv_names(path)
    read, last = list(names), there[-1]
    if last not in read and last and there.count(last) == 1:
        read.append(last)
    reader = _csv_reader(path, read)
    end = ""
    try:
        for batch in reader:
            if last in read and batch.num_rows:
                end = batch.column(last)[-1].as_py() or ""
            yield pa.Table.from_batches([batch]).select(list(names))
        if "\n" in end and not _ends_with_quote(path):
            lines, found = end.count("\n"), _scan(path, ())
            raise DataError(
                f"{path!r} has a quote that is not closed in {found.place}: its last "
                f"value, of column {last!r}, has {lines} lines and begins with {end[:40]!r}; close "
                "the quote, or double it"
            )
    except (OSError, pa.ArrowException) as error:
        raise _damaged_csv(path, error, read) from error


def _ends_with_quote(path: str) -> bool:
    """Whether the last value of a file is in quotes; one of several lines has to be.

    Arrow takes all that follows a quote that is not closed for one value, without a word.
    """
    end = b""
    for piece in _pieces(path):
        end = (end + piece).rstrip()[-1:]
    return end == b'"'


def _whole_lines(path: str) -> Iterator[bytes]:
    """A file in blocks that end with a line."""
    rest = b""
    for piece in _pieces(path):
        end = piece.rfind(b"\n") + 1
        if end == 0:
            rest += piece
            if len(rest) > _LONGEST_LINE:
                raise DataError(f"{path!r} has a line of more than {_LONGEST_LINE} bytes")
            continue
        yield rest + piece[:end]
        rest = piece[end:]
    if rest.strip():
        yield rest


def _told(kind: pa.DataType) -> pa.DataType:
    """The type to read again as: text stays text, also where all of a block looks like times."""
    if pa.types.is_timestamp(kind):
        return pa.string()
    if not pa.types.is_list(kind):
        return kind
    of = kind.value_type
    return pa.list_(pa.string() if pa.types.is_null(of) else _told(of))


def _beyond_int64(column: pa.ChunkedArray) -> bool:
    """Whether floats were integers of which uint64 holds all, and int64 does not."""
    if not pa.types.is_float64(column.type):
        return False
    values = column.to_numpy()
    values = values[~np.isnan(values)]
    large = bool(len(values)) and 2.0**63 <= values.max() <= 2.0**64  # rounded
    return large and bool((values == np.floor(values)).all() and values.min() >= 0)


def _json_block(block: bytes) -> pa.Table:
    """A block of JSON lines as a table.

    Read once to find its types, and once more where these types would lose something: text that
    looks like times, integers beyond int64, and lists whose first one begins with null, which
    pyarrow loses when it infers the type (github.com/apache/arrow/issues/51305).
    """
    from pyarrow import json

    # One piece, so that Arrow's own blocks do not depend on where ours end.
    options = json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    table = json.read_json(io.BytesIO(block), read_options=options)
    types = [_told(kind) for kind in table.schema.types]
    lists = any(pa.types.is_list(kind) for kind in types)
    times = any(pa.types.is_timestamp(kind) for kind in table.schema.types)
    large = [_beyond_int64(column) for column in table.columns]
    if not lists and not times and not any(large):
        return table

    def read_as(types: list[pa.DataType]) -> pa.Table:
        schema = pa.schema(zip(table.column_names, types, strict=True))
        told = json.ParseOptions(explicit_schema=schema)
        return json.read_json(io.BytesIO(block), read_options=options, parse_options=told)

    try:
        wide = [pa.uint64() if one else kind for one, kind in zip(large, types, strict=True)]
        table = read_as(wide)
    except pa.ArrowInvalid:  # floats all the same, such as 1e19
        if not any(large):
            raise
        table = read_as(types)
    table.validate(full=True)
    return table


def _rows_on(error: Exception, begin: int) -> Exception:
    """The error with rows that count from the begin of the file, not of a block."""
    return DataError(_ROW.sub(lambda said: f"in row {begin + int(said[1])}", str(error)))


def json_tables(path: str) -> Iterator[pa.Table]:
    """All columns of a file of JSON objects, one a line.

    Raises
    ------
    DataError
        When it is none, or values of a column have different types.
    """
    _begin(path)
    line, row = 1, 0
    try:
        for block in _whole_lines(path):
            if block.strip():
                if nests_deeper(block, _DEEPEST):
                    raise DataError(f"{path!r} has JSON that nests deeper than {_DEEPEST} levels")
                if not block.isascii() and not is_utf8(block):  # Arrow does not look
                    raise DataError(f"{path!r} can not be read: {find_in_json(block, line, row)}")
                if has_null_object(block):
                    found = find_in_json(block, line, row) or "null stands where an object has to"
                    raise DataError(f"{path!r} can not be read: {found}")
                if cells := too_many_cells(block):
                    raise DataError(
                        f"{path!r} has {cells.columns:,} different names from line {line} on, and "
                        f"its objects leave most of them out: {cells.cells:,} cells for "
                        f"{cells.values:,} values. Names that are data belong into a list, such as "
                        '{"seen": ["u17", "u42"]} in place of {"u17": 1, "u42": 1}'
                    )
                try:
                    table = _json_block(block)
                except pa.ArrowException as error:
                    found = find_in_json(block, line, row)
                    if "from object to array" in str(error):
                        raise
                    if not found:
                        raise _damaged(path, _rows_on(error, row)) from error
                    raise DataError(f"{path!r} can not be read: {found}") from error
                row += table.num_rows
                yield table
            line += block.count(b"\n")
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error


def json_names(path: str) -> list[str]:
    """Names in the first block of a file of JSON lines."""
    for table in json_tables(path):
        return list(table.column_names)
    return []


def with_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """These columns of a table; one that no object of a block has is missing there."""
    arrays = [
        table.column(name) if name in table.column_names else pa.nulls(table.num_rows)
        for name in names
    ]
    return pa.table(arrays, names=list(names)) if arrays else table.select([])
