# SPDX-License-Identifier: Apache-2.0
"""What users ask of the commands by mistake: said by name before anything is lost."""

import datetime
import decimal
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hugectr.command.cli import main
from hugectr.estimator.classifier import CTRClassifier

CITIES = ["Rome", "Oslo", "Bern"] * 20
LABELS = [0, 1] * 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("requests")
    pa.csv.write_csv(pa.table({"city": CITIES, "clicked": LABELS}), folder / "data.csv")
    assert _train(folder / "data.csv", folder / "model") == 0
    return folder


def _train(data: Path, output: Path) -> int:
    words = ["train", str(data), "--label", "clicked", "--epochs", "1", "--no-progress"]
    return main([*words, "-o", str(output)])


@pytest.mark.parametrize(
    "labels",
    [
        [[one] for one in LABELS],
        [datetime.datetime(2020, 1, 1 + one) for one in LABELS],
        [bytes([one]) for one in LABELS],
    ],
    ids=["list", "time", "bytes"],
)
def test_labels_that_no_model_could_be_saved_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], labels: list[Any]
) -> None:
    pq.write_table(pa.table({"city": CITIES, "clicked": labels}), tmp_path / "data.parquet")
    assert _train(tmp_path / "data.parquet", tmp_path / "model") == 2
    assert "cast the labels" in capsys.readouterr().err


def test_labels_that_databases_have_as_decimals(tmp_path: Path) -> None:
    for digits, wanted in ((0, [0, 1]), (2, [0.0, 1.0])):
        labels = pa.array([decimal.Decimal(one) for one in LABELS], pa.decimal128(9, digits))
        pq.write_table(pa.table({"city": CITIES, "clicked": labels}), tmp_path / "data.parquet")
        assert _train(tmp_path / "data.parquet", tmp_path / "model") == 0
        assert CTRClassifier.load(tmp_path / "model").classes_.tolist() == wanted


def test_a_label_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pa.csv.write_csv(pa.table({"clicked": LABELS}), tmp_path / "data.csv")
    assert _train(tmp_path / "data.csv", tmp_path / "model") == 2
    assert "no column but the label 'clicked'" in capsys.readouterr().err


def test_an_output_that_is_taken_is_said_before_training(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CTRClassifier, "fit", lambda *_, **__: pytest.fail("it trained"))
    assert _train(folder / "data.csv", folder) == 2
    assert "is there and no CTRClassifier" in capsys.readouterr().err


def test_predictions_do_not_replace_the_data(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "data.csv").read_bytes()
    data = str(folder / "data.csv")
    assert main(["predict", str(folder / "model"), data, "-o", data]) == 2
    assert "another file than the data" in capsys.readouterr().err
    assert (folder / "data.csv").read_bytes() == before


def test_predictions_of_a_pattern(folder: Path, tmp_path: Path) -> None:
    for name in ("q1.csv", "q2.csv"):
        (tmp_path / name).write_bytes((folder / "data.csv").read_bytes())
    words = ["predict", str(folder / "model"), str(tmp_path / "q*.csv"), "-o"]
    assert main([*words, str(tmp_path / "out.csv")]) == 0
    assert pa.csv.read_csv(tmp_path / "out.csv").num_rows == 2 * len(LABELS)
    assert main([*words, str(tmp_path / "q2.csv")]) == 2  # one of the data


def test_a_column_kept_twice_is_kept_once(folder: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out.csv")
    words = ["predict", str(folder / "model"), str(folder / "data.csv"), "-o", out]
    assert main([*words, "--keep", "city,,city"]) == 0
    assert pa.csv.read_csv(out).column_names == ["city", "probability"]


def test_data_are_not_generated_over_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "data")
    assert main(["data", "generate", place, place, "--slot-sizes", "10"]) == 2
    assert "eval_source" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [
        ["data", "generate", "a", "b", "--slot-sizes", "inf"],
        ["model", "plan", "m", "--rows", "t=inf"],
        ["data", "inspect", "a", "--raw", "=1,2,-3"],
        ["data", "inspect", "a", "--raw", "1,2,3*99999999999"],
        ["data", "inspect", "a", "--num-samples", "=-1"],
        ["data", "generate", "a", "b", "--slot-sizes", "x"],
        ["data", "generate", "a", "b", "--slot-sizes", "1.5"],
        ["data", "generate", "a", "b", "--slot-sizes", "10*"],
        ["data", "generate", "a", "b", "--slot-sizes", "10", "--nnz", "10*0"],
    ],
    ids=["slot sizes", "rows", "below zero", "too many", "samples", "text", "half", "*", "none"],
)
def test_numbers_without_an_end(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    option, value = words[-2:]
    given = [option + value] if value.startswith("=") else [option, value]
    with pytest.raises(SystemExit, match="2"):
        main([*words[:-2], *given])
    said = capsys.readouterr().err
    assert option in said
    assert f"found {value.removeprefix('=')!r}, allowed: " in said


@pytest.mark.parametrize(
    "words",
    [
        ["data", "generate", "/proc/1/x/l", "{model}-v", "--slot-sizes", "9"],
        ["data", "generate", "/proc/1/x", "{model}-v", "--slot-sizes", "9", "--format", "parquet"],
        ["model", "convert", "{model}", "/proc/1/x/t", "--to", "numpy"],
        ["model", "reshard", "{model}", "2", "/proc/1/x"],
    ],
    ids=["list", "Parquet", "convert", "reshard"],
)
def test_outputs_that_can_not_be_written_are_said_of_the_argument(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(model=folder / "model") for word in words]) == 2
    said = capsys.readouterr().err
    assert re.search(r"(source|TARGET|FOLDER): '/proc/1/x.* can not be written", said)


@pytest.mark.parametrize(
    "words",
    [
        ["data", "inspect", "{data}", "--limit", str(10**20)],
        ["launch", "-n", str(10**20), "{data}"],
        ["data", "generate", "/dev/null", "{data}-val", "--slot-sizes", "9", "--format", "raw"],
        ["model", "reshard", "{model}", "2", "{data}"],
    ],
    ids=["limit", "processes", "device", "no folder"],
)
def test_values_that_nothing_can_be_done_with(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"data": str(folder / "data.csv"), "model": str(folder / "model")}
    assert main([word.format(**places) for word in words]) == 2
    assert re.search(r"--limit|launch: -n|source|FOLDER", capsys.readouterr().err)
