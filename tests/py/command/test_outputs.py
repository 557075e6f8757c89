# SPDX-License-Identifier: Apache-2.0
"""Where commands write is looked at before they work, and a model is kept whatever comes later."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from oracle.command import hctr

import hugectr
from hugectr.command import outputs
from hugectr.command.cli import main
from hugectr.estimator.classifier import CTRClassifier

CITIES = ["Rome", "Oslo", "Bern"] * 20


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    pa.csv.write_csv(pa.table({"city": CITIES, "clicked": [0, 1] * 30}), path)
    return path


def _train(data: Path, output: Path | str, *more: str) -> int:
    words = ["train", str(data), "--label", "clicked", "--epochs", "1", "--no-progress"]
    return main([*words, "-o", str(output), *more])


@pytest.mark.parametrize("output", ["/proc/x/m", "{}/data.csv/m"])
def test_no_training_for_a_folder_that_can_not_be_made(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    output: str,
) -> None:
    monkeypatch.setattr(CTRClassifier, "fit", None)  # a training would end in a TypeError
    assert _train(data, output.format(data.parent)) == 2
    assert "can not be written" in capsys.readouterr().err
    assert [path.name for path in data.parent.iterdir()] == ["data.csv"]


def test_no_training_for_a_report_that_can_not_be_written(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CTRClassifier, "fit", None)
    model = data.parent / "m"
    assert _train(data, model, "--report", "/proc/x/r.html") == 2
    assert "--report: '/proc/x/r.html' can not be written" in capsys.readouterr().err
    assert _train(data, model, "--report", str(data.parent)) == 2
    before = data.read_bytes()
    assert _train(data, model, "--report", str(data)) == 2  # the data itself, which is no page
    assert "an HTML file to replace" in capsys.readouterr().err
    assert data.read_bytes() == before


def test_a_report_that_fails_keeps_the_model(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hugectr.Model, "report", full)
    report = ["--report", str(data.parent / "r.html")]
    assert _train(data, data.parent / "m", *report) == 1
    said = capsys.readouterr()
    assert "warning: no report: [Errno 28] No space left" in said.err
    assert "saved in" in said.out
    assert CTRClassifier.load(data.parent / "m").classes_.tolist() == [0, 1]
    assert _train(data, data.parent / "m", *report, "--json") == 1


def test_a_report_replaces_a_page(data: Path) -> None:
    page = data.parent / "new" / "r.html"
    for _ in range(2):
        assert _train(data, data.parent / "m", "--report", str(page)) == 0
        assert "<h2>Training loss</h2>" in page.read_text("utf-8")


def test_nothing_is_left_of_a_trial(tmp_path: Path) -> None:
    outputs.check_writable("-o", tmp_path / "a" / "b" / "c")
    assert list(tmp_path.iterdir()) == []


def test_predict_makes_the_folder(data: Path) -> None:
    assert _train(data, data.parent / "m") == 0
    out = data.parent / "not" / "there" / "x.CSV"
    assert main(["predict", str(data.parent / "m"), str(data), "-o", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 61


def test_a_regression_is_told_in_units_of_the_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=400)
    for name in ("train", "test"):
        table = pa.table({"x": x, "y": 1e4 + 1e3 * x + 200 * rng.normal(size=400)})
        pa.csv.write_csv(table, tmp_path / f"{name}.csv")
    words = ["train", str(tmp_path / "train.csv"), "--label", "y", "--task", "regression"]
    words += ["--eval", str(tmp_path / "test.csv"), "-o", str(tmp_path / "m"), "--no-progress"]
    found = json.loads(hctr(*words, "--json").stdout)["metrics"]
    wanted = hugectr.CTRRegressor.load(tmp_path / "m").evaluate(tmp_path / "test.csv", "y")
    assert found["RMSE"] == pytest.approx(wanted["RMSE"], rel=1e-3)
    assert found["MSE"] == pytest.approx(wanted["RMSE"] ** 2, rel=2e-3)
    assert main(words) == 0
    assert "RMSE " in capsys.readouterr().out


def test_an_interruption_while_the_package_is_loaded_is_quiet() -> None:
    """Tried at many moments: none shows a traceback."""
    for wait in (0.06, 0.1, 0.15, 0.2, 0.3, 0.4):
        process = subprocess.Popen(
            [sys.executable, "-c", _WAITS],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )
        assert process.stdout is not None
        process.stdout.readline()  # the interpreter itself is there
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert "Traceback" not in said
        assert process.returncode == 130


#: As the script that pip writes; it does nothing for a while once everything is loaded.
_WAITS = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
sys.argv = ["/usr/bin/hugectr", "doctor"]
print("here", flush=True)
from hugectr.command import cli
import time
cli._dispatch = lambda arguments: time.sleep(30)
sys.exit(cli.main())
"""


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("data criteo nowhere.tsv --out FILE", "hugectr data criteo: --out"),
        ("export nowhere --onnx FILE/a.onnx", "hugectr export: --onnx"),
        ("export nowhere --torch FILE/a", "hugectr export: --torch"),
        ("export nowhere --table t --out FILE/a.parquet", "hugectr export: --out"),
    ],
)
def test_a_file_on_the_way_is_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, option: str
) -> None:
    (tmp_path / "file").write_text("somebody's")
    assert main(command.replace("FILE", str(tmp_path / "file")).split()) == 2
    said = capsys.readouterr().err
    assert f"{option}: '{tmp_path}/file/" in said
    assert "can not be written: Not a directory" in said
    assert os.listdir(tmp_path) == ["file"]


def test_help_runs() -> None:
    assert hctr("train", "--help").returncode == 0
