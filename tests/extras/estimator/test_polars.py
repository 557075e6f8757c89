# SPDX-License-Identifier: Apache-2.0
"""Frames of polars: the same models as of pandas."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import hugectr
from hugectr import CTRClassifier

QUICK: dict[str, Any] = {"random_state": 1, "epochs": 1, "hidden": (4,)}
LABEL = [1, 0] * 200
LISTS = [["new", "sale"], ["red", "old"]] * 200
COLUMNS: dict[str, tuple[list[Any], Any]] = {
    "lists": (LISTS, pl.List(pl.String)),
    "arrays": (LISTS, pl.Array(pl.String, 2)),
    "lists of categories": (LISTS, pl.List(pl.Categorical)),
    "lists of an enum": (LISTS, pl.List(pl.Enum(["new", "sale", "red", "old"]))),
    "bytes": ([b"ab", b"cd"] * 200, pl.Binary),
    "an enum": (["ab", "cd"] * 200, pl.Enum(["ab", "cd"])),
    "a category": (["ab", "cd"] * 200, pl.Categorical),
}


def predicted(frame: Any) -> Any:
    return CTRClassifier(**QUICK).fit(frame, "clicked").predict_proba(frame)


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_are_those_of_pandas(kind: str) -> None:
    values, of_type = COLUMNS[kind]
    more = {"x": list(range(5)) * 80, "clicked": LABEL}
    frame = pl.DataFrame({"c": pl.Series(values, dtype=of_type), **more})
    np.testing.assert_array_equal(predicted(frame), predicted(pd.DataFrame({"c": values, **more})))


def test_structs_are_left_out() -> None:
    frame = pl.DataFrame({"c": [{"a": "x"}] * 400, "x": list(range(5)) * 80, "clicked": LABEL})
    np.testing.assert_array_equal(predicted(frame), predicted(frame.drop("c")))


def test_a_type_that_arrow_lacks_is_named() -> None:
    wide = pl.Series(LABEL, dtype=pl.Int128)
    frame = pl.DataFrame({"wide": wide, "x": list(range(5)) * 80, "clicked": LABEL})
    with pytest.raises(hugectr.DataError, match=r"'wide' \(Int128\).*cast them, such as to 64"):
        predicted(frame)


@pytest.mark.parametrize("kind", [pd.Series, pl.Series])
def test_a_series_is_no_frame(kind: Any) -> None:
    model = CTRClassifier(**QUICK).fit({"a": list(range(5)) * 80}, LABEL)
    said = r"found 'Series', allowed: a DataFrame: .*series.to_frame\(\), .*frame.iloc\[\[3\]\]"
    with pytest.raises(hugectr.InvalidArgument, match=said):
        model.predict(kind([1.0, 2.0]))
