# SPDX-License-Identifier: Apache-2.0
"""What users give an estimator, as one Arrow table: frames, arrays, files; and their labels."""

from __future__ import annotations

import contextlib
import numbers
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hugectr.base.errors import DataError, InvalidArgument, rejected
from hugectr.data.given_arrays import refuse_masked
from hugectr.data.schema.files_in_turn import FilesInTurn, rows_of_files
from hugectr.data.schema.frames import is_pandas
from hugectr.data.schema.infer import typed
from hugectr.data.schema.pieces import joined_tables
from hugectr.data.schema.sources import Source, open_source
from hugectr.data.schema.values import is_text, one_array, rows_numbered, takeable
from hugectr.estimator.parameters import warn_of_conversion
from hugectr.interop import to_numpy

#: The largest weight of a row: weights are float32.
_MOST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Features:
    """Columns to predict from.

    Attributes
    ----------
    what : str
        What they were given as, for complaints.
    table : pyarrow.Table
    untyped : bool
        Whether columns are text because the format has no types.
    array : bool
        Whether they were columns of an array, which has no names.
    given_rows : ndarray of int64, (rows,), or None
        The number that each row had when it was given; None: the same.
    files : FilesInTurn or None
        Which of several files the rows were in.
    """

    what: str
    table: pa.Table
    untyped: bool = False
    array: bool = False
    given_rows: npt.NDArray[np.int64] | None = None
    files: FilesInTurn | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    @property
    def source(self) -> Source:
        """As a schema reads it."""
        table = self.table
        return Source(
            self.what, table.column_names, lambda n: iter([table.select(list(n))]), self.untyped
        )

    def take(self, rows: npt.NDArray[np.int64]) -> Features:
        """Some rows."""
        given = rows if self.given_rows is None else self.given_rows[rows]
        return replace(self, table=self.table.take(pa.array(rows)), given_rows=given)

    def row_given(self, row: int) -> int:
        """The number that a row had when it was given: errors name that one."""
        return row if self.given_rows is None else int(self.given_rows[row])

    @contextlib.contextmanager
    def rows_as_given(self) -> Iterator[None]:
        """Errors inside name rows by their numbers, and files, when they were given."""
        with rows_of_files(self.files), rows_numbered(self.row_given):
            yield

    def without(self, column: str) -> Features:
        """All columns but one."""
        if self.table.num_columns < 2:
            raise InvalidArgument(
                f"{self.what} has no column but the label {column!r}; add columns to predict from"
            )
        return replace(self, table=self.table.drop_columns([column]))

    def with_label(self, name: str, values: npt.NDArray[np.float32]) -> Features:
        """And a column of labels, which counts in place of one that is called so already."""
        table = self.table
        if name in table.column_names:
            table = table.drop_columns([name])
        return replace(self, table=table.append_column(name, pa.array(values)))


def array_names(columns: int) -> list[str]:
    """Names of the columns of an array."""
    return [f"x{i}" for i in range(columns)]


#: Names of columns that a complaint shows.
_SHOWN = 12
#: What tables have and arrays have not.
_TABLES = ("columns", "__arrow_c_stream__", "to_batches", "keys")


def _is_array(data: Any) -> bool:
    if isinstance(data, np.ndarray) or hasattr(data, "__dlpack__"):
        return True
    if hasattr(data, "__array__") and not any(hasattr(data, name) for name in _TABLES):
        return True
    if isinstance(data, list | tuple) and data and not isinstance(data[0], str | os.PathLike):
        return not isinstance(data[0], dict)
    return False


