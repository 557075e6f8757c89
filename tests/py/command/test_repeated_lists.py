# SPDX-License-Identifier: Apache-2.0
"""Options of several values that are given twice: all of the values count, or it is an error."""

from pathlib import Path
from typing import Any

import pytest

from hugectr.command.cli import _parser, main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = "".join(f"r{i},{'ab'[i % 2]},{i % 7},{i % 2},{i % 2},{i % 2}\n" for i in range(60))
    path = tmp_path / "data.csv"
    path.write_text("id,city,age,leak1,leak2,y\n" + rows)
    return path


@pytest.mark.parametrize("given", [["leak1,leak2"], ["leak1", "leak2"], ["leak1, leak2", "leak1"]])
def test_columns_of_train_and_predict(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    folder, out = str(tmp_path / "model"), tmp_path / "out.csv"
    ignored = [word for one in given for word in ("--ignore", one)]
    train = ["train", str(data), "--label", "y", "--epochs", "1", "--no-progress", "-o", folder]
    assert main([*train, *ignored, "--dense", "age", "--categorical", "city"]) == 0
    assert "'leak" not in capsys.readouterr().out
    bare = tmp_path / "bare.csv"  # neither of them is a feature
    bare.write_text("id,city,age\nr1,a,3\n")
    assert (
        main(["predict", folder, str(bare), "-o", str(out), "--keep", "id", "--keep", "age"]) == 0
    )
    assert out.read_text().splitlines()[0] == '"id","age","probability"'
    assert main(["predict", folder, str(bare), "-o", str(out), "--keep", "id,age"]) == 0
    assert out.read_text().splitlines()[0] == '"id","age","probability"'


def test_histories_have_one_target(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = ["--sequences", "seen=item", "--sequences", "seen=city"]
    assert main(["train", str(data), "--label", "y", *twice]) == 2
    said = "hugectr train: --sequences: found 'seen=city', allowed: one target of 'seen', not two"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "name", "wanted"),
    [
        ("train x.csv --sequences seen=item --sequences bought=item", "sequences", 2),
        ("data generate a b --slot-sizes 10,20 --slot-sizes 30", "slot_sizes", [10, 20, 30]),
        ("data generate a b --slot-sizes 1 --nnz 2*2 --nnz 3", "nnz", [2, 2, 3]),
        ("data criteo x --out o --eval a b --eval c", "eval", ["a", "b", "c"]),
        ("data inspect x --slot-sizes 5 --slot-sizes 6", "slot_sizes", [5, 6]),
        ("model convert a b --to native --tables t,u --tables v", "tables", ["t", "u", "v"]),
    ],
)
def test_what_is_parsed(words: str, name: str, wanted: Any) -> None:
    found = getattr(_parser().parse_args(words.split()), name)
    assert (len(found) if isinstance(wanted, int) else found) == wanted


def test_one_shape_of_raw_data(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "inspect", "x", "--raw", "1,2,3", "--raw", "1,2,4"]
    with pytest.raises(SystemExit):
        main(words)
    assert "--raw: given twice; it takes one LABELS,DENSE,SLOTS" in capsys.readouterr().err
