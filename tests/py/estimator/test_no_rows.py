# SPDX-License-Identifier: Apache-2.0
"""Predictions of data without rows: nothing, of the right shape; everything else refuses it."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr.command.cli import main

ROWS = 60
FRAME = {"city": ["Rome", "Oslo", "Bern"] * 20, "age": [float(one) for one in range(ROWS)]}
QUICK: dict[str, Any] = {"epochs": 1, "hidden": (4,), "vec_size": 2, "random_state": 1}


@pytest.fixture(scope="module")
def models() -> dict[int, Any]:
    """An estimator by its number of outputs; 0: of numbers."""
    found: dict[int, Any] = {
        classes: hugectr.CTRClassifier(**QUICK).fit(FRAME, np.arange(ROWS) % classes)
        for classes in (2, 3)
    }
    return found | {0: hugectr.CTRRegressor(**QUICK).fit(FRAME, np.arange(ROWS) / 7)}


def _nothings(folder: Path) -> list[Any]:
    table = pa.table(FRAME).slice(0, 0)
    (folder / "none.csv").write_text("age,city\n")
    (folder / "none.jsonl").write_text("")
    pq.write_table(table, folder / "none.parquet")
    files = [folder / f"none.{kind}" for kind in ("csv", "jsonl", "parquet")]
    return [table, {"city": [], "age": []}, [], *files]


def test_shapes_and_types(models: dict[int, Any], tmp_path: Path) -> None:
    for nothing in _nothings(tmp_path):
        for classes in (2, 3):
            model = models[classes]
            assert model.predict_proba(nothing).shape == (0, classes)
            assert model.predict_log_proba(nothing).shape == (0, classes)
            assert model.predict(nothing).shape == (0,)
            assert model.predict(nothing).dtype == model.predict(FRAME).dtype
            logits = model.decision_function(nothing)
            assert logits.shape == (0, *model.decision_function(FRAME).shape[1:])
        found = models[0].predict(nothing)
        assert (found.shape, found.dtype) == ((0,), np.float64)


def test_arrays(models: dict[int, Any]) -> None:
    rng = np.random.default_rng(0)
    model = hugectr.CTRClassifier(**QUICK).fit(rng.normal(size=(ROWS, 3)), np.arange(ROWS) % 2)
    assert model.predict_proba(np.empty((0, 3))).shape == (0, 2)
    with pytest.raises(hugectr.InvalidArgument, match="2 features"):
        model.predict_proba(np.empty((0, 2)))
    with pytest.raises(hugectr.InvalidArgument, match="0 sample"):
        model.fit(np.empty((0, 3)), [])


def test_a_column_that_is_missing_is_missing_without_rows_too(models: dict[int, Any]) -> None:
    with pytest.raises(hugectr.DataError, match="no column 'city' and no 'age'"):
        models[2].predict_proba({"town": []})


def test_what_needs_rows_says_so(models: dict[int, Any]) -> None:
    for model in models.values():
        for call in (model.fit, model.score, model.evaluate):
            with pytest.raises(hugectr.DataError, match="no rows"):
                call({"city": [], "age": [], "y": []}, "y")


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_the_command_writes_the_columns(
    models: dict[int, Any], tmp_path: Path, classes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    models[classes].save(tmp_path / "model")
    (tmp_path / "one.csv").write_text("age,city,id\n3,Rome,x\n")
    (tmp_path / "none.csv").write_text("age,city,id\n")
    (tmp_path / "none.jsonl").write_text("")
    for keep in ([], ["--keep", "id,age"]):
        for logit in ([], ["--logit"]):
            heads = {}
            for name in ("one.csv", "none.csv", "none.jsonl"):
                words = ["predict", str(tmp_path / "model"), str(tmp_path / name), *keep, *logit]
                assert main(words) == 0
                lines = capsys.readouterr().out.splitlines()
                assert len(lines) == 1 + (name == "one.csv")
                heads[name] = lines[0]
                for kind in ("csv", "parquet"):
                    assert main([*words, "-o", str(tmp_path / f"out.{kind}")]) == 0
                    capsys.readouterr()
                assert (tmp_path / "out.csv").read_text().splitlines()[0] == lines[0]
                assert pq.read_table(tmp_path / "out.parquet").num_rows == len(lines) - 1
            assert len(set(heads.values())) == 1, heads
