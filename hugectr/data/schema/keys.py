# SPDX-License-Identifier: Apache-2.0
"""Keys of categories: which number stands for a value in an embedding table.

A value is brought into the one form in which the field compares values, text or numbers, and the
core hashes the bytes of that (``core/cpp/data/key_hash.hpp``), salted with the field's name.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hugectr import _core
from hugectr.base.errors import DataError
from hugectr.data.schema.values import (
    bad_type,
    bad_value,
    first_failing,
    is_list,
    is_text,
    parse_numbers,
    plain,
    value_at,
)

Keys = npt.NDArray[np.int64]

#: The greatest key a value can have; the one above is reserved by the tables.
LARGEST_KEY = 2**63 - 2
#: Integers of text that int64 holds for certain, and those of any size.
INTEGER = r"^[+-]?[0-9]{1,18}$"
_WHOLE = r"^[+-]?[0-9]+$"
_LIST_WAY_OUT = "call it a ListField, or make it one value a row"


def _special_key(seed: int, word: bytes) -> int:
    # Another seed than that of values, so that no value is this word.
    return min(_core.xxh64(word, seed ^ 0x5A5A5A5A5A5A5A5A) >> 1, LARGEST_KEY)


@dataclass(frozen=True)
class FieldKeys:
    """The numbers that are a field's own, functions of the schema's seed and its name.

    Attributes
    ----------
    seed : int
        64 bits, the seed of the hash of its values.
    missing, rare : int
        Keys of what is missing, and of rare and unseen categories.
    """

    seed: int
    missing: int
    rare: int

    @classmethod
    def of(cls, name: str, seed: int) -> FieldKeys:
        """Those of the field of this name."""
        own = _core.xxh64(name.encode(), seed)
        return cls(own, _special_key(own, b"missing"), _special_key(own, b"rare"))


def values_of_type(kind: pa.DataType) -> str | None:
    """How a column of this type is compared; None for one of nulls, which says nothing."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_list(kind):
        kind = kind.value_type
        return values_of_type(kind)
    if pa.types.is_null(kind):
        return None
    numbers = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )
    return "numbers" if numbers else "text"


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a type is bytes of any layout."""
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _float_texts(array: pa.Array) -> pa.Array:
    """Floats as text, whole ones as that of the integer; NaN becomes null."""
    values = array.cast(pa.float64())
    floats = values.to_numpy(zero_copy_only=False)
    whole = (floats == np.floor(floats)) & (np.abs(floats) < 2.0**63)
    integers = pa.array(np.where(whole, floats, 0).astype(np.int64)).cast(pa.string())
    texts = pc.if_else(pa.array(whole), integers, values.cast(pa.string()))
    return pc.if_else(pa.array(np.isnan(floats)), pa.scalar(None, pa.string()), texts)


def as_texts(column: str, array: pa.Array, first_row: int = 0) -> pa.Array:
    """A column as text, in which 7, 7.0 and "7" are the same.

    Raises
    ------
    DataError
        For lists, and for times that can not be written, such as those of a zone nobody knows.
    """
    kind = array.type
    if is_text(kind) or is_bytes(kind) or pa.types.is_null(kind):
        return array
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _float_texts(array)
    if is_list(kind) or pa.types.is_nested(kind):
        raise bad_type(column, kind, "one category a row", _LIST_WAY_OUT)
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.string())
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        there = int(np.asarray(array.is_valid()).argmax())  # of an unknown zone all values fail
        place = max(first_failing(array, lambda part: part.cast(pa.string())), there)
        raise bad_value(
            column,
            first_row + place,
            value_at(array, place),
            "can not be written as text",
            "give the times a zone that is known (Europe/Rome, +01:00), or cast them to UTC",
        ) from None
    except pa.ArrowException:  # no text of such a type
        raise bad_type(column, kind, "one category a row", _LIST_WAY_OUT) from None


def integers(text: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Text of integers as such; null stays null.

    Parameters
    ----------
    text : pyarrow.Array
        Matches ``INTEGER``, or has what ``kind`` holds.
    kind : pyarrow.DataType, optional
        None: int64.
    """
    return pc.replace_substring_regex(text, r"^\+", "").cast(kind or pa.int64())


