# SPDX-License-Identifier: Apache-2.0
"""One pass over data in which the fields of a schema learn what they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hugectr.base.errors import DataError
from hugectr.data.schema.counts import Categories, CountsFit
from hugectr.data.schema.fields import (
    CategoricalField,
    DenseField,
    Field,
    LabelField,
    ListField,
)
from hugectr.data.schema.keys import FieldKeys, as_texts, category_keys, values_of_type
from hugectr.data.schema.lists import split
from hugectr.data.schema.moments import Moments, MomentsFit
from hugectr.data.schema.values import as_numbers, is_text, one_array, plain, without_gaps

State = Moments | Categories
DENSE_WAY_OUT = "correct it, or call the column a CategoricalField"
LABEL_WAY_OUT = "make the label a number, such as 0 and 1"


class _FieldFit(Protocol):
    def add(self, array: pa.Array, first_row: int) -> None: ...
    def finish(self) -> State: ...


class _LabelFit:
    def __init__(self, field: Field) -> None:
        self._name, self._moments = field.name, MomentsFit()

    def add(self, array: pa.Array, first_row: int) -> None:
        values = as_numbers(self._name, array, first_row, LABEL_WAY_OUT)
        self._moments.add(without_gaps(self._name, values, first_row, "the label"))

    def finish(self) -> Moments:
        return self._moments.finish()


class _DenseFit:
    def __init__(self, field: DenseField) -> None:
        self._name, self._moments = field.name, MomentsFit(field.log, field.fill == "median")

    def add(self, array: pa.Array, first_row: int) -> None:
        self._moments.add(as_numbers(self._name, array, first_row, DENSE_WAY_OUT))

    def finish(self) -> Moments:
        return self._moments.finish()


class _CategoryFit:
    def __init__(self, field: CategoricalField, seed: int) -> None:
        self._field = field
        self._values = field.values
        self._own = FieldKeys.of(field.name, seed)
        self._counts = CountsFit(field.max_known, field.vocabulary)
        self._rows = self._missing = 0
        self._longest = 1

    def _decide(self, kind: pa.DataType) -> str | None:
        if self._values is None:
            separated = isinstance(self._field, ListField) and self._field.separator is not None
            self._values = "text" if separated and is_text(kind) else values_of_type(kind)
        return self._values

    def add(self, array: pa.Array, first_row: int) -> None:
        self._rows += len(array)
        values = self._decide(array.type)
        if values is None:  # nulls alone so far
            self._missing += len(array)
            return
        if isinstance(self._field, ListField):
            elements, lengths, missing = split(self._field, array)
            self._missing += int(missing.sum())
            self._longest = max(self._longest, int(lengths.max(initial=0)))
            array = elements
            keys = category_keys(self._field.name, array, first_row, values, self._own)
        else:
            keys = category_keys(self._field.name, array, first_row, values, self._own)
            self._missing += int((keys == self._own.missing).sum())
        if self._field.vocabulary:
            array = plain(array)
            array = as_texts(self._field.name, array) if values == "text" else array
            if is_text(array.type):
                array = pc.utf8_trim_whitespace(array) if values == "numbers" else array
        self._counts.add(keys, array, self._own.missing)

    def finish(self) -> Categories:
        known, words = self._counts.finish(self._field.min_count)
        return Categories(
            self._values or "text",
            self._rows,
            self._missing,
            self._counts.distinct,
            known,
            words,
            self._longest,
        )


def _fit_of(field: Field, seed: int) -> _FieldFit | None:
    if isinstance(field, LabelField):
        return _LabelFit(field)
    if isinstance(field, DenseField):
        return _DenseFit(field)
    if isinstance(field, CategoricalField):
        return _CategoryFit(field, seed)
    return None


def learns(field: Field) -> bool:
    """Whether fit() looks at the column of a field."""
    return isinstance(field, LabelField | DenseField | CategoricalField)


def fit_fields(fields: Sequence[Field], seed: int, tables: Iterator[pa.Table]) -> dict[str, State]:
    """What each field that learns has learnt, by name.

    Parameters
    ----------
    fields : sequence of Field
    seed : int
        The schema's.
    tables : iterator of pyarrow.Table
        Blocks of a fixed number of rows.

    Raises
    ------
    DataError
        For values that a field can not have, and for data without rows.
    """
    fits = {field.name: fit for field in fields if (fit := _fit_of(field, seed)) is not None}
    row = 0
    for table in tables:
        for name, fit in fits.items():
            fit.add(one_array(table.column(name)), row)
        row += table.num_rows
    if row == 0:
        raise DataError("the data has no rows; a schema is fitted to at least one")
    return {name: fit.finish() for name, fit in fits.items()}
