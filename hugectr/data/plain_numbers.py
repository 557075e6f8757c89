# SPDX-License-Identifier: Apache-2.0
"""Columns of numbers in types that the core does not read, as ones that it does.

Spark and databases write decimals (an unsigned 64-bit number is ``decimal(20, 0)``), pandas
float16 and categories (dictionaries), and where all lists of a file are empty, or all values
missing, there is no type at all.
"""

from __future__ import annotations

import pyarrow as pa

from hugectr.base.errors import DataError


def _read_as(kind: pa.DataType) -> pa.DataType:
    """The type that the core reads of values of this type; the same where that is it."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        value = _read_as(kind.value_type)
        if value == kind.value_type:
            return kind
        return pa.list_(value) if pa.types.is_list(kind) else pa.large_list(value)
    if pa.types.is_dictionary(kind):  # of a file pyarrow has decoded it already
        value = kind.value_type
        known = pa.types.is_primitive(value) or pa.types.is_decimal(value)
        return _read_as(value) if known else kind
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind):  # without places they are whole: keys, or any other number
        return pa.int64() if kind.scale <= 0 else pa.float64()
    if pa.types.is_null(kind):
        return pa.int64()
    return kind


def plain_numbers(batch: pa.RecordBatch, place: str) -> pa.RecordBatch:
    """A batch whose decimals, float16 and columns without a type are what the core reads.

    Parameters
    ----------
    batch : RecordBatch
    place : str
        What messages say before the column.

    Returns
    -------
    RecordBatch
        The same one where there is nothing to do.

    Raises
    ------
    DataError
        When a number does not fit, or a column holds times, which are no numbers before it is said
        what is counted.
    """
    kinds = [_read_as(kind) for kind in batch.schema.types]
    for name, kind in zip(batch.schema.names, kinds, strict=True):
        if pa.types.is_temporal(kind):
            raise DataError(
                f"{place}, column {name!r} holds times ({kind}); make numbers of them first, such "
                "as hours or days, or let hugectr.data.Schema do it"
            )
    if kinds == batch.schema.types:
        return batch
    columns = []
    for name, column, kind in zip(batch.schema.names, batch.columns, kinds, strict=True):
        try:
            columns.append(column if kind == column.type else column.cast(kind))
        except pa.ArrowException as error:
            raise DataError(
                f"{place}, column {name!r} holds {column.type} with a number that is no {kind}: "
                f"{error}; clean the data"
            ) from error
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