def _of_array(where: str, data: Any, may_be_empty: bool) -> Features:
    array = to_numpy(data) if hasattr(data, "__dlpack__") else np.asarray(data)
    if array.ndim != 2:
        raise InvalidArgument(
            f"{where}: X has shape {array.shape}, expected 2 dimensions, (rows, columns). Reshape "
            "your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row"
        )
    if array.shape[0] == 0 and not may_be_empty:
        raise InvalidArgument(f"{where}: Found array with 0 sample(s), at least one is required")
    if array.shape[1] == 0:
        raise InvalidArgument(
            f"{where}: Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is "
            "required."
        )
    if array.dtype.kind == "c":
        raise InvalidArgument(f"{where}: Complex data not supported\n{array!r:.80}")
    if array.dtype.kind in "biuf":
        array = array.astype(np.float64)
        if np.isinf(array).any():
            raise InvalidArgument(f"{where}: X has infinity in it; gaps (NaN) are all right")
    names, columns = array_names(array.shape[1]), []
    for place, name in enumerate(names):
        try:
            columns.append(pa.array(array[:, place], from_pandas=True))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(f"{where}: column {name} is no column of values: {error}") from error
    return Features("the array", pa.table(columns, names=names), array=True)


def source_of(where: str, data: Any, may_be_empty: bool = False) -> tuple[Source, bool]:
    """Columns to read, whatever they are in, and whether that is an array.

    An array that has no rows is an error unless it ``may_be_empty``.

    Raises
    ------
    InvalidArgument
        When it is nothing that has columns.
    DataError
        When it can not be read.
    """
    if may_be_empty and isinstance(data, list | tuple) and not data:
        return Source("the list", [], lambda names: iter(()), names_in_rows=True), False
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise TypeError(f"{where}: X is a sparse matrix; give an array, a frame or lists")
    if _is_array(data):
        return _of_array(where, data, may_be_empty).source, True
    if is_pandas(data) and not all(isinstance(name, str) for name in data.columns):
        data = data.rename(columns=str)  # as pandas numbers columns that have no names
    return open_source(data), False


def features_of(where: str, data: Any) -> Features:
    """All rows of a frame, array, dict or file.

    Raises
    ------
    InvalidArgument
        When it is nothing that has columns.
    DataError
        When it can not be read, or has no rows.
    """
    source, array = source_of(where, data)
    source.check(source.names)
    parts = list(source.tables(source.names))
    if not parts or not sum(part.num_rows for part in parts):
        raise DataError(f"{where}: {source.what} has no rows")
    table = _takeable(joined_tables(parts))
    return Features(source.what, table, source.untyped, array, files=source.files)


