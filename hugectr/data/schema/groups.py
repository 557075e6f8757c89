# SPDX-License-Identifier: Apache-2.0
"""Groups of rows as int64: integers as they are, in numbers or in text; other text hashed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hugectr.data.schema.keys import (
    INTEGER,
    FieldKeys,
    Keys,
    as_texts,
    category_keys,
    integers,
)
from hugectr.data.schema.values import RowError, is_text, plain


def group_ids(column: str, array: pa.Array, first_row: int, seed: int) -> Keys:
    """The group of every row; equal values have equal ids, whatever type they came in.

    Raises
    ------
    DataError
        When a row has none, or for lists.
    """
    missing = np.asarray(array.is_null(nan_is_null=True))
    if missing.any():
        row = first_row + int(missing.argmax())
        raise RowError(column, row, "the group is missing; give each row one")
    array = plain(array)
    array = array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array
    texts = as_texts(column, array, first_row)
    if not is_text(texts.type):
        return category_keys(column, texts, first_row, "text", FieldKeys.of(column, seed))
    whole = pc.match_substring_regex(texts, INTEGER)
    nothing = pa.scalar(None, texts.type)
    numbers = integers(pc.if_else(whole, texts, nothing)).fill_null(0)
    if pc.all(whole).as_py():
        return np.asarray(numbers)
    hashed = category_keys(column, texts, first_row, "text", FieldKeys.of(column, seed))
    return np.where(np.asarray(whole), np.asarray(numbers), hashed)
