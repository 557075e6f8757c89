# SPDX-License-Identifier: Apache-2.0
"""The schema of a data set: which column is what, and what was learnt of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from hugectr.base.arguments import check_int, check_names
from hugectr.base.errors import InvalidArgument
from hugectr.data.schema.counts import Categories
from hugectr.data.schema.encode import EncodedData
from hugectr.data.schema.encode_source import encode_all, encode_in_batches
from hugectr.data.schema.fields import (
    CategoricalField,
    DenseField,
    Field,
    IgnoredField,
    ListField,
    SequenceField,
    TimestampField,
)
from hugectr.data.schema.files_in_turn import rows_of_files
from hugectr.data.schema.fit import State, fit_fields, learns
from hugectr.data.schema.infer import check_sequences, infer_fields
from hugectr.data.schema.input_layer import InputLayer, input_layer
from hugectr.data.schema.pieces import BLOCK_ROWS, blocks
from hugectr.data.schema.show import as_html, as_text
from hugectr.data.schema.sources import open_source
from hugectr.data.schema.together import check_fields, replaced, shared
from hugectr.data.schema.vocabulary import key_of, value_of

_F = TypeVar("_F", bound=Field)


class Schema:
    """Which column is what, and what was learnt of each: the same at training and at prediction.

    Parameters
    ----------
    fields : sequence of Field
        One a column; columns without a field are not looked at.
    seed : int
        Of the hash of categories, 64 bits.

    Raises
    ------
    InvalidArgument
        When a column has two fields, or two fields a role of which there is one.

    Examples
    --------
    >>> frame = {"city": ["Rome", None, "Oslo", "Rome"], "age": [31.0, 25.0, None, 40.0],
    ...          "clicked": [1, 0, 0, 1]}
    >>> schema = Schema.infer(frame, label="clicked", categorical=["city"])
    >>> schema.encode({"city": ["Bern"], "age": [30]}, labels=False).dense.shape
    (1, 2)
    """

    def __init__(self, fields: Sequence[Field], *, seed: int = 0) -> None:
        self._fields = tuple(fields)
        self._seed = check_int("Schema: seed", seed, 0, 2**64 - 1)
        self._state: dict[str, State] = {}
        self._fitted = False
        check_fields(self._fields)

    @classmethod
    def infer(
        cls,
        data: Any,
        label: str | Sequence[str] = (),
        *,
        weight: str | None = None,
        group: str | None = None,
        timestamp: str | None = None,
        ignore: Sequence[str] = (),
        categorical: Sequence[str] = (),
        dense: Sequence[str] = (),
        fields: Sequence[Field] = (),
        sequences: Mapping[str, str | None] | Sequence[str] = (),
        sample_rows: int = 131_072,
        seed: int = 0,
        fit: bool = True,
    ) -> Schema:
        """Find out what the columns are, and fit the schema in the same pass.

        Parameters
        ----------
        data : DataFrame, Arrow data, dict, list or path
            pandas, polars and everything with ``__arrow_c_stream__``; pyarrow Table, RecordBatch,
            RecordBatchReader, Dataset; a dict of arrays or a list of dicts; the path of a CSV
            (``.csv``, ``.tsv``), JSON lines (``.jsonl``, ``.ndjson``, ``.json``) or Parquet file or
            folder, or a list of paths. ``.gz`` and ``.zst`` behind the ending of a text file too.
        label : str or sequence of str
            What is predicted; none: a schema for data without labels.
        weight, group, timestamp : str or None
            Columns with these roles. A group may have another role too, such as ``categorical``.
        ignore, categorical, dense : sequence of str
            Columns that are this, whatever the rules below say.
        fields : sequence of Field
            Columns whose field is written down.
        sequences : mapping of str to (str or None), or sequence of str
            Columns whose lists are in an order, oldest first, and the column that each is the
            history of, such as ``{"seen": "item"}``: a SequenceField with that ``target``. Text is
            split at the first of ``|``, ``;``, ``,`` and blanks that is in it. Of sequences of over
            50 steps the last 50 count; a SequenceField among ``fields`` says otherwise.
        sample_rows : int
            Rows that are looked at, the first ones.
        seed : int
            As of Schema.
        fit : bool
            Whether to learn means, categories and the like from all rows too.

        Returns
        -------
        Schema

        Raises
        ------
        InvalidArgument
            When an argument can not be right.
        DataError
            When data can not have its role; names column, row and value.

        Notes
        -----
        The first rule that fits decides, on the values that are there:

        1. no value at all: ignored;
        2. dictionary-encoded (pandas ``category``) or boolean: categorical;
        3. lists of text, integers or booleans: list; other lists: ignored;
        4. timestamps, dates and ISO 8601 text: timestamp, with hour and weekday as dense features;
        5. text and integers (also floats that are integers with gaps) of which each of at least 100
           values comes once: ignored as an id; other text: categorical;
        6. integers (also as floats with gaps) of at most 10 different values that come twice on
           average, with one different value in 50 rows or more, of which float64 does not tell all
           apart, in a column whose name ends in a word such as id, code, user or city, or that come
           twice on average and lie evenly in a range of which they take a hundredth: categorical;
        7. other numbers: dense, scaled to mean 0 and deviation 1, gaps filled with the mean and
           flagged where the sample has some; by their logarithm where the farthest value lies
           over 10 standard deviations from the mean;
        8. everything else: ignored.

        Columns of CSV are text, in which the sample is looked for booleans (true, false), integers
        (007 is text) and floats first.
        """
        roles = {
            "label": check_names("Schema.infer: label", label),
            "weight": [] if weight is None else [weight],
            "group": [] if group is None else [group],
            "timestamp": [] if timestamp is None else [timestamp],
            "ignore": check_names("Schema.infer: ignore", ignore),
            "categorical": check_names("Schema.infer: categorical", categorical),
            "dense": check_names("Schema.infer: dense", dense),
        }
        given = {field.name: field for field in fields}
        rows = check_int("Schema.infer: sample_rows", sample_rows, 1)
        histories = check_sequences("Schema.infer: sequences", sequences)
        source = open_source(data)
        with rows_of_files(source.files):
            found, tables = infer_fields(source, roles, given, rows, histories)
            schema = cls(found, seed=seed)
            return schema._fit_tables(tables) if fit else schema

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields in the order of their columns."""
        return self._fields

    @property
    def seed(self) -> int:
        """Of the hash of categories."""
        return self._seed

    @property
    def state(self) -> dict[str, State]:
        """What fit() has learnt, by column; empty before it."""
        return self._state

    @property
    def fitted(self) -> bool:
        """Whether fit() has been there, so that data can be encoded."""
        return self._fitted

    def of_kind(self, kind: type[_F]) -> list[_F]:
        """The fields of a kind, or of one made of it."""
        return [field for field in self._fields if isinstance(field, kind)]

    @property
    def categorical_fields(self) -> list[CategoricalField]:
        """The fields of one category a row."""
        return [f for f in self.of_kind(CategoricalField) if not isinstance(f, ListField)]

    @property
    def shared(self) -> dict[CategoricalField, list[SequenceField]]:
        """Targets and their histories, which share keys and a sparse input."""
        return shared(self._fields)

    @property
    def one_hot_fields(self) -> list[CategoricalField]:
        """The fields of one category a row that have no history: slots of one sparse input."""
        targets = self.shared
        return [field for field in self.categorical_fields if field not in targets]

    @property
    def dense_names(self) -> list[str]:
        """What the columns of ``EncodedData.dense`` are."""
        names = []
        for field in self.of_kind(DenseField):
            names += [field.name, *([f"{field.name} is missing"] if field.indicator else [])]
        for time in self.of_kind(TimestampField):
            names += [f"{time.name} {cycle} {f}" for cycle in time.cyclic for f in ("sin", "cos")]
        return names

    def max_length(self, field: ListField) -> int | None:
        """Elements of a list that count; None before fit() where the field does not say."""
        state = self._state.get(field.name)
        longest = state.longest if isinstance(state, Categories) else None
        return field.max_length if field.max_length is not None else longest

    def replace(self, *fields: Field) -> Schema:
        """A schema with other fields for these columns, not fitted.

        Raises
        ------
        InvalidArgument
            When there is no such column.
        """
        known = replaced(self._fields, fields)
        return Schema(known, seed=self._seed)

    def input_layer(self) -> InputLayer:
        """What a model needs to know: names, slots, sizes.

        Raises
        ------
        InvalidArgument
            Before fit().
        """
        self._need_fit("input_layer")
        return input_layer(self)

    def fit(self, data: Any) -> Schema:
        """Learn means, medians, categories and the like, in one pass and bounded memory.

        Parameters
        ----------
        data
            As of ``infer``; its order, and how it is cut into batches or files, changes nothing
            but the last bits of means.

        Returns
        -------
        Schema
            This one; what it had learnt before is forgotten.

        Raises
        ------
        DataError
            When a column is missing, or a value is not what its field says.
        """
        source = open_source(data)
        used = [field for field in self._fields if not isinstance(field, IgnoredField)]
        if not used:
            raise InvalidArgument("Schema.fit: the schema has no fields but ignored ones")
        # Where nothing is to be learnt, that there are rows.
        names = [field.name for field in [f for f in used if learns(f)] or used[:1]]
        source.check(names)
        with rows_of_files(source.files):
            return self._fit_tables(blocks(source.tables(names)))

    def _fit_tables(self, tables: Iterator[pa.Table]) -> Schema:
        self._state = fit_fields(self._fields, self._seed, tables)
        self._fitted = True
        return self

    def encode(self, data: Any, labels: bool = True) -> EncodedData:
        """Rows as samples.

        Parameters
        ----------
        data
            As of ``infer``, with the columns of the schema in any order; others are not looked at.
        labels : bool
            Whether the data has labels (and weights); without, ``label`` has no columns.

        Returns
        -------
        EncodedData
            A MemoryDataset, usable as ``source`` of DataReaderParams, with int64 keys. A row's
            numbers depend on that row and the schema alone. Categories that fit() did not know are
            those that are rare; one warning a call where that looks like a slip (numbers where
            there was text, or 100 values or more of a column and none of them known).

        Raises
        ------
        InvalidArgument
            Before fit().
        DataError
            When a column is missing, a value is not what its field says, or there are no rows.
        """
        self._need_fit("encode")
        return encode_all(self, data, labels)

    def encode_batches(
        self, data: Any, rows: int = BLOCK_ROWS, labels: bool = True
    ) -> Iterator[EncodedData]:
        """Samples of so many rows at a time, for data that memory does not hold.

        Parameters
        ----------
        data, labels
            As of ``encode``.
        rows : int
            Rows of a batch; the last may have fewer.

        Yields
        ------
        EncodedData
        """
        check_int("Schema.encode_batches: rows", rows, 1)
        self._need_fit("encode_batches")
        return encode_in_batches(self, data, labels, rows)

    def _need_fit(self, call: str) -> None:
        if not self._fitted:
            raise InvalidArgument(f"Schema.{call}: the schema is not fitted; call fit(data) first")

    def key_of(self, column: str, value: Any) -> int:
        """The key of a category, as it is encoded; None has the key of what is missing.

        Raises
        ------
        InvalidArgument
            When the column has no categories, or before fit().
        """
        self._need_fit("key_of")
        return key_of(self, column, value)

    def value_of(self, column: str, key: int) -> str | int | float | None:
        """The category of a key; None for the keys of missing and of rare ones.

        Raises
        ------
        InvalidArgument
            When the field has no vocabulary, or no category has this key.
        """
        self._need_fit("value_of")
        return value_of(self, column, key)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the schema into a folder, which is made where it is not there.

        ``schema.json`` has fields, means and the like, the other files known keys and vocabularies.
        An interrupted save leaves what was there before.

        Raises
        ------
        OSError
            When it can not be written.
        """
        from hugectr.data.schema.storage import save

        save(self, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Schema:
        """Read the schema of a folder; nothing in it is run, and all of it is checked.

        Raises
        ------
        DataError
            When it is missing, damaged, or of a later version.
        """
        from hugectr.data.schema.storage import load

        return load(folder)

    def to_json(self) -> str:
        """Fields and what was learnt, without keys and vocabularies, as JSON."""
        from hugectr.data.schema.storage import to_json

        return to_json(self)

    @classmethod
    def _restored(
        cls, fields: Sequence[Field], seed: int, state: dict[str, State] | None
    ) -> Schema:
        schema = cls(fields, seed=seed)
        schema._state, schema._fitted = state or {}, state is not None
        return schema

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)
