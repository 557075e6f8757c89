# SPDX-License-Identifier: Apache-2.0
"""Where ``hugectr predict`` writes, what it can not write, and how often it loads the model."""

import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import hugectr
from hugectr.command.cli import main

ROWS = {"city": ["Rome", "Oslo", "Bern", "Oslo"] * 20, "age": list(range(80))}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    label = [1, 0, 0, 1] * 20
    hugectr.CTRClassifier(model="lr", random_state=1, epochs=1).fit(ROWS, label).save(folder / "m")
    more = {"seen": [["a"]] * 80, "raw": [b"\xff"] * 80, "id": list(range(80))}
    pq.write_table(pa.table(ROWS | more), folder / "data.parquet")
    return folder


def predict(model: Path, *more: str) -> int:
    return main(["predict", str(model / "m"), str(model / "data.parquet"), *more])


def test_a_link_leads_to_the_file_that_is_written(model: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    for there in (True, False):
        target, link = tmp_path / "disk" / f"{there}.csv", tmp_path / f"link-{there}.csv"
        if there:
            target.write_text("of yesterday")
        link.symlink_to(target)
        assert predict(model, "-o", str(link)) == 0
        assert link.is_symlink()
        assert pa.csv.read_csv(target).num_rows == 80
    assert sorted(os.listdir(tmp_path / "disk")) == ["False.csv", "True.csv"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_said_before_the_work(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], make
) -> None:
    make(tmp_path / "out.csv")
    assert predict(model, "-o", str(tmp_path / "out.csv")) == 2
    assert "allowed: a path where nothing is, or a file" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["out.csv"]


@pytest.mark.parametrize(("name", "kind"), [("seen", "list"), ("raw", "binary")])
@pytest.mark.parametrize("printed", [True, False])
def test_a_column_that_csv_has_nothing_for_is_named(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name, kind, printed
) -> None:
    output = [] if printed else ["-o", str(tmp_path / "out.csv")]
    assert predict(model, "--keep", f"id,{name}", *output) == 2
    said = capsys.readouterr().err
    assert f"--keep: column '{name}' has Arrow type {kind}" in said
    assert "give -o FILE.parquet" in said
    assert not os.listdir(tmp_path)
    assert predict(model, "--keep", f"id,{name}", "-o", str(tmp_path / "out.parquet")) == 0


def test_output_that_is_closed_is_said(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert predict(model) == 2
    assert "standard output is closed; give -o FILE" in capsys.readouterr().err


def test_the_model_is_loaded_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hugectr.estimator import fitted

    calls = []
    for module in (fitted, hugectr):
        load = module.load
        monkeypatch.setattr(
            module, "load", lambda *a, load=load, **k: calls.append(a) or load(*a, **k)
        )
    assert predict(model, "-o", str(tmp_path / "out.csv")) == 0
    assert len(calls) == 1
