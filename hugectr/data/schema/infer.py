# SPDX-License-Identifier: Apache-2.0
"""What the columns of a table are likely to be. The rules are in the docstring of Schema.infer."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hugectr.base.arguments import check_names, check_str
from hugectr.base.errors import DataError, rejected
from hugectr.data.schema.fields import (
    CategoricalField,
    DenseField,
    Field,
    GroupField,
    IgnoredField,
    LabelField,
    ListField,
    SequenceField,
    TimestampField,
    WeightField,
)
from hugectr.data.schema.fit import DENSE_WAY_OUT
from hugectr.data.schema.hints import tell_of
from hugectr.data.schema.identifiers import named_so, scattered
from hugectr.data.schema.keys import FieldKeys, category_keys, is_bytes, values_of_type
from hugectr.data.schema.lists import split
from hugectr.data.schema.moments import EXPONENT, LARGE
from hugectr.data.schema.no_feature import reason
from hugectr.data.schema.pieces import BLOCK_ROWS, blocks, joined_tables
from hugectr.data.schema.sources import Source
from hugectr.data.schema.times import nanoseconds, zoned
from hugectr.data.schema.values import (
    Float64s,
    as_numbers,
    is_list,
    is_nested,
    is_text,
    numbers_of,
    one_array,
    plain,
)

#: Arguments of Schema.infer to the columns they name.
Roles = Mapping[str, Sequence[str]]
#: Columns of sequences, and their targets.
Sequences = Mapping[str, str | None]

#: Rows from which on a value of its own in every row makes a column an id.
ID_ROWS = 100
#: Integers with so few different values are categories, or with one in so many rows.
FEW_VALUES, ROWS_A_VALUE = 10, 50
#: Standard deviations that the farthest value lies from the mean where logarithms help.
FAR = 10.0

#: Steps of a sequence that count where nobody says: the vectors of all are in a batch.
LONG = 50

_INTEGER = r"^-?(0|[1-9][0-9]*)$"  # 007 is a code, not a number
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}|$)"


def _all_match(text: pa.Array, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(text, pattern)).as_py() is True


def typed(text: pa.Array) -> pa.Array:
    """Text of a format without types, as booleans, integers or floats if all of it is."""
    if text.null_count == len(text):
        return pa.nulls(len(text))
    trimmed = pc.utf8_trim_whitespace(text)
    words = pc.utf8_lower(trimmed)
    if pc.all(pc.is_in(words, pa.array(["true", "false"]), skip_nulls=True)).as_py() and (
        text.null_count == 0
    ):
        return pc.equal(words, "true")
    if _all_match(trimmed, _INTEGER):
        for kind in (pa.int64(), pa.uint64()):
            with contextlib.suppress(pa.ArrowInvalid):
                return trimmed.cast(kind)
        # Longer ones are codes if floats do not tell them apart.
        numbers = numbers_of(trimmed)
        if numbers is None or len(pc.unique(trimmed)) > len(pc.unique(numbers)):
            return text
    if not pc.any(pc.match_substring_regex(trimmed, "^-?0[0-9]")).as_py():
        numbers = numbers_of(trimmed)
        return text if numbers is None else numbers
    return text


def _times(text: pa.Array) -> pa.Array | None:
    """ISO 8601 text as times or dates, None when it is something else."""
    trimmed = pc.utf8_trim_whitespace(plain(text))
    if not _all_match(trimmed, _TIME):
        return None
    try:
        times = pa.array(nanoseconds(TimestampField("time"), trimmed, 0), pa.timestamp("ns"))
    except DataError:
        return None
    return times.cast(pa.date32()) if _all_match(trimmed, _DATE) else times


def _distinct(name: str, array: pa.Array, values: str) -> tuple[int, int]:
    """Different values, and values that are there."""
    own = FieldKeys.of(name, 0)
    keys = category_keys(name, array, 0, values, own)
    there = keys[keys != own.missing]
    return len(pc.unique(pa.array(there))), len(there)


def _is_id(distinct: int, there: int) -> bool:
    return there >= ID_ROWS and distinct == there


def _id(name: str, there: int) -> IgnoredField:
    return IgnoredField(name, f"an id: {there} rows have {there} values")


def _dense(name: str, values: Float64s) -> DenseField:
    there = values[~np.isnan(values)]
    gaps = len(there) < len(values)
    log = False
    if len(there):
        if np.abs(there).max() > LARGE:
            there = np.ldexp(there, -EXPONENT)
        far, spread = float(np.abs(there - there.mean()).max()), float(there.std())
        log = far > FAR * spread > 0
    return DenseField(name, indicator=gaps, log=log)


def _category(name: str, array: pa.Array, values: str) -> Field:
    distinct, there = _distinct(name, array, values)
    return _id(name, there) if _is_id(distinct, there) else CategoricalField(name)


def _numbers(name: str, array: pa.Array) -> Field:
    values = as_numbers(name, array, 0, DENSE_WAY_OUT)
    there = values[~np.isnan(values)]
    whole = bool((there == np.floor(there)).all())
    if whole and len(there):
        distinct, rows = _distinct(name, plain(array), "numbers")
        # Floats without a fraction are as often measured as counted; only integers are ids.
        integers = pa.types.is_integer(array.type) or len(there) < len(values)
        if integers and _is_id(distinct, rows):
            return _id(name, rows)
        few = distinct <= FEW_VALUES and 2 * distinct <= rows
        different = np.unique(there)
        merged = len(different) < distinct  # as numbers some were the same
        names = named_so(name) or (2 * distinct <= rows and scattered(name, different))
        if integers and (few or merged or names or distinct * ROWS_A_VALUE <= rows):
            return CategoricalField(name)
    return _dense(name, values)


def infer_field(name: str, array: pa.Array) -> Field:
    """The field that a column is likely to be, by its type and its values."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if array.null_count == len(array) or pa.types.is_null(kind):
        return IgnoredField(name, "no row has a value")
    if pa.types.is_dictionary(kind):
        if is_nested(kind.value_type):  # intervals of pandas, for one
            return IgnoredField(name, reason(kind))
        return CategoricalField(name)
    if is_list(kind):
        of = kind.value_type
        if is_text(of) or pa.types.is_integer(of) or pa.types.is_boolean(of):
            return ListField(name)
        return IgnoredField(name, reason(kind))
    if pa.types.is_boolean(kind):
        return CategoricalField(name)
    if is_text(kind):
        times = _times(array)
        if times is not None:
            return replace(_time_field(name, times), zoned=zoned(array))
        field = _category(name, array, "text")
        if isinstance(field, CategoricalField):
            tell_of(name, plain(array))
        return field
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _time_field(name, array)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _numbers(name, array)
    if is_bytes(kind):
        return _category(name, array, "text")
    return IgnoredField(name, reason(kind))