def _held(text: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Which text is an integer that int64 holds, and which one that uint64 alone does."""
    whole = pc.match_substring_regex(text, _WHOLE)
    negative = pc.starts_with(text, "-")
    digits = pc.ascii_ltrim(text, characters="+-0")
    length = pc.binary_length(digits)

    def at_most(most: int) -> pa.Array:
        shown = str(most)
        as_long = pc.and_(pc.equal(length, len(shown)), pc.less_equal(digits, shown))
        return pc.or_(pc.less(length, len(shown)), as_long)

    signed = pc.if_else(negative, at_most(2**63), at_most(2**63 - 1))
    signed = pc.fill_null(pc.and_(whole, signed), False)
    beyond = pc.fill_null(pc.and_(whole, pc.and_not(at_most(2**64 - 1), negative)), False)
    return signed, pc.and_not(beyond, signed)


def _hash(array: pa.Array, own: FieldKeys, known: Keys | None) -> Keys:
    return _core.hash_keys(array, own.seed, own.missing, known, own.rare)


def _number_keys(
    column: str, array: pa.Array, first_row: int, own: FieldKeys, known: Keys | None
) -> Keys:
    kind = array.type
    if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
        array = array.cast(pa.float64())
    if not is_text(kind):
        if is_list(kind) or pa.types.is_nested(kind):
            raise bad_type(column, kind, "one category a row", _LIST_WAY_OUT)
        if pa.types.is_temporal(kind) or is_bytes(kind):
            raise bad_type(
                column, kind, "numbers", "fit the schema to it, or CategoricalField(values='text')"
            )
        return _hash(array, own, known)
    # An integer of text keeps all its digits, whatever stands in the other rows.
    text = pc.utf8_trim_whitespace(plain(array))
    if pc.all(pc.match_substring_regex(text, INTEGER)).as_py() is not False:
        return _hash(integers(text), own, known)
    nothing = pa.scalar(None, text.type)
    signed, beyond = _held(text)
    keys = _hash(integers(pc.if_else(signed, text, nothing)), own, known)
    if pc.any(beyond).as_py():
        large = integers(pc.if_else(beyond, text, nothing), pa.uint64())
        keys = np.where(np.asarray(beyond), _hash(large, own, known), keys)
    whole = pc.or_(signed, beyond)
    others = parse_numbers(
        column,
        pc.if_else(whole, nothing, text),
        first_row,
        "the field has numbers: correct it, or fit a CategoricalField(values='text')",
    )
    return np.where(np.asarray(whole), keys, _hash(others, own, known))


def category_keys(
    column: str,
    array: pa.Array,
    first_row: int,
    values: str,
    own: FieldKeys,
    known: Keys | None = None,
) -> Keys:
    """The key of every value.

    Parameters
    ----------
    column : str
        Name of the column, for complaints.
    array : pyarrow.Array
    first_row : int
        Number of its first row in all of the data.
    values : {"text", "numbers"}
        What values are compared as.
    own : FieldKeys
    known : ndarray of int64 or None
        Ascending; other keys become ``own.rare``. None: all stay as they are.

    Returns
    -------
    ndarray of int64, (rows,)

    Raises
    ------
    DataError
        For lists, and for text that is no number where values are numbers.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_fixed_size_binary(array.type):  # UUIDs, for one
        array = array.cast(pa.binary())
    if pa.types.is_dictionary(array.type):  # hashed once a category, not once a row
        try:
            of_words = category_keys(column, array.dictionary, first_row, values, own, known)
        except DataError:  # of a word that no row may have, and whose place is no row's
            return category_keys(column, plain(array), first_row, values, own, known)
        places = array.indices.fill_null(len(of_words)).to_numpy(zero_copy_only=False)
        keys: Keys = np.append(of_words, own.missing).take(places.astype(np.int64))
        return keys
    if values == "numbers":
        return _number_keys(column, array, first_row, own, known)
    texts = as_texts(column, array, first_row)
    return _hash(texts, own, known)
