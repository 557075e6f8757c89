# SPDX-License-Identifier: Apache-2.0
"""Paths that nothing can be written at are said of the argument, in every call that writes."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracle.small_net import DENSE, SIZES, build

import hugectr
from hugectr.base.errors import InvalidArgument
from hugectr.base.places import file_place, folder_place, whole_place
from hugectr.callbacks import CSVLog
from hugectr.data import Schema
from hugectr.data.criteo import convert
from hugectr.data.norm import write_file_list, write_norm
from hugectr.data.parquet_metadata import write_metadata
from hugectr.data.planted import write_planted_norm
from hugectr.export import to_onnx, to_torch
from hugectr.tools import DataGenerator, DataGeneratorParams

Place = Callable[[str, str], Path]


def wrong(folder: Path) -> dict[str, str]:
    (folder / "file").write_text("x")
    (folder / "folder" / "full").mkdir(parents=True)
    return {
        "below a file": str(folder / "file" / "below"),
        "long": str(folder / ("x" * 300)),
        "NUL": f"{folder}/a\0b",
    }


@pytest.mark.parametrize("place", [file_place, folder_place, whole_place])
def test_what_no_path_mends_and_what_another_does(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in wrong(tmp_path).values():
        with pytest.raises(InvalidArgument, match="call: path"):
            place("call: path", path)
    if place is file_place:
        with pytest.raises(InvalidArgument, match="folder' is a folder; give the path of a file"):
            place("call: path", str(tmp_path / "folder"))
    made = place("call: path", str(tmp_path / "new" / "deep"))
    assert made.parent.is_dir()
    assert made.is_dir() == (place is folder_place)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match="No space left") as error:
        place("call: path", str(tmp_path / "other" / "deep"))
    assert not isinstance(error.value, InvalidArgument)


def generate(path: str, form: str) -> None:
    kind = hugectr.DataReaderType_t[form]
    params = DataGeneratorParams(
        kind, 1, 1, 1, False, path, f"{path}-val", [10], num_files=1, num_samples=10,
        eval_num_files=1, eval_num_samples=10, num_samples_per_file=10,
    )  # fmt: skip
    DataGenerator(params).generate(progress=False, processes=1)


ONES = np.ones((3, 1), np.int64)
#: Of a file, and of a folder.
FILES = {
    "write_norm": lambda path: write_norm(path, np.zeros(3), None, ONES),
    "write_file_list": lambda path: write_file_list(path, ["a"]),
    "Norm": lambda path: generate(path, "Norm"),
    "Raw": lambda path: generate(path, "Raw"),
}
FOLDERS = {
    "write_metadata": lambda path: write_metadata(path, ["a"], [], []),
    "write_planted_norm": lambda path: write_planted_norm(path, 9, 9, [10]),
    "Parquet": lambda path: generate(path, "Parquet"),
    "criteo": lambda path: convert(["nothing"], path),
    "Schema.save": lambda path: Schema.infer({"y": [0, 1] * 9}, label="y").save(path),
}


@pytest.mark.parametrize("call", [*FILES, *FOLDERS])
def test_data(call: str, tmp_path: Path) -> None:
    paths = wrong(tmp_path)
    if call in ("Norm", "Raw", "Parquet"):
        del paths["NUL"]  # refused by DataGeneratorParams
    for path in [*paths.values(), *([str(tmp_path / "folder")] if call in FILES else [])]:
        with pytest.raises(InvalidArgument, match=r"can not be written|is a folder|without NUL"):
            (FILES | FOLDERS)[call](path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_models(tmp_path: Path) -> None:
    keys = np.ones((96, len(SIZES)), np.int64)
    write_norm(tmp_path / "data", np.zeros(96), np.zeros((96, DENSE)), keys, "None", i64=True)
    write_file_list(tmp_path / "list", [tmp_path / "data"])
    source = str(tmp_path / "list")
    model = build(hugectr.DataReaderType_t.Norm, source, eval_source=source)
    model.train()
    calls = {
        "graph_to_json": model.graph_to_json,
        "report": model.report,
        "CSVLog": lambda path: model.fit(max_iter=1, snapshot=0, callbacks=[CSVLog(path)]),
        "export_table": lambda path: model.export_table("table", path, "parquet"),
        "to_onnx": lambda path: to_onnx(model, path),
        "to_torch": lambda path: to_torch(model, path),
        "export_predictions": lambda path: model.export_predictions(path, f"{path}-labels"),
    }
    for path in [*wrong(tmp_path).values(), str(tmp_path / "folder")]:
        for name, call in calls.items():
            with pytest.raises(InvalidArgument) as error:
                call(path)
            assert str(tmp_path) in str(error.value), name
    with pytest.raises(InvalidArgument, match="prefix"):
        model.save_params_to_files(str(tmp_path / "file" / "below"))
