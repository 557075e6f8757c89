# SPDX-License-Identifier: Apache-2.0
"""``hugectr train``, ``predict`` and ``evaluate`` on files of data."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from oracle.clicks import clicks, part, without
from oracle.histories import frame

import hugectr
from hugectr.command import data_files
from hugectr.command.cli import main

COLUMNS = without(clicks(1500), "tags") | {
    "liked": ["yes" if clicked else "no" for clicked in clicks(1500)["clicked"]]
}


def table(begin: int, end: int, label: str) -> pa.Table:
    other = "liked" if label == "clicked" else "clicked"
    return pa.table(without(part(COLUMNS, begin, end), other))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of CSV with labels 0 and 1, and test data in three formats."""
    folder = tmp_path_factory.mktemp("clicks")
    pa.csv.write_csv(table(0, 1200, "clicked"), folder / "train.csv")
    test = table(1200, 1500, "clicked")
    pa.csv.write_csv(test, folder / "test.csv")
    pq.write_table(test, folder / "test.parquet")
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in test.to_pylist()))
    train = ["train", str(folder / "train.csv"), "--label", "clicked", "--epochs", "5"]
    assert main([*train, "--no-progress", "-o", str(folder / "model")]) == 0
    return folder


def test_train_says_how_good_it_is_and_what_comes_next(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", str(folder / "train.csv"), "--label", "clicked", "--epochs", "1"]
    eval_set = ["--eval", str(folder / "test.csv"), "-o", str(folder / "again")]
    assert main([*train, *eval_set, "--model", "lr", "--no-progress"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("AUC 0.")
    assert lines[0].endswith("test.csv")
    assert lines[-1] == f"next: hugectr predict {folder / 'again'} DATA.csv -o predictions.csv"
    assert main([*train, *eval_set, "--json"]) == 0


def test_train_says_which_columns_it_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = table(0, 300, "clicked")
    rows = rows.append_column("id", pa.array([f"row {i}" for i in range(300)]))
    rows = rows.append_column("note", pa.array([f"note {i}" for i in range(300)]))
    pa.csv.write_csv(rows, tmp_path / "ids.csv")
    train = ["train", str(tmp_path / "ids.csv"), "--label", "clicked", "--epochs", "1"]
    train += ["--no-progress", "-o", str(tmp_path / "m"), "--ignore", "note"]
    assert main(train) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "not used" in line]
    assert len(said) == 1
    assert said[0].startswith("not used: column 'id' (an id: ")


def test_a_history_in_csv_is_trained_on_and_predicted(tmp_path: Path) -> None:
    rows = frame(600)
    lines = ["item,seen,clicked"]
    for item, seen, clicked in zip(rows["item"], rows["seen"], rows["clicked"], strict=True):
        lines.append(f"{item},{'|'.join(map(str, seen))},{clicked}")
    data = tmp_path / "rows.csv"
    data.write_text("\n".join(lines) + "\n")
    model = ["--model", "din", "--sequences", "seen=item", "-o", str(tmp_path / "din")]
    train = ["train", str(data), "--label", "clicked", "--epochs", "1", "--no-progress"]
    assert main([*train, *model]) == 0
    assert hugectr.CTRClassifier.load(tmp_path / "din").sequences == {"seen": "item"}
    out = tmp_path / "out.parquet"
    assert main(["predict", str(tmp_path / "din"), str(data), "-o", str(out)]) == 0
    assert pq.read_table(out).num_rows == 600
    assert main([*train, "--model", "din", "-o", str(tmp_path / "none")]) != 0


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_every_format_is_predicted_the_same(folder: Path, ending: str) -> None:
    out = folder / f"{ending}.out.parquet"
    assert main(["predict", str(folder / "model"), f"{folder}/test.{ending}", "-o", str(out)]) == 0
    expected = hugectr.CTRClassifier.load(folder / "model").predict_proba(
        table(1200, 1500, "clicked")
    )
    np.testing.assert_array_equal(
        pq.read_table(out).column("probability").to_numpy(), expected[:, 1]
    )


def test_pieces_are_written_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "ROWS", 7)
    out = folder / "pieces.csv"
    arguments = ["predict", str(folder / "model"), str(folder / "test.csv"), "-o", str(out)]
    assert main([*arguments, "--keep", "age,city", "--logit"]) == 0
    found, given = pa.csv.read_csv(out), pa.csv.read_csv(folder / "test.csv")
    assert found.column_names == ["age", "city", "logit"]
    assert found.column("age").equals(given.column("age"))
    classifier = hugectr.CTRClassifier.load(folder / "model")
    np.testing.assert_allclose(
        found.column("logit").to_numpy(),
        classifier.decision_function(folder / "test.csv"),
        atol=1e-5,
    )


def test_without_a_file_predictions_are_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(folder / "model"), str(folder / "test.csv")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 301
    assert lines[0] == '"probability"'


def test_a_failure_leaves_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.csv").write_text("age,clicked\n31,1\n")
    out = folder / "bad.out.csv"
    assert main(["predict", str(folder / "model"), str(folder / "bad.csv"), "-o", str(out)]) != 0
    assert "no column 'city'" in capsys.readouterr().err
    assert not list(folder.glob("bad.out*"))
    assert main(["predict", str(folder / "model"), str(folder / "test.csv"), "-o", "x.txt"]) == 2


def test_evaluate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(folder / "model"), str(folder / "test.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    classifier = hugectr.CTRClassifier.load(folder / "model")
    assert found == classifier.evaluate(table(1200, 1500, "clicked"), "clicked")
    assert found["AUC"] > 0.6
    assert main(["evaluate", str(folder / "model"), str(folder / "test.csv")]) == 0
    assert capsys.readouterr().out.startswith("AUC ")


def test_labels_may_be_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pa.csv.write_csv(table(0, 1200, "liked"), tmp_path / "train.csv")
    pa.csv.write_csv(table(1200, 1500, "liked"), tmp_path / "test.csv")
    train = ["train", str(tmp_path / "train.csv"), "--label", "liked", "--epochs", "5"]
    assert main([*train, "--no-progress", "-o", str(tmp_path / "model")]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "model"), str(tmp_path / "test.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["AUC"] > 0.6


def test_what_is_missing_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(folder / "train.csv")]) == 2
    assert "--label" in capsys.readouterr().err
    assert main(["train", str(folder / "train.csv"), "--label", "clickd"]) != 0
    assert "did you mean 'clicked'" in capsys.readouterr().err
    lines = (folder / "train.csv").read_text().splitlines(keepends=True)
    (folder / "pipes.csv").write_text("".join(lines).replace(",", "|"))
    assert main(["train", str(folder / "pipes.csv"), "--label", "clicked"]) != 0
    assert "'|' in its name: is that the separator?" in capsys.readouterr().err


def test_numbers_and_several_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=600)
    data = pa.table(
        {
            "x": x,
            "y": 100.0 + 10.0 * x,
            "size": np.where(x > 0.5, "L", np.where(x < -0.5, "S", "M")),
        }
    )
    pa.csv.write_csv(data, tmp_path / "data.csv")
    train = ["train", str(tmp_path / "data.csv"), "--epochs", "20", "--no-progress"]
    out = str(tmp_path / "out.parquet")
    numbers, classes = str(tmp_path / "numbers"), str(tmp_path / "classes")
    regression = ["--label", "y", "--task", "regression", "--ignore", "size", "-o", numbers]
    assert main([*train, *regression]) == 0
    assert main(["predict", numbers, str(tmp_path / "data.csv"), "-o", out]) == 0
    assert np.abs(pq.read_table(out)["prediction"].to_numpy() - data["y"].to_numpy()).mean() < 5
    assert main(["evaluate", numbers, str(tmp_path / "data.csv")]) == 0
    assert "R2" in capsys.readouterr().out
    assert main([*train, "--label", "size", "--ignore", "y", "-o", classes]) == 0
    assert main(["predict", classes, str(tmp_path / "data.csv"), "-o", out]) == 0
    found = pq.read_table(out)
    assert found.column_names == ["probability_L", "probability_M", "probability_S"]
    np.testing.assert_allclose(sum(c.to_numpy() for c in found.columns), 1.0, atol=1e-6)


def test_inspect_of_a_table_in_text_says_what_its_columns_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("city,age\n" + "Rome,1.5\nOslo,2.5\n" * 10)
    (tmp_path / "a.jsonl").write_text('{"city": "Rome", "age": 1.5}\n' * 3)
    for name in ("a.csv", "a.jsonl"):
        assert main(["data", "inspect", str(tmp_path / name)]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"^city +categorical ", shown, re.MULTILINE)
        assert re.search(r"^age +dense ", shown, re.MULTILINE)
        assert main(["data", "inspect", str(tmp_path / name), "--json"]) == 0
        fields = json.loads(capsys.readouterr().out)["fields"]
        assert [field["kind"] for field in fields] == ["categorical", "dense"]
