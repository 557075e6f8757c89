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
    words = pa.array([[("a", "b")], None] * (ROWS // 2), pa.map_(pa.string(), pa.string_view()))
    table = pa.table({"parts": parts, "words": words, "x": np.arange(ROWS) % 7, "y": LABEL})
    model = CTRClassifier(**QUICK).fit(table, "y")
    assert [field.kind for field in model.schema_.fields[:2]] == ["ignored", "ignored"]


def test_columns_that_are_left_out_are_told_of_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    interval = {"left": 0, "right": 1}
    table = pa.table(
        {
            "x": np.arange(ROWS) % 7,
            "id": [f"row {one}" for one in range(ROWS)],
            "vector": [[0.5, 1.5]] * ROWS,
            "took": pa.array(np.arange(ROWS), pa.duration("s")),
            "clock": pa.array(np.arange(ROWS), pa.time64("us")),
            "cut": pa.DictionaryArray.from_arrays(np.zeros(ROWS, int), pa.array([interval])),
            "parts": [{"a": 1}] * ROWS,
            "known": ["k", "l"] * (ROWS // 2),
            "y": LABEL,
        }
    )
    CTRClassifier(**QUICK, ignore=["known"]).fit(table, "y")
    (line,) = [one for one in capsys.readouterr().err.splitlines() if "not used" in one]
    for said in (
        "CTRClassifier.fit: not used: column 'id' (an id: ",
        "column 'vector' (lists of double; make",
        "column 'took' (durations; make them numbers: column.dt.total_seconds())",
        "column 'clock' (times of day; ",
        "column 'cut' (intervals; make them text: column.astype(str))",
        "column 'parts' (dicts; ",
    ):
        assert said in line
    assert "known" not in line
    CTRClassifier(**QUICK).fit(table.select(["x", "known", "y"]), "y")
    assert "not used" not in capsys.readouterr().err
