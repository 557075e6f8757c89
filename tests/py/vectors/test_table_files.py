# SPDX-License-Identifier: Apache-2.0
"""Tables as Parquet, NumPy's and safetensors files, of a model and of its checkpoint."""

import json
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow.parquet as pq
import pytest
from vectors.test_embedding_vectors import D, built, frame_model, rows_of

import hugectr
from hugectr.command import cli
from hugectr.vectors import vectors
from hugectr.vectors.table_files import write_numpy


def read_safetensors(path):
    """By the format's description alone."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    types = {"F32": np.float32, "I64": np.int64, "U64": np.uint64}
    found = {}
    for name, told in header.items():
        if name != "__metadata__":
            begin, end = (8 + size + place for place in told["data_offsets"])
            array = np.frombuffer(data[begin:end], types[told["dtype"]])
            found[name] = array.reshape(told["shape"])
    return found


def read(path, table="table"):
    """Part -> values, whatever the format."""
    if path.suffix == ".safetensors":
        found = read_safetensors(path)
        return {name.removeprefix(f"{table}."): values for name, values in found.items()}
    if path.is_dir():
        return {file.name.split(".")[-2]: np.load(file) for file in path.glob("*.npy")}
    rows = pq.read_table(path)
    found = {name: np.array(rows[name].to_pylist()) for name in rows.column_names}
    return found | {"vector": found["vector"].reshape(len(rows), -1)}


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize("name", ["t.parquet", "t.safetensors", "folder"])
def test_a_table_comes_out_as_it_is(tmp_path, monkeypatch, embedding, name):
    monkeypatch.setattr(vectors, "_BLOCK_ROWS", 7)  # several blocks, the last one short
    model = built(embedding, devices=2)
    keys, slots, values = rows_of(model)
    found = read(model.export_table("table", tmp_path / name))
    assert np.array_equal(found["key"], keys)
    assert np.array_equal(found["vector"].astype(np.float32), values)
    assert ("slot" in found) == (slots is not None)
    if slots is not None:
        assert np.array_equal(found["slot"], slots)
    assert not [*tmp_path.glob("*.partial")]


def test_parquet_names_columns_and_categories_where_there_is_a_schema(tmp_path):
    schema, name, model = frame_model("Distributed")
    model.embeddings[0].bottom_names = [name]
    model.schema = schema
    found = read(model.export_table("table", tmp_path / "t.parquet"))
    named = dict(zip(found["category"], found["key"], strict=True))
    for city in ("Rome", "Oslo", "Bern"):
        assert named[city] == schema.key_of("city", city)
    assert found["column"][found["category"] == "Rome"] == ["city"]


def test_an_empty_table_is_a_file_without_rows(tmp_path):
    model = built(steps=1)
    model.session.table(0).reset()
    for name in ("t.parquet", "t.safetensors", "folder"):
        path = model.export_table("table", tmp_path / name)
        if name == "t.parquet":
            assert pq.read_table(path).num_rows == 0
        else:
            assert read(path)["vector"].shape == (0, D)


def test_an_export_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    model = built()
    target = tmp_path / "t.parquet"
    model.export_table("table", target)
    before = target.read_bytes()

    def broken(self):
        raise OSError("disk full")
        yield

    monkeypatch.setattr(vectors.TableSnapshot, "blocks", broken)
    with pytest.raises(OSError, match="disk full"):
        model.export_table("table", target)
    assert target.read_bytes() == before
    assert not [*tmp_path.glob("*.partial")]


def test_the_checkpoint_is_converted_to_the_same_rows(tmp_path):
    model = built("Localized")
    model.save(tmp_path / "saved")
    keys, slots, values = rows_of(model)
    source, target = str(tmp_path / "saved"), str(tmp_path / "p")
    assert cli.main(["model", "convert", source, target, "--to", "parquet"]) == 0
    found = read(tmp_path / "p" / "table.parquet")
    assert np.array_equal(found["key"], keys)
    assert np.array_equal(found["slot"], slots)
    assert np.array_equal(found["vector"].astype(np.float32), values)
    assert set(np.load(tmp_path / "p" / "dense.npz")) == {"logit.weight", "logit.bias"}


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(hugectr.InvalidArgument, match="export_table: format"):
        built(steps=1).export_table("table", tmp_path / "x", format="csv")


@dataclass
class Given:
    """Rows of a table of any name."""

    name: str
    keys: np.ndarray
    parts = MappingProxyType({"key": ("int64", ())})

    def count(self):
        return len(self.keys)

    def blocks(self):
        yield {"key": self.keys}


def test_names_with_slashes_are_files_of_the_folder_and_apart(tmp_path):
    names = ["fm/categories", "fm%2Fcategories", "../fm", "/fm"]
    for number, name in enumerate(names):
        write_numpy(tmp_path / "folder", Given(name, np.array([number])))
    assert {path.name for path in tmp_path.iterdir()} == {"folder"}
    assert len(list((tmp_path / "folder").iterdir())) == len(names)
    assert np.load(tmp_path / "folder/fm%2Fcategories.key.npy") == 0


@pytest.mark.parametrize("kind", ["numpy", "parquet"])
def test_a_conversion_replaces_an_earlier_one_alone(tmp_path, kind, capsys):
    built().save(tmp_path / "saved")
    target = tmp_path / "out"
    convert = ["model", "convert", str(tmp_path / "saved"), str(target), "--to", kind]
    for _ in range(2):
        assert cli.main(convert) == 0
        names = sorted(path.name for path in target.iterdir())
    (target / "train.csv").write_text("mine")
    assert cli.main(convert) == 2
    assert "'train.csv', which would be lost" in capsys.readouterr().err
    assert sorted(path.name for path in target.iterdir()) == sorted([*names, "train.csv"])
    for path in target.iterdir():
        if path.name != "train.csv":
            path.unlink()
    assert cli.main(convert) == 2
    assert (target / "train.csv").read_text() == "mine"
