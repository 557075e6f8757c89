# SPDX-License-Identifier: Apache-2.0
"""Columns of Arrow that come from users, looked at before anything reads through their offsets.

Arrow believes what it is handed: a table that was read from an IPC stream, or put together of
buffers, may have offsets and dictionary indices that lead out of its memory. The look costs one
pass over offsets, indices and text. What our own readers have made needs none.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from hugectr.base.errors import DataError
from hugectr.base.printable import printable

#: Arrow's message may have what stands in the column.
_MOST_WORDS = 300


def _is_of_a_day(kind: pa.DataType) -> bool:
    """Whether a full look would refuse values that are only unusual: hours in dates, 25 o'clock."""
    return bool(pa.types.is_date64(kind) or pa.types.is_time(kind))


def sound_column(
    what: str, name: str, column: pa.ChunkedArray | pa.Array
) -> pa.ChunkedArray | pa.Array:
    """The column, if it is one.

    Parameters
    ----------
    what : str
        What it is a column of, for errors.
    name : str
    column : pyarrow.ChunkedArray or Array

    Raises
    ------
    DataError
        When offsets or indices lead out of it, its text is no UTF-8, or it is shorter than it says.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    row = 0
    for chunk in chunks:
        try:
            chunk.validate(full=not _is_of_a_day(chunk.type))
        except pa.ArrowException as error:
            said = printable(str(error))
            rows = f" from row {row} on" if len(chunks) > 1 else ""
            raise DataError(
                f"{what}: column {name!r} of type {chunk.type!s:.80} is damaged{rows}: "
                f"{said[:_MOST_WORDS]}; make it anew (table.validate(full=True) tells of all)"
            ) from error
        row += len(chunk)
    return column


def sound_table(what: str, table: pa.Table, names: Iterable[str] | None = None) -> pa.Table:
    """The table, if these of its columns, or all, are sound.

    Raises
    ------
    DataError
        As ``sound_column``.
    """
    if names is None:
        names = table.column_names
    try:
        # All at once, for tables of few rows; which column it is, is found out afterwards.
        table.select(list(dict.fromkeys(names))).validate(full=True)
        return table
    except (pa.ArrowException, KeyError):  # also of names that are there twice
        pass
    for name in dict.fromkeys(names):
        for place in table.schema.get_all_field_indices(name):
            sound_column(what, name, table.column(place))
    return table
