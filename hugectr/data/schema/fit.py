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
from hugectr.data.schema.lists import element_keys, split
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


class _Shared:
    """What columns learn together that share their categories; most columns are alone."""

    def __init__(self, owner: CategoricalField, seed: int) -> None:
        self.owner = owner
        self.values = owner.values
        self.own = FieldKeys.of(owner.name, seed)
        self.counts = CountsFit(owner.max_known, owner.vocabulary)

    def decide(self, field: CategoricalField, kind: pa.DataType) -> str | None:
        if self.values is None:
            separated = isinstance(field, ListField) and field.separator is not None
            self.values = "text" if separated and is_text(kind) else values_of_type(kind)
        return self.values


class _CategoryFit:
    def __init__(self, field: CategoricalField, shared: _Shared) -> None:
        self._field, self._shared = field, shared
        self._own = shared.own
        self._rows = self._missing = 0
        self._longest = 1

    def add(self, array: pa.Array, first_row: int) -> None:
        self._rows += len(array)
        values = self._shared.decide(self._field, array.type)
        if values is None:  # nulls alone so far
            self._missing += len(array)
            return
        if isinstance(self._field, ListField):
            elements, lengths, missing = split(self._field, array)
            self._missing += int(missing.sum())
            self._longest = max(self._longest, int(lengths.max(initial=0)))
            array = elements
            keys = element_keys(self._field, array, lengths, first_row, values, self._own)
        else:
            keys = category_keys(self._field.name, array, first_row, values, self._own)
            self._missing += int((keys == self._own.missing).sum())
        if self._shared.owner.vocabulary:
            array = plain(array)
            array = as_texts(self._field.name, array) if values == "text" else array
            if is_text(array.type):
                array = pc.utf8_trim_whitespace(array) if values == "numbers" else array
        self._shared.counts.add(keys, array, self._own.missing)

    def finish(self) -> Categories:
        shared = self._shared
        known, words = shared.counts.finish(shared.owner.min_count)
        return Categories(
            shared.values or "text",
            self._rows,
            self._missing,
            shared.counts.distinct,
            known,
            words,
            self._longest,
        )


def _fits_of(fields: Sequence[Field], seed: int) -> dict[str, _FieldFit]:
    """By name, targets before their histories: their type decides what both are compared as."""
    fits: dict[str, _FieldFit] = {}
    shared: dict[str, _Shared] = {}
    for field in sorted(
        fields, key=lambda f: isinstance(f, CategoricalField) and f.owner != f.name
    ):
        if isinstance(field, LabelField):
            fits[field.name] = _LabelFit(field)
        elif isinstance(field, DenseField):
            fits[field.name] = _DenseFit(field)
        elif isinstance(field, CategoricalField):
            if field.owner == field.name:
                shared[field.name] = _Shared(field, seed)
            fits[field.name] = _CategoryFit(field, shared[field.owner])
    return fits


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
    fits = _fits_of(fields, seed)
    row = 0
    for table in tables:
        for name, fit in fits.items():
            fit.add(one_array(table.column(name)), row)
        row += table.num_rows
    if row == 0:
        raise DataError("the data has no rows; a schema is fitted to at least one")
    return {name: fit.finish() for name, fit in fits.items()}
