# SPDX-License-Identifier: Apache-2.0
"""Lists of categories as keys and row offsets, from lists or from text with a separator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hugectr.data.schema.fields import ListField, SequenceField
from hugectr.data.schema.keys import FieldKeys, Keys, category_keys
from hugectr.data.schema.unseen import Unseen
from hugectr.data.schema.values import bad_type, is_list, is_text, plain, rows_numbered

Int64s = npt.NDArray[np.int64]


def split(field: ListField, array: pa.Array) -> tuple[pa.Array, Int64s, npt.NDArray[np.bool_]]:
    """The elements of all lists, how many each row has, and which rows are missing.

    Raises
    ------
    DataError
        When the column has neither lists nor text to be separated.
    """
    array = plain(array)
    kind = array.type
    if pa.types.is_null(kind):
        return pa.array([], pa.null()), np.zeros(len(array), np.int64), np.ones(len(array), bool)
    missing = np.asarray(array.is_null())
    if is_text(kind) and field.separator is not None:
        # Splitting makes one element of an empty text; it means an empty list.
        filled = pc.if_else(pc.equal(array, ""), pa.scalar(None, kind), array)
        array = pc.split_pattern(filled, field.separator)
    elif not is_list(kind):
        raise bad_type(
            field.name,
            kind,
            "lists",
            f"give {type(field).__name__} a separator, or call it a CategoricalField",
        )
    kind = array.type
    if not pa.types.is_list(kind) and not pa.types.is_large_list(kind):
        array = array.cast(pa.large_list(kind.value_type))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return array.flatten(), lengths.astype(np.int64), missing


def element_keys(
    field: ListField,
    elements: pa.Array,
    lengths: Int64s,
    first_row: int,
    values: str,
    own: FieldKeys,
    known: Keys | None = None,
) -> Keys:
    """Keys of the elements of lists, (elements,); errors name the row of the list.

    Parameters
    ----------
    field : ListField
    elements : pyarrow.Array
    lengths : ndarray of int64, (rows,)
        As of ``split``.
    first_row, values, own, known
        As of ``category_keys``.
    """

    def row_of(element: int) -> int:
        return first_row + int(np.searchsorted(np.cumsum(lengths), element, side="right"))

    with rows_numbered(row_of):
        return category_keys(field.name, elements, 0, values, own, known)


def list_keys(
    field: ListField,
    array: pa.Array,
    first_row: int,
    values: str,
    own: FieldKeys,
    known: Keys | None,
    max_length: int | None,
    unseen: Unseen | None = None,
) -> tuple[Keys, Int64s]:
    """Keys of all lists, one after the other, and the number of them in each row.

    Parameters
    ----------
    field : ListField
        Of a SequenceField the last elements of a long list count, else the first.
    array, first_row, values, own, known
        As of ``category_keys``.
    max_length : int or None
        Elements that count; None: all.
    unseen : Unseen, optional
        What counts the elements that are not known.

    Returns
    -------
    tuple of (ndarray of int64, (keys,)), (ndarray of int64, (rows,))
    """
    elements, lengths, missing = split(field, array)
    keys = element_keys(field, elements, lengths, first_row, values, own, known)
    if unseen is not None:
        unseen.add(field.name, elements, keys, own, known, values)
    if max_length is not None and lengths.size and lengths.max() > max_length:
        starts = np.cumsum(lengths) - lengths
        place = np.arange(len(keys)) - np.repeat(starts, lengths)
        if isinstance(field, SequenceField):
            keep = place >= np.repeat(lengths - max_length, lengths)
        else:
            keep = place < max_length
        keys, lengths = keys[keep], np.minimum(lengths, max_length)
    if missing.any():
        lengths = np.where(missing, 1, lengths)
        whole = np.full(int(lengths.sum()), own.missing, np.int64)
        whole[np.repeat(~missing, lengths)] = keys
        keys = whole
    return keys, lengths
