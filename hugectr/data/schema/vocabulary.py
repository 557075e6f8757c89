# SPDX-License-Identifier: Apache-2.0
"""From a category to its key and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hugectr.base.arguments import check_int, check_str
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.data.schema.counts import Categories
from hugectr.data.schema.fields import CategoricalField
from hugectr.data.schema.keys import FieldKeys, category_keys

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema


def _categories(schema: Schema, where: str, column: str) -> tuple[Categories, FieldKeys]:
    known = {field.name: field for field in schema.of_kind(CategoricalField)}
    if check_str(where, column) not in known:
        raise rejected(where, column, f"one of {[*known]}{did_you_mean(column, known)}")
    state = schema.state[column]
    assert isinstance(state, Categories)
    return state, FieldKeys.of(known[column].owner, schema.seed)


def key_of(schema: Schema, column: str, value: Any) -> int:
    """See ``Schema.key_of``."""
    state, own = _categories(schema, "Schema.key_of: column", column)
    array = pa.array([value], from_pandas=True)
    return int(category_keys(column, array, 0, state.values, own, state.known)[0])


def value_of(schema: Schema, column: str, key: int) -> str | int | float | None:
    """See ``Schema.value_of``."""
    state, own = _categories(schema, "Schema.value_of: column", column)
    number = check_int("Schema.value_of: key", key)
    if number in (own.missing, own.rare):
        return None
    if state.words is None or state.known is None:
        raise InvalidArgument(
            f"Schema.value_of: {column!r} has no vocabulary; fit it with "
            "CategoricalField(vocabulary=True) and max_known above its distinct values"
        )
    place = int(np.searchsorted(state.known, number))
    if place == len(state.known) or int(state.known[place]) != number:
        raise rejected("Schema.value_of: key", number, f"a key of column {column!r}")
    word = state.words[place]
    if state.values == "text":
        return word
    return int(word) if word.lstrip("+-").isdigit() else float(word)
