# SPDX-License-Identifier: Apache-2.0
"""Options of another form of a command are refused, and the form they belong to is named."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from hugectr.command.cli import main
from hugectr.command.data_files import OF_DATA


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table = pa.table({"city": ["Rome", "Oslo"] * 30, "clicked": [0, 1] * 30})
    pa.csv.write_csv(table, tmp_path / "data.csv")
    pq.write_table(table, tmp_path / "data.parquet")
    pq.write_table(pa.table({"y": [0.0, 1.0], "k": [1, 2]}), tmp_path / "keys.parquet")
    np.zeros((4, 3), np.int32).tofile(tmp_path / "raw.bin")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "script.py").write_text("raise SystemExit('it ran')")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train data.csv --label clicked --max-iter 5", "--max-iter belongs to a JSON config"),
        ("train data.csv --label clicked --max-iter=5", "this is data"),
        ("train data.csv --label clicked --max-it 5", "--max-iter belongs to a JSON config"),
        ("train config.json --epochs 2", "--epochs belongs to data; this is a JSON config"),
        ("train config.json --task classes", "--task belongs to data"),  # the default itself
        ("train config.json -o m", "-o belongs to data"),
        ("train config.json --max-iter 0", "--max-iter: found 0"),
        ("train --label clicked script.py", "--label belongs to data; this is a script"),
        ("train --device cpu script.py", "--device belongs to data and to a JSON config"),
        ("train --json script.py", "--json belongs to"),
        ("data inspect data.csv --slot-sizes 3", "--slot-sizes belongs to a Raw file (--raw) and"),
        ("data inspect data.csv --raw 1,1,1", "--raw belongs to a Raw file"),
        ("data inspect data.parquet --keys u32", "--keys belongs to Norm data"),
        ("data inspect keys.parquet --keys u32", "--keys belongs to Norm data"),
        ("data inspect keys.parquet --num-samples 5", "--num-samples belongs to a Raw file"),
        ("data inspect raw.bin --raw 1,1,1 --keys i64", "--keys belongs to Norm data"),
        ("data inspect data.csv --limit 0", "--limit: found 0"),
        ("data generate a b --slot-sizes 3 --no-check --format raw", "--no-check belongs to --f"),
        ("data generate a b --slot-sizes 3 --int-label-dense", "belongs to --format raw; this is"),
        ("data generate a b --slot-sizes 3 --uniform --alpha 1.2", "--alpha belongs to"),
        ("data criteo a --out b --hash-size 9 --min-count 2", "--min-count belongs to"),
        ("model plan config.json --out data.csv", "data.csv is there and no plan"),
        ("model plan config.json --out config.json", "config.json is there and no plan"),
        ("model plan config.json --html data.csv", "--html: found 'data.csv'"),
        ("export m --torch t --tables auto", "--tables belongs to --onnx"),
        ("model convert m t --to numpy --seed 0", "--seed belongs to --to native"),
    ],
)
def test_an_option_of_another_form(
    files: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err
    assert not (files / "model").exists()


def test_every_option_of_data_is_refused_to_a_config(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"task": "regression", "model": "lr", "epochs": "1", "seed": "1"}
    for name in set(OF_DATA) - {"label"}:  # which says itself that a file is data
        assert main(["train", "config.json", f"--{name}", values.get(name, "x")]) == 2
        assert "belongs to data" in capsys.readouterr().err


def test_the_limit_counts_for_tables_in_text(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("data.csv", "data.parquet"):
        assert main(["data", "inspect", name, "--json", "--limit", "10"]) == 0
        assert '"rows": 10' in capsys.readouterr().out
        assert main(["data", "inspect", name, "--json"]) == 0
        assert '"rows": 60' in capsys.readouterr().out


def test_parquet_of_text_is_shown_as_a_schema_reads_it(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    (files / "DATA.CSV").write_bytes((files / "data.csv").read_bytes())
    (files / "DATA.PARQUET").write_bytes((files / "data.parquet").read_bytes())
    for name in ("data.csv", "data.parquet", "DATA.CSV", "DATA.PARQUET"):
        assert main(["data", "inspect", name]) == 0
        shown.append(capsys.readouterr().out)
    assert "city" in shown[0]
    assert shown == shown[:1] * 4
    assert main(["data", "inspect", "keys.parquet"]) == 0
    assert "Parquet" in capsys.readouterr().out
    assert main(["train", "DATA.CSV", "--label", "clicked", "--epochs", "1", "--json"]) == 0