def _time_field(name: str, array: pa.Array) -> TimestampField:
    cyclic = ("weekday",) if pa.types.is_date(array.type) else ("hour", "weekday")
    return TimestampField(name, cyclic, zoned=zoned(array))


def _of_values(field: Field, array: pa.Array, untyped: bool) -> Field:
    """The field, compared as what was found where the format itself has text alone."""
    if untyped and isinstance(field, CategoricalField) and field.values is None:
        return type(field)(field.name, values=values_of_type(array.type) or "text")
    return field


#: What may stand between the steps of a sequence of text: the first that does is taken.
_SEPARATORS = ("|", ";", ",", " ")


def _sequence(name: str, array: pa.Array, target: str | None) -> SequenceField:
    """A column that was called a sequence."""
    kind, separator = plain(array).type, None
    if is_text(kind):
        text = plain(array)
        found = (one for one in _SEPARATORS if pc.any(pc.match_substring(text, one)).as_py())
        separator = next(found, _SEPARATORS[0])
    field = SequenceField(name, separator=separator, target=target)
    _, lengths, _ = split(field, array)
    long = int(lengths.max(initial=0)) > LONG
    return replace(field, max_length=LONG) if long else field


def _with_role(role: str, name: str, array: pa.Array) -> Field:
    if role == "label":
        return LabelField(name)
    if role == "weight":
        return WeightField(name)
    if role == "group":
        return GroupField(name)
    if role == "timestamp":
        return _time_field(name, array)
    if role == "dense":
        return _dense(name, as_numbers(name, array, 0, DENSE_WAY_OUT))
    return CategoricalField(name) if role == "categorical" else infer_field(name, array)


