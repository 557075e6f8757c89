# SPDX-License-Identifier: Apache-2.0
"""Errors of fit name the row that the caller gave, whatever rows were set aside before."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hugectr import CTRClassifier, CTRRegressor, DataError
from hugectr.data import DenseField, ListField, Schema

ROWS = 400


def _columns(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=ROWS)
    return {
        "kind": pa.array(rng.integers(0, 5, ROWS).astype(str)),
        "x": x,
        "y": (x + 0.5 * rng.normal(size=ROWS) > 0).astype(int),
    }


def _row_named(error: pytest.ExceptionInfo[DataError]) -> int:
    found = re.search(r"column 'x', row (\d+) \(from 0\)", str(error.value))
    assert found, str(error.value)
    return int(found[1])


@pytest.mark.parametrize("row", [0, 1, 7, 133, 300, 398, 399])
@pytest.mark.parametrize("estimator", [CTRClassifier, CTRRegressor])
def test_an_infinite_value(estimator: type, row: int) -> None:
    columns = _columns(row)
    columns["x"][row] = np.inf
    with pytest.raises(DataError) as error:
        estimator(random_state=row).fit(columns, "y")
    assert _row_named(error) == row


def test_rows_of_weight_zero_count_in_row_numbers() -> None:
    columns = _columns()
    columns["x"][311] = -np.inf
    weight = np.ones(ROWS)
    weight[::3] = 0
    assert weight[311]
    with pytest.raises(DataError) as error:
        CTRClassifier(random_state=2).fit(columns, "y", sample_weight=weight)
    assert _row_named(error) == 311


def test_text_among_numbers_of_a_schema() -> None:
    columns = _columns()
    texts = [repr(float(value)) for value in columns["x"]]
    texts[222] = "much"
    columns["x"] = texts
    schema = Schema.infer({**_columns()}, label="y")
    with pytest.raises(DataError) as error:
        CTRClassifier(random_state=3, schema=schema).fit(columns, "y")
    assert _row_named(error) == 222


def test_the_row_of_a_list_not_the_element() -> None:
    numbers = pa.array([[1, 2, 3], [], [4], [5, 6]])
    schema = Schema([ListField("x", values="numbers")]).fit(pa.table({"x": numbers}))
    broken = pa.table({"x": pa.array([["1", "2"], [], ["3"], ["4", "five"]])})
    with pytest.raises(DataError) as error:
        schema.encode(broken, labels=False)
    assert _row_named(error) == 3


@pytest.mark.parametrize("largest", [1e155, 1e300, -1e300, 1.7e308])
def test_very_large_numbers_are_scaled_as_others_are(largest: float) -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=1000)
    values[300] = largest
    for log in (False, True):
        schema = Schema([DenseField("x", log=log)]).fit({"x": values})
        dense = schema.encode({"x": values}, labels=False).dense[:, 0]
        wide = values.astype(np.longdouble)
        if log:
            wide = np.copysign(np.log1p(np.abs(wide)), wide)
        wanted = (wide - wide.mean()) / wide.std()
        np.testing.assert_allclose(dense, wanted.astype(np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("largest", [1e300, -1e300])
def test_a_model_learns_beside_a_very_large_number(largest: float, tmp_path: Path) -> None:
    columns = _columns()
    columns["x"][300] = largest
    model = CTRClassifier(random_state=1).fit(columns, "y")
    assert np.isfinite(model.predict_proba({k: columns[k] for k in ("kind", "x")})).all()


def test_a_column_without_a_name_is_told() -> None:
    columns = _columns()
    columns[""] = columns.pop("x")
    with pytest.raises(DataError, match="column without a name"):
        CTRClassifier().fit(columns, "y")


def test_a_column_without_a_name_in_csv_is_left_out(tmp_path: Path) -> None:
    columns = _columns()
    path = tmp_path / "numbered.csv"
    lines = [",kind,x,y"]
    rows = zip(columns["kind"].to_pylist(), columns["x"], columns["y"], strict=True)
    lines += [f"{row},{kind},{x},{y}" for row, (kind, x, y) in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    model = CTRClassifier(random_state=1).fit(path, "y")
    assert list(model.feature_names_in_) == ["kind", "x"]
