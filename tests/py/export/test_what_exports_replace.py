# SPDX-License-Identifier: Apache-2.0
"""Exports replace what an earlier export has written, and nothing else."""

import errno
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracle.export_models import TOWER, example

from hugectr.base.errors import InvalidArgument
from hugectr.base.replaced import refuse_other_file
from hugectr.command import cli
from hugectr.export import to_onnx, to_torch
from hugectr.export.onnx_file import _FILES
from hugectr.export.onnx_head import is_onnx
from hugectr.export.tables_beside import refuse_other_export
from hugectr.vectors.table_files import _is_safetensors_of_rows, refuse_other_table

#: ModelProto: ir_version 8, producer "x", a graph of three bytes.
SMALLEST = b"\x08\x08\x12\x01x\x3a\x03\x12\x01g"


@pytest.fixture(scope="module")
def model():
    return example(TOWER).model


@pytest.mark.parametrize(
    "content", [b"age,city\n31,Rome\n", b"PAR1 and more", SMALLEST[:-1], b"\x08"]
)
def test_a_file_that_is_no_onnx_is_refused(model, tmp_path, content):
    path = tmp_path / "test.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match=r"test.csv is there and no ONNX file"):
        to_onnx(model, path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["test.csv"]


def test_what_is_onnx_is_known(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(SMALLEST)
    assert is_onnx(path)
    path.write_bytes(SMALLEST[:2] + SMALLEST[5:])
    assert is_onnx(path)
    path.write_bytes(SMALLEST[:5])  # no graph
    assert not is_onnx(path)


@pytest.mark.parametrize("name", ["model.py", "weights.npz", "reader.py", "notes.txt"])
@pytest.mark.parametrize("export", [to_torch, to_onnx])
def test_a_folder_of_something_else_is_refused(model, tmp_path, export, name):
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj" / name).write_text("mine")
    with pytest.raises(InvalidArgument, match="proj is there and no earlier export"):
        export(model, tmp_path / "proj")
    assert (tmp_path / "proj" / name).read_text() == "mine"
    assert os.listdir(tmp_path) == ["proj"]


def test_an_earlier_export_of_the_same_kind_is_replaced(model, tmp_path):
    folder = to_torch(model, tmp_path / "net")
    first = sorted(os.listdir(folder))
    (folder / "model.py").write_text("old")
    (folder / "__pycache__").mkdir()
    to_torch(model, folder)
    assert sorted(os.listdir(folder)) == first
    assert "class Network" in (folder / "model.py").read_text()
    with pytest.raises(InvalidArgument, match="no earlier export of the same kind"):
        refuse_other_export("to_onnx", folder, _FILES)
    (folder / "mine.txt").write_text("x")
    with pytest.raises(
        InvalidArgument, match=r"more in it than .*'mine\.txt', which would be lost"
    ):
        to_torch(model, folder)
    assert os.listdir(tmp_path) == ["net"]


def test_a_disk_that_is_full_leaves_what_was_there(model, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        to_torch(model, tmp_path / "net")
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    folder = to_torch(model, tmp_path / "net")
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        to_torch(model, folder)
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before
    assert os.listdir(tmp_path) == ["net"]


@pytest.mark.parametrize("ending", ["parquet", "safetensors"])
def test_a_table_replaces_no_data(model, tmp_path, ending):
    name = model.embeddings[0].sparse_embedding_name
    path = tmp_path / f"train.{ending}"
    pq.write_table(pa.table({"city": ["Rome"], "y": [1]}), path)
    before = path.read_bytes()
    with pytest.raises(InvalidArgument, match="is there and no"):
        model.export_table(name, path)
    assert path.read_bytes() == before
    path.unlink()
    model.export_table(name, path)
    first = path.read_bytes()
    model.export_table(name, path)
    assert path.read_bytes() == first


def test_arrays_of_a_table_replace_arrays(model, tmp_path):
    name = model.embeddings[0].sparse_embedding_name
    model.export_table(name, tmp_path / "rows")
    model.export_table(name, tmp_path / "rows")
    key = tmp_path / "rows" / f"{name}.key.npy"
    key.write_text("mine")
    with pytest.raises(InvalidArgument, match="is there and no array of NumPy"):
        model.export_table(name, tmp_path / "rows")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgument, match="is there and no folder"):
        model.export_table(name, tmp_path / "file")


def test_the_command_replaces_no_data(model, tmp_path, capsys):
    model.save(tmp_path / "run")
    data = tmp_path / "test.csv"
    data.write_text("a,b\n1,2\n")
    for flag in ("--onnx", "--torch"):
        assert cli.main(["export", str(tmp_path / "run"), flag, str(data)]) == 2
        assert "test.csv is there and no" in capsys.readouterr().err
    step = next((tmp_path / "run").iterdir())
    for kind in ("safetensors", "parquet"):
        assert cli.main(["model", "convert", str(step), str(data), "--to", kind]) != 0
    assert data.read_text() == "a,b\n1,2\n"


def test_a_file_that_nests_deeply_is_no_table(tmp_path):
    path = tmp_path / "deep.safetensors"
    header = b'{"a":' + b"[" * 200_000
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    before = path.read_bytes()
    with pytest.raises(InvalidArgument, match=r"deep.safetensors is there and no safetensors file"):
        refuse_other_table(path, "safetensors")
    assert path.read_bytes() == before


@pytest.mark.parametrize("metadata", [{"step": "9", "format": "pt"}, None, 5, "step of mine"])
def test_a_safetensors_file_of_another_program_is_none_of_rows(tmp_path, metadata):
    header = json.dumps({"__metadata__": metadata}).encode()
    file = tmp_path / "lora.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InvalidArgument, match="is there and no"):
        refuse_other_file("convert", file, "safetensors file of rows", _is_safetensors_of_rows)