def check_sequences(where: str, value: Any) -> dict[str, str | None]:
    """Columns of sequences, and the column that each is the history of.

    Raises
    ------
    InvalidArgument
        When it is neither a mapping of such names nor a list of them.
    """
    if not isinstance(value, Mapping):
        return dict.fromkeys(check_names(where, value))
    for name, target in value.items():
        check_str(where, name, empty=False)
        if target is not None:
            check_str(f"{where}[{name!r}]", target, empty=False)
    return dict(value)


def _roles_of(roles: Roles, given: Mapping[str, Field], sequences: Sequences) -> dict[str, str]:
    """The role of each column that was given one; a column has one."""
    found: dict[str, str] = {}
    others = [*roles.items(), ("fields", list(given)), ("sequences", list(sequences))]
    # The group comes last: it may be a feature too.
    for role, names in sorted(others, key=lambda one: one[0] == "group"):
        for name in names:
            check_str(f"Schema.infer: {role}", name, empty=False)
            if role == "group" and name in found:
                continue
            if name in found:
                both = f"{found[name]} and {role}"
                raise rejected(f"Schema.infer: column {name!r}", both, "one of the two")
            found[name] = role
    for target in sequences.values():
        if target is not None:
            found.setdefault(target, "categorical")
    return found


def infer_fields(
    source: Source,
    roles: Roles,
    given: Mapping[str, Field],
    sample_rows: int,
    sequences: Sequences,
) -> tuple[list[Field], Iterator[pa.Table]]:
    """A field for each column of a source.

    Parameters
    ----------
    source : Source
        Read once, and only so far as the sample goes.
    roles : mapping of str to sequence of str
        Arguments of ``Schema.infer`` to names of columns.
    given : mapping of str to Field
        Fields that were written down.
    sample_rows : int
        Rows that are looked at.
    sequences : mapping of str to (str or None)
        As ``check_sequences`` returns it.

    Returns
    -------
    tuple of (list of Field, iterator of pyarrow.Table)
        And all rows in blocks, those of the sample included, without ignored columns.
    """
    role_of = _roles_of(roles, given, sequences)
    source.check(list(role_of))
    source.check(source.names)
    if "" in source.names:
        raise DataError(
            f"{source.what} has a column without a name (its name is an empty text): give it one, "
            "or leave the column out"
        )
    wanted = [name for name in source.names if role_of.get(name) != "ignore"]
    rows = blocks(source.tables(wanted))
    parts = list(itertools.islice(rows, -(-sample_rows // BLOCK_ROWS)))
    if not parts:
        raise DataError(f"{source.what} has no rows; a schema is inferred from at least one")
    sample = joined_tables(parts).slice(0, sample_rows)
    fields: list[Field] = []
    for name in source.names:
        if name in given:
            fields.append(given[name])
        elif role_of.get(name) == "ignore":
            fields.append(IgnoredField(name, "said so"))
        elif name in sequences:
            array = one_array(sample.column(name))
            fields.append(_sequence(name, array, sequences[name]))
        else:
            array = one_array(sample.column(name))
            if source.untyped and is_text(array.type):
                array = typed(array)
            field = _with_role(role_of.get(name, ""), name, array)
            fields.append(_of_values(field, array, source.untyped))
    fields += [GroupField(name) for name in roles["group"] if role_of[name] != "group"]
    return fields, itertools.chain(parts, rows)
