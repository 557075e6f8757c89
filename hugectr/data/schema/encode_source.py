# SPDX-License-Identifier: Apache-2.0
"""Data of any kind as samples: opened, checked for the columns of a schema, encoded in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hugectr.base import log
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.data.schema.encode import EncodedData, encode_table, joined
from hugectr.data.schema.fields import GroupField, IgnoredField, LabelField, WeightField
from hugectr.data.schema.files_in_turn import rows_of_files
from hugectr.data.schema.pieces import blocks
from hugectr.data.schema.sources import Source, open_source
from hugectr.data.schema.unseen import Unseen

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema


def _needed(schema: Schema, source: Source, labels: bool) -> list[str]:
    """The columns to read; a group is of use without labels too, where there is one."""
    needed = []
    for field in schema.fields:
        if isinstance(field, IgnoredField):
            continue
        if not labels and isinstance(field, LabelField | WeightField):
            continue
        if not labels and isinstance(field, GroupField) and field.name not in source.names:
            continue
        needed.append(field.name)
    return list(dict.fromkeys(needed))  # a group may be a feature too


def no_samples(schema: Schema, names: Sequence[str], labels: bool) -> EncodedData:
    """What columns without rows are encoded as."""
    nothing = pa.table([pa.nulls(0)] * len(names), names=list(names))
    return encode_table(schema, nothing, 0, labels)


def _encoded(
    schema: Schema, source: Source, rows: int | None, labels: bool, may_be_empty: bool
) -> Iterator[EncodedData]:
    names = _needed(schema, source, labels)
    tables = source.tables(names)
    row, unseen = 0, Unseen()
    for table in tables if rows is None else blocks(tables, rows):
        if table.num_rows:
            # Who asks for one row is answered at once, and not told of it each time.
            told = unseen if table.num_rows > 1 else None
            with rows_of_files(source.files):
                encoded = encode_table(schema, table, row, labels, told)
            yield encoded
        row += table.num_rows
    unseen.tell()
    if row == 0 and not may_be_empty:
        raise DataError(f"{source.what} has no rows; at least one is needed")
    if row == 0:
        yield no_samples(schema, names, labels)


def encode_in_batches(
    schema: Schema, data: Any, labels: bool, rows: int | None, may_be_empty: bool = False
) -> Iterator[EncodedData]:
    """See ``Schema.encode_batches``; without ``rows`` in the pieces that the data comes in. Data
    without rows is an error, or where it ``may_be_empty`` one piece without samples.

    Columns are looked for now, not when the first batch is asked for.
    """
    source = open_source(data)
    names = _needed(schema, source, labels)
    if not names:
        raise InvalidArgument("Schema.encode: the schema has no fields to encode but labels")
    if not (may_be_empty and source.names_in_rows and not source.names):
        told = [f.name for f in schema.fields if isinstance(f, LabelField | WeightField)]
        left_out = source.check(names, optional=[name for name in names if name not in told])
        if left_out:
            absent = ", ".join(map(repr, left_out))
            log.warning(f"no row of {source.what} has {absent}: missing in all of them")
    return _encoded(schema, source, rows, labels, may_be_empty)


def encode_all(schema: Schema, data: Any, labels: bool) -> EncodedData:
    """See ``Schema.encode``. A table in memory is encoded whole: to cut it would only copy."""
    return joined(list(encode_in_batches(schema, data, labels, None)))
