# SPDX-License-Identifier: Apache-2.0
"""Frames in memory as Arrow tables. pandas is never imported: its objects say what is needed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hugectr.base.errors import DataError
from hugectr.data.schema.values import bad_value
from hugectr.data.sound_columns import sound_column


def is_pandas(data: object) -> bool:
    """Whether this is a DataFrame of pandas."""
    of_pandas = type(data).__module__.partition(".")[0] == "pandas"
    return of_pandas and hasattr(data, "iloc") and hasattr(data, "columns")


def _first_odd(values: Any) -> tuple[int, Any, str] | None:
    """The first row whose value has another type than those before, and that of those before."""
    before = ""
    for row, value in enumerate(values):
        if value is None or value != value:  # NaN stands for what is missing
            continue
        kind = type(value).__name__
        if before and kind != before:
            return row, value, before
        before = kind
    return None


def _without_empty_arrays(values: Any) -> Any:
    """Empty arrays as lists: NumPy makes them float64, whatever those beside them have."""
    kind = getattr(getattr(values, "dtype", None), "kind", None)
    if not isinstance(values, list | tuple) and kind != "O":
        return values
    empty = [isinstance(one, np.ndarray) and one.ndim == 1 and not one.size for one in values]
    if not any(empty):
        return values
    return [[] if gone else one for gone, one in zip(empty, values, strict=True)]


def _converted(values: Any) -> pa.Array:
    """Values as Arrow has them; integers that int64 does not hold as uint64, alone or in lists."""
    try:
        return pa.array(_without_empty_arrays(values), from_pandas=True)
    except OverflowError:
        for kind in (pa.uint64(), pa.list_(pa.uint64())):
            with contextlib.suppress(pa.ArrowException, TypeError, OverflowError):
                return pa.array(values, kind, from_pandas=True)
        raise


def _array(column: str, values: Any) -> pa.Array:
    """A column of Python or NumPy values; NaN among objects is missing."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        unit = np.datetime_data(values.dtype)[0]
        if unit not in ("D", "s", "ms", "us", "ns"):  # Arrow has no hours, for one
            values = values.astype("datetime64[s]")
    try:
        return _converted(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        try:
            odd = _first_odd(values)
        except (TypeError, ValueError):  # what has no truth, such as arrays of arrays
            odd = None
        if odd is None:
            wide = isinstance(error, OverflowError)
            what = "integers that neither int64 nor uint64 holds" if wide else str(error)
            raise DataError(
                f"column {column!r} is no column of values: {what}; make it text, or leave it out"
            ) from error
        row, value, before = odd
        raise bad_value(
            column,
            row,
            value,
            f"is of type {type(value).__name__} in a column of {before}",
            "give the column one type",
        ) from error


def _typed(column: str, series: Any) -> pa.Array:
    """A column of a type of pandas; of one that Arrow does not know, such as sparse, its values."""
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return _array(column, np.asarray(series))


def from_pandas(frame: Any, names: Sequence[str]) -> pa.Table:
    """Columns of a pandas.DataFrame; its index is no column.

    Raises
    ------
    DataError
        When a column has values of several types, with the first such row.
    """
    arrays = []
    for name in names:
        series = frame[name]
        if series.dtype == object:
            arrays.append(_array(name, series.to_numpy()))
        else:
            array = _typed(name, series)
            # Types of pandas that are Arrow's may be of anybody's buffers.
            of_arrow = not isinstance(series.dtype, np.dtype)
            arrays.append(sound_column("the DataFrame", name, array) if of_arrow else array)
    return pa.table([*arrays], names=list(names))


def pandas_names(frame: Any) -> list[str]:
    """The columns of a pandas.DataFrame.

    Raises
    ------
    DataError
        When one is not called by a text.
    """
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise DataError(
                f"the DataFrame has a column called {name!r}, which is no text; rename it, such as "
                "with frame.columns = frame.columns.astype(str)"
            )
    return names


def from_mapping(columns: Mapping[str, Any], names: Sequence[str]) -> pa.Table:
    """Columns of a dict of arrays.

    Raises
    ------
    DataError
        When they are not of one length, or no columns.
    """
    arrays = []
    for name in names:
        values = columns[name]
        if isinstance(values, pa.Array | pa.ChunkedArray):
            arrays.append(sound_column("the dict", name, values))
            continue
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise DataError(f"column {name!r} is {values!r:.60}, not an array; make it [value]")
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise DataError(
                f"column {name!r} is an array of shape {values.shape}; give one column a feature"
            )
        arrays.append(_array(name, values))
    lengths = {name: len(array) for name, array in zip(names, arrays, strict=True)}
    if len(set(lengths.values())) > 1:
        raise DataError(f"the columns have different lengths: {lengths}; they must have one")
    return pa.table([*arrays], names=list(names))
