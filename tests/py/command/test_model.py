# SPDX-License-Identifier: Apache-2.0
"""``hugectr model``: checkpoints verified, resharded, converted there and back."""

import json
from pathlib import Path

import numpy as np
import pytest
from oracle.command import hctr

from hugectr import checkpoints
from hugectr.checkpoints.chunks import CHUNK
from hugectr.checkpoints.export import dense_tensors


@pytest.fixture
def saved(make_model, tmp_path):
    model = make_model(batch_norm=True)
    model.compile()
    for _ in range(4):
        model.train()
    return tmp_path, model, model.save(tmp_path / "run")


def state(model):
    return checkpoints.take(model._state).arrays


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name, values in a.items():
        np.testing.assert_array_equal(values, b[name], err_msg=name)


def test_verify_names_the_damaged_file(saved):
    folder, model, path = saved
    model.train()
    model.save(folder / "run")
    assert hctr("model", "verify", path).returncode == 0
    done = hctr("model", "verify", folder / "run")
    assert done.returncode == 0
    assert done.stdout.count(": ok") == 2
    file = path / "table0.state1.1-of-1"
    content = bytearray(file.read_bytes())
    content[100] ^= 4
    file.write_bytes(content)
    done = hctr("model", "verify", folder / "run", "--json")
    assert done.returncode == 1
    problems = json.loads(done.stdout)
    assert str(file) in problems[str(path)]
    assert list(problems.values()).count(None) == 1
    assert hctr("model", "verify", folder / "none").returncode == 2
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text[: len(text) // 2])
    done = hctr("model", "verify", path)
    assert done.returncode == 1
    assert "manifest.json" in done.stdout


def test_inspect_of_a_checkpoint(saved):
    _, model, path = saved
    done = hctr("model", "inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)
    rows = len(model.session.table(0).dump()["keys"])
    assert report["step"] == 4
    assert report["tables"][0]["rows"] == rows
    assert f"{rows:,} rows x 8, 1 shards" in hctr("model", "inspect", path.parent).stdout
    (path / "dense.states").unlink()
    done = hctr("model", "inspect", path)
    assert done.returncode == 1
    assert "dense.states" in done.stdout


@pytest.mark.parametrize("chunk", [500, CHUNK])
def test_reshard_there_and_back(saved, make_model, monkeypatch, chunk):
    folder, model, path = saved
    monkeypatch.setattr("hugectr.checkpoints.reshard.CHUNK", chunk)
    from hugectr.checkpoints.reshard import reshard

    three = reshard(path, folder / "three", 3)
    manifest = checkpoints.verify(three)
    (table,) = manifest["tables"]
    assert [len(shard["files"]) for shard in table["shards"]] == [5] * 3
    assert min(shard["rows"] for shard in table["shards"]) > 0
    one = reshard(three, folder / "one", 1)
    assert hctr("model", "reshard", three, 1, folder / "by_command").returncode == 0
    again = make_model(batch_norm=True)
    again.compile()
    for place in (three, one, folder / "by_command"):
        again.resume(place)
        assert_same(state(again), state(model))
    for name in checkpoints.verify(path)["files"]:
        assert (one / name).read_bytes() == (path / name).read_bytes()
    assert hctr("model", "reshard", path, 0, folder / "x").returncode == 2


def test_to_the_original_layout_and_back(saved, make_model):
    folder, model, path = saved
    assert hctr("model", "convert", path, folder / "a" / "m", "--to", "original").returncode == 0
    model.save_params_to_files(str(folder / "b" / "m"), 4)
    files = {p.relative_to(folder / "b"): p for p in (folder / "b").rglob("*") if p.is_file()}
    assert len(files) == 7
    for name, file in files.items():
        assert (folder / "a" / name).read_bytes() == file.read_bytes(), name
    dense = folder / "b" / "m_dense_4.model"
    done = hctr("model", "convert", dense, folder / "c", "--to", "native", "--tables", "vectors")
    assert done.returncode == 0, done.stderr
    again = make_model(batch_norm=True)
    again.compile()
    again.resume(folder / "c")
    assert_same(state(again), state(model))
    assert again.session.step() == 4
    wrong = hctr("model", "convert", dense, folder / "d", "--to", "native")
    assert wrong.returncode == 2
    assert "--tables" in wrong.stderr
    key = folder / "b" / "m0_sparse_4.model" / "key"
    keys = np.fromfile(key, np.int64)
    keys[1] = keys[0]
    slots = key.with_name("slot_id")
    if slots.exists():
        np.zeros(len(keys), np.uint64).tofile(slots)
        keys[1:] = np.arange(len(keys) - 1) + keys[0]
    keys.tofile(key)
    twice = hctr("model", "convert", dense, folder / "d", "--to", "native", "--tables", "vectors")
    assert twice.returncode == 1
    assert "more than once" in twice.stderr


def test_export(saved):
    folder, model, path = saved
    bag = model.session.table(0).dump()
    dense = {name: np.array(model.dense_weight(name)) for name in model.dense_weight_names()}
    table = {"vectors.key": bag["keys"], "vectors.vector": bag["vectors"]}
    if bag["slot_ids"] is not None:
        table["vectors.slot"] = bag["slot_ids"]
    assert hctr("model", "convert", path, folder / "np", "--to", "numpy").returncode == 0
    assert_same(dict(np.load(folder / "np" / "dense.npz")), dense)
    assert_same({p.stem: np.load(p) for p in (folder / "np").glob("*.npy")}, table)
    file = folder / "m.safetensors"
    assert hctr("model", "convert", path, file, "--to", "safetensors").returncode == 0
    assert_same(_safetensors(file), dense | table)
    numpy_reader = pytest.importorskip("safetensors.numpy")  # the format's own reader
    assert_same(numpy_reader.load_file(file), dense | table)


def _safetensors(file: Path):
    """By the format's description: a length, a JSON header, data."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert header.pop("__metadata__") == {"step": "4"}
    types = {"F32": np.float32, "I64": np.int64, "U64": np.uint64}
    ends = sorted(tuple(tensor["data_offsets"]) for tensor in header.values())
    assert ends[0][0] == 0
    assert [a[1] for a in ends[:-1]] == [b[0] for b in ends[1:]]  # no holes
    assert ends[-1][1] == len(data) - 8 - size
    tensors = {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        values = np.frombuffer(data[8 + size + begin : 8 + size + end], types[tensor["dtype"]])
        tensors[name] = values.reshape(tensor["shape"])
    return tensors


def test_a_checkpoint_that_names_no_tensors_is_exported_flat(saved):
    _, model, path = saved
    manifest = checkpoints.verify(path) | {"dense_tensors": []}
    (name,) = dense_tensors((path, manifest)).keys()
    assert name == "dense"
    assert model.session.network.dense_weights().size > 0
