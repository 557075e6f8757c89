# SPDX-License-Identifier: Apache-2.0
"""Columns of types that frames have and estimators must take rows of."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hugectr import CTRClassifier

ROWS = 200
LABEL = [1, 0] * (ROWS // 2)
LISTS = [["new", "sale"], ["red", "old"]] * (ROWS // 2)
QUICK: dict[str, Any] = {"random_state": 1, "epochs": 1, "hidden": (4,)}


class Stream:
    """As a frame of polars: a stream of Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def lists_of_words() -> pa.Array:
    """As ``List(Categorical)`` of polars."""
    words = pa.array([word for one in LISTS for word in one], pa.string_view())
    codes = pa.DictionaryArray.from_arrays(pa.array(range(len(words)), pa.uint32()), words)
    return pa.ListArray.from_arrays(pa.array(range(0, len(words) + 1, 2), pa.int32()), codes)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(LISTS, pa.list_(pa.string_view())),
        pa.array(LISTS, pa.large_list(pa.string_view())),
        pa.array(LISTS, pa.list_(pa.string_view(), 2)),
        pa.array(LISTS, pa.list_view(pa.string_view())),
        lists_of_words(),
    ],
    ids=lambda column: str(column.type),
)
def test_lists_of_views_are_lists_of_text(column: pa.Array) -> None:
    wanted = {"tags": LISTS, "x": np.arange(ROWS) % 7, "y": LABEL}
    table = pa.table({"tags": column, "x": wanted["x"], "y": LABEL})
    expected = CTRClassifier(**QUICK).fit(wanted, "y").predict_proba(wanted)
    model = CTRClassifier(**QUICK).fit(Stream(table), "y")
    np.testing.assert_array_equal(model.predict_proba(Stream(table)), expected)
    assert model.schema_.fields[0].kind == "list"


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_views_are_the_values_that_they_are_of(kind: pa.DataType) -> None:
    words = ["ab", "cd"] * (ROWS // 2)
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}[kind]
    wanted = pa.table({"c": pa.array(words, plain), "y": LABEL})
    views = pa.array(words, plain).cast(kind)
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1] * (ROWS // 2)), views[:2])
    expected = CTRClassifier(**QUICK).fit(wanted, "y").predict_proba(wanted)
    for column in (views, codes):
        table = pa.table({"c": column, "y": LABEL})
        found = CTRClassifier(**QUICK).fit(table, "y").predict_proba(table)
        np.testing.assert_array_equal(found, expected)


def test_views_in_columns_that_are_not_used_are_no_harm() -> None:
    kind = pa.struct([("a", pa.string_view()), ("b", pa.list_(pa.string_view()))])
    parts = pa.array([{"a": "x", "b": ["y"]}, None] * (ROWS // 2), kind)
    table = pa.table({"parts": parts, "x": np.arange(ROWS) % 7, "y": LABEL})
    model = CTRClassifier(**QUICK).fit(table, "y")
    assert model.schema_.fields[0].kind == "ignored"
