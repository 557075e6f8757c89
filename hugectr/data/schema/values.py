# SPDX-License-Identifier: Apache-2.0
"""Columns as arrays of one kind of value; what does not fit is named by column, row and value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hugectr.base.errors import DataError

Float64s = npt.NDArray[np.float64]


class RowError(DataError):
    """An error in one row of a column.

    Attributes
    ----------
    row : int
        Counted from 0 through all of the data, or through the file where there is one.
    file : str
        The file of several, in quotes; empty where the data is one.
    """

    def __init__(self, column: str, row: int, what: str, file: str = "") -> None:
        where = f"{file}, " if file else ""
        super().__init__(f"{where}column {column!r}, row {row} (from 0): {what}")
        self.column, self.row, self.what, self.file = column, row, what, file

    def at(self, row: int, file: str = "") -> RowError:
        """The same error with the number that the row has elsewhere."""
        return RowError(self.column, row, self.what, file or self.file)


@contextmanager
def rows_numbered(number: Callable[[int], int]) -> Iterator[None]:
    """Errors of rows inside say ``number(row)``: where rows or elements are some of the data's."""
    try:
        yield
    except RowError as error:
        raise error.at(number(error.row)) from error.__cause__


def bad_value(column: str, row: int, value: object, what: str, way_out: str) -> RowError:
    """The error for a value; ``row`` counts from 0 through all of the data."""
    shown = repr(value.item() if isinstance(value, np.generic) else value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return RowError(column, row, f"{shown} {what}; {way_out}")


def bad_type(column: str, kind: pa.DataType, wanted: str, way_out: str) -> DataError:
    """The error for a column of a type that can not be what it should be."""
    return DataError(f"column {column!r} has Arrow type {kind}, not {wanted}; {way_out}")


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text of any layout."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is lists of any layout."""
    of_kind = pa.types
    return bool(
        of_kind.is_list(kind)
        or of_kind.is_large_list(kind)
        or of_kind.is_fixed_size_list(kind)
        or of_kind.is_list_view(kind)
        or of_kind.is_large_list_view(kind)
    )


def is_nested(kind: pa.DataType) -> bool:
    """Whether values of a type are made of others."""
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return bool(pa.types.is_nested(kind))


def _without_views(kind: pa.DataType) -> pa.DataType:
    """The type with text and bytes in place of views of them, in whatever it is made of."""
    of_kind = pa.types
    if of_kind.is_string_view(kind):
        return pa.large_string()
    if of_kind.is_binary_view(kind):
        return pa.large_binary()
    if of_kind.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    if of_kind.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if of_kind.is_map(kind):
        of = (kind.key_type, kind.item_type)
        changed = tuple(map(_without_views, of))
        return kind if changed == of else pa.map_(*changed, kind.keys_sorted)
    return _of_lists(kind, _without_views)


def _without_inner_dictionaries(kind: pa.DataType) -> pa.DataType:
    """The type with the values of lists in place of dictionaries of them."""

    def decoded(inner: pa.DataType) -> pa.DataType:
        own = inner.value_type if pa.types.is_dictionary(inner) else inner
        return _without_inner_dictionaries(own)

    return _of_lists(kind, decoded)


def _of_lists(kind: pa.DataType, changed: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Lists of values whose type is changed; what is no list, or of which nothing is, as it is."""
    if not is_list(kind) or changed(kind.value_type) == kind.value_type:
        return kind
    field = kind.value_field.with_type(changed(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(field, kind.list_size)
    return pa.large_list(field) if pa.types.is_large_list(kind) else pa.list_(field)


def _lists(array: pa.Array) -> pa.Array:
    """Views of lists as lists. Arrow's own cast leaves the last offset out (pyarrow 26)."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
    mask = array.is_null() if array.null_count else None
    return pa.LargeListArray.from_arrays(offsets, array.flatten(), mask=mask)


def takeable(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """A column as Arrow can take rows of it: without views and runs, lists without dictionaries.

    polars has views for text, and ``List(Categorical)`` is lists of dictionaries.
    """
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if pa.types.is_list_view(column.type) or pa.types.is_large_list_view(column.type):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        of_kind = pa.large_list(column.type.value_type)
        column = pa.chunked_array([_lists(chunk) for chunk in chunks], of_kind)
    # One after the other: a dictionary of views can not be decoded.
    for changed in (_without_views, _without_inner_dictionaries):
        kind = changed(column.type)
        if kind != column.type:
            column = column.cast(kind)
    return column


def _integers(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Decimals without a fraction, which databases have for integers, as such where they fit."""
    for kind in (pa.int64(), pa.uint64()):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


#: Ids of types whose columns are taken as they are; text is hashed as it is.
_TAKEN = frozenset(
    kind.id
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
        *(pa.string(), pa.large_string(), pa.string_view()),
    )
)


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The chunks of a column as one array, ``takeable`` unless it is text; copied only for that
    or when there are several.

    Decimals whose type has no fraction come as integers.
    """
    if column.type.id not in _TAKEN:
        if pa.types.is_decimal(column.type) and column.type.scale == 0:
            column = _integers(column)
        column = takeable(column)
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pa.array([], column.type)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return pa.concat_arrays(column.chunks)


def plain(array: pa.Array) -> pa.Array:
    """The array without a dictionary and without extension types; text that kernels take."""
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    if pa.types.is_dictionary(array.type):
        return plain(array.dictionary_decode())
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array


#: Rows of a column that are tried before all of it.
_FIRST = 256


def first_failing(array: pa.Array, convert: Callable[[pa.Array], Any]) -> int:
    """The first place whose value ``convert`` refuses, of an array that it refuses."""
    begin, end = 0, len(array)
    while end - begin > 1:
        middle = (begin + end) // 2
        try:
            convert(array.slice(begin, middle - begin))
            begin = middle
        except pa.ArrowInvalid:
            end = middle
    return begin


def value_at(array: pa.Array, place: int) -> object:
    """A value for a complaint; of a time that Python has no object for, its number and type."""
    try:
        return array[place].as_py()
    except (OverflowError, ValueError):  # beyond Python's years, or in a zone that nobody knows
        storage = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
        return f"{array.slice(place, 1).view(storage)[0].as_py()} ({array.type})"


def _parsed(text: pa.Array) -> pa.Array:
    """Text as float64; true and false are 1 and 0."""
    trimmed = pc.utf8_trim_whitespace(text)
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:
        words = pc.utf8_lower(trimmed)
        trimmed = pc.if_else(pc.equal(words, "true"), "1", trimmed)
        trimmed = pc.if_else(pc.equal(words, "false"), "0", trimmed)
        return trimmed.cast(pa.float64())


def parse_numbers(column: str, text: pa.Array, first_row: int, way_out: str) -> pa.Array:
    """Text of numbers as float64; null stays null.

    Raises
    ------
    DataError
        Naming the first value that is no number.
    """
    try:
        return _parsed(text)
    except pa.ArrowInvalid:
        place = first_failing(text, _parsed)
        raise bad_value(
            column, first_row + place, text[place].as_py(), "is no number", way_out
        ) from None


def numbers_of(text: pa.Array) -> pa.Array | None:
    """Text of numbers as float64, None where a value is none: of most columns one of the first."""
    try:
        _parsed(text.slice(0, _FIRST))
        return _parsed(text)
    except pa.ArrowInvalid:
        return None


def as_numbers(column: str, array: pa.Array, first_row: int, way_out: str) -> Float64s:
    """A column of numbers as float64, NaN where one is missing.

    Parameters
    ----------
    column : str
        Its name, for complaints.
    array : pyarrow.Array
    first_row : int
        Number of its first row in all of the data.
    way_out : str
        What to do about text.

    Raises
    ------
    DataError
        For text that is no number, values that are infinite, and other types.
    """
    array = plain(array)
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan)
    if is_text(kind):
        array = parse_numbers(column, array, first_row, way_out)
    elif is_list(kind):
        raise bad_type(column, kind, "one number a row", "flatten it, or call it a ListField")
    elif not (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        raise bad_type(column, kind, "numbers", way_out)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    values: Float64s = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    infinite = np.isinf(values)
    if infinite.any():
        row = int(infinite.argmax())
        raise bad_value(
            column, first_row + row, values[row], "is infinite", "clip it, or make it missing"
        )
    return values


def without_gaps(column: str, values: Float64s, first_row: int, what: str) -> Float64s:
    """The values, of which none may be missing.

    Raises
    ------
    DataError
        Naming the first row without a value.
    """
    gaps = np.isnan(values)
    if gaps.any():
        row = first_row + int(gaps.argmax())
        raise RowError(column, row, f"{what} is missing; drop the rows without one")
    return values