def _takeable(table: pa.Table) -> pa.Table:
    """Columns that Arrow can take rows of, in place of such as it can not."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        changed = takeable(column)
        if changed is not column:
            table = table.set_column(place, field.name, changed)
    return table


def labels_of(
    where: str, labels: Any, features: Features, *, as_text: bool = False
) -> tuple[npt.NDArray[Any], str, Features]:
    """Labels by row, the name of their column, and the features without it.

    Parameters
    ----------
    where : str
        The call, for complaints.
    labels
        The name of a column of the features, or one value a row. Frames of pandas may name it by a
        number. Labels that are called and are as a column of the features are that column.
    features : Features
    as_text : bool
        Whether a column of a format without types stays text, as the labels of ``fit`` were: all of
        another file may look like numbers.
    """
    if labels is None:
        raise InvalidArgument(
            f"{where}: requires y to be passed, but the target y is None: give the labels, or the "
            "name of their column"
        )
    if not isinstance(labels, bool) and isinstance(labels, numbers.Integral):
        labels = _column_of_number(where, int(labels), features)
    if isinstance(labels, str):
        features.source.check([labels])
        column = one_array(features.table.column(labels))
        if features.untyped and is_text(column.type) and not as_text:
            column = typed(column)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        if column.null_count:
            row = int(np.asarray(column.is_null()).argmax())
            where_to, row = _place(where, features, row)
            raise DataError(
                f"{where_to}: the label {labels!r} is missing in row {row}; drop the row"
            )
        values = column.to_numpy(zero_copy_only=False)
        _check_finite(where, values, features)
        return values, labels, features.without(labels)
    refuse_masked(f"{where}: y", labels)
    name = getattr(labels, "name", None)
    values = _label_array(labels)
    if values.ndim == 2 and values.shape[1] == 1:
        warn_of_conversion(f"A column-vector y was passed when a 1d array was expected ({where})")
        values = values[:, 0]
    if values.ndim != 1:
        raise rejected(f"{where}: y", values.shape, "one label a row: y should be a 1d array")
    if len(values) != features.rows:
        raise InvalidArgument(
            f"{where}: inconsistent numbers of samples: X has {features.rows} rows, y has "
            f"{len(values)}"
        )
    _check_finite(where, values, None)
    taken = set(features.table.column_names)
    name = name if isinstance(name, str) and name else "label"
    if name in taken and _are_the_same(features.table.column(name), values):
        return values, name, features.without(name)
    while name in taken:
        name += "_"
    return values, name, features


def _are_the_same(column: pa.ChunkedArray, labels: npt.NDArray[Any]) -> bool:
    """Whether labels are a column of the features, as in ``fit(frame, frame.clicked)``."""
    found = one_array(column).to_numpy(zero_copy_only=False)
    return len(found) > 0 and bool(np.array_equal(found, labels))


def _column_of_number(where: str, number: int, features: Features) -> str:
    """The name of a column that a frame calls by a number: here all names are text."""
    names = features.table.column_names
    if str(number) in names:
        return str(number)
    raise rejected(
        f"{where}: y",
        number,
        f"the labels, or the name of their column, a text: {features.what} has "
        f"{', '.join(map(repr, names[:_SHOWN]))}{', ...' if len(names) > _SHOWN else ''}",
    )


def _check_finite(where: str, values: npt.NDArray[Any], features: Features | None) -> None:
    """An InvalidArgument where a label is missing or infinite, whatever way it was given.

    Of labels that are a column of features, the message names its file.
    """
    if values.dtype.kind not in "fO":
        return
    for of_floats, of_one, said in (
        (np.isnan, _is_missing, "NaN ({}); drop the rows without label"),
        (np.isinf, _is_infinite, "infinity ({}); drop such rows"),
    ):
        floats = values.dtype.kind == "f"
        found = of_floats(values) if floats else np.array([of_one(one) for one in values], bool)
        if found.any():
            row = int(found.argmax())
            if features is not None:
                where, row = _place(where, features, row)
            raise InvalidArgument(f"{where}: y contains {said.format(f'row {row}')}")


def _place(where: str, features: Features, row: int) -> tuple[str, int]:
    """The call and the file of a row, if it is in one of several, and its number there."""
    file, row = ("", row) if features.files is None else features.files.place(row)
    return f"{where}: {file}" if file else where, row


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isinf(value))


def _is_missing(value: Any) -> bool:
    """Whether a label is None, NaN, or what pandas has for a gap, which compares to no truth."""
    return value is None or type(value).__name__ == "NAType" or value != value


def _label_array(labels: Any) -> npt.NDArray[Any]:
    if hasattr(labels, "combine_chunks"):
        labels = labels.combine_chunks()
    if isinstance(labels, pa.Array | pa.ChunkedArray):
        labels = labels.to_numpy(zero_copy_only=False)
    return np.asarray(labels)


def weights_of(where: str, weights: Any, rows: int) -> npt.NDArray[np.float32] | None:
    """Weights of samples as float32, (rows,); None where none are given."""
    if weights is None:
        return None
    refuse_masked(f"{where}: sample_weight", weights)
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{where}: sample_weight: no numbers: {error}") from error
    if array.ndim == 0:
        array = np.full(rows, float(array))
    if array.shape != (rows,):
        raise rejected(f"{where}: sample_weight", array.shape, f"one number a row, {rows}")
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        row = int(good.argmin())
        found = float(array[row])
        raise rejected(f"{where}: sample_weight, row {row}", found, "finite numbers from 0 on")
    if array.size and array.max() > _MOST:
        row = int(array.argmax())
        allowed = f"numbers up to {_MOST:.3g}, the largest of float32: divide all of them"
        raise rejected(f"{where}: sample_weight, row {row}", float(array[row]), allowed)
    if not (array > 0).any():
        raise InvalidArgument(f"{where}: sample_weight: every weight is zero, so no row counts")
    return array.astype(np.float32)


def check_columns(where: str, names: Sequence[str], expected: int) -> None:
    """Complains where an array has another number of columns than the one of fit()."""
    if len(names) != expected:
        raise InvalidArgument(
            f"{where}: X has {len(names)} features, but {where.partition('.')[0]} is expecting "
            f"{expected} features as input"
        )
