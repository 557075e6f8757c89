# SPDX-License-Identifier: Apache-2.0
"""``hugectr.load``: a checkpoint is enough, all that is read is checked, no more is read."""

import json
import pickle
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from oracle.checkpoint_net import CASES, build as build_net, data as net_data
from oracle.framed_model import BATCH, VEC, build, evaluated, fitted, frame, trained

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints.manifest import manifest_text, read_manifest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "checkpoints"


@pytest.mark.parametrize("case", CASES)
def test_checkpoints_of_earlier_versions_load(case):
    folder = FIXTURES / "be4a3b8" / case
    loaded = hugectr.load(folder)
    manifest = read_manifest(checkpoints.latest(folder))
    assert loaded.schema is None
    assert loaded.step == manifest["step"]
    assert loaded.description == manifest["description"]
    assert loaded.solver.batchsize_eval == 2048  # it does not say
    model = build_net(**CASES[case] | {"processes": 1})
    model.resume(folder)
    assert loaded.predict(net_data(), 16).tobytes() == model.predict(net_data(), 16).tobytes()
    for one, two in zip(loaded.session.tables(), model.session.tables(), strict=True):
        a, b = (t.read(t.order(0), 0, len(t.order(0)), False) for t in (one, two))
        assert a["keys"].tobytes() == b["keys"].tobytes()
        assert a["vectors"].tobytes() == b["vectors"].tobytes()
        assert not set(one.parts()) - {"key", "slot", "vector"}
    assert loaded.session.network.dense_optimizer_states().size == 0


@pytest.mark.parametrize("case", CASES)
def test_checkpoints_without_a_description_load_with_a_graph(case, tmp_path):
    """Format 2: the graph is a file's, and what nobody knows is None."""
    folder = FIXTURES / "b17f4bf" / case
    model = build_net(**CASES[case] | {"processes": 1})
    model.resume(folder)
    model.graph_to_json(tmp_path / "graph.json")
    loaded = hugectr.load(folder, graph=tmp_path / "graph.json")
    assert loaded.schema is None
    assert loaded.step == json.loads((FIXTURES / "b17f4bf" / f"{case}.json").read_text())["step"]
    # A later version said of the same model:
    known = read_manifest(checkpoints.latest(FIXTURES / "be4a3b8" / case))["description"]
    unknown = {"precision": "float32", "loss_scaling": None, "optimizer": None}
    tables = [table | {"optimizer": None} for table in known["tables"]]
    assert loaded.description == known | unknown | {"tables": tables}
    assert loaded.solver.batchsize_eval == 2048  # it does not say
    assert [a.name for a in loaded.dense_layers] == [a["name"] for a in known["layers"]]
    found, wanted = (one.predict(net_data(), 16) for one in (loaded, model))
    if "precision" in CASES[case]:  # it does not say that either
        np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-3)
    else:
        assert found.tobytes() == wanted.tobytes()


def as_format_1(path, folder):
    """A copy of a checkpoint of format 2 as the version before would have written it."""
    copy = shutil.copytree(path, folder / path.name)
    manifest = json.loads((copy / "manifest.json").read_text())
    for number, table in enumerate(manifest["tables"]):
        (shard,) = table.pop("shards")
        del table["chunk_rows"]
        for part, name in shard["files"].items():
            (copy / name).rename(copy / f"table{number}.{part}")
            manifest["files"][f"table{number}.{part}"] = manifest["files"].pop(name)
    for name, entry in manifest["files"].items():
        del entry["chunk_bytes"]
        entry["crc32"] = zlib.crc32((copy / name).read_bytes())
    (copy / "manifest.json").write_bytes(manifest_text(manifest | {"format": 1}))
    return copy


@pytest.mark.parametrize("case", ["adagrad", "adam_local", "momentum", "sgd"])
def test_format_1_loads_with_a_graph(case, tmp_path):
    old = checkpoints.latest(FIXTURES / "b17f4bf" / case)
    model = build_net(**CASES[case] | {"processes": 1})
    model.resume(old)
    model.graph_to_json(tmp_path / "graph.json")
    first = as_format_1(old, tmp_path)
    with pytest.raises(hugectr.InvalidArgument, match=r"load\(path, graph=FILE\)"):
        hugectr.load(first)
    loaded = hugectr.load(first, graph=tmp_path / "graph.json")
    assert loaded.step == json.loads((FIXTURES / "b17f4bf" / f"{case}.json").read_text())["step"]
    assert loaded.predict(net_data(), 16).tobytes() == model.predict(net_data(), 16).tobytes()
    for name in ("dense.weights", "table0.vector"):
        flip(first / name)
        with pytest.raises(hugectr.DataError, match=f"{name} is damaged"):
            hugectr.load(first, graph=tmp_path / "graph.json")
        flip(first / name)
    if (first / "table0.state0").exists():  # of the training: not read
        flip(first / "table0.state0")
    hugectr.load(first, graph=tmp_path / "graph.json")


def test_a_graph_is_asked_for_where_it_is_needed_and_nowhere_else(tmp_path):
    old, new = FIXTURES / "b17f4bf" / "sgd", FIXTURES / "be4a3b8" / "sgd"
    with pytest.raises(
        hugectr.InvalidArgument, match=r"load\(path, graph=FILE\), as Model.graph_to"
    ):
        hugectr.load(old)
    build_net(hidden=6).graph_to_json(tmp_path / "graph.json")
    with pytest.raises(hugectr.InvalidArgument, match=r"'hidden.weight': checkpoint \(17, 5\)"):
        hugectr.load(old, graph=tmp_path / "graph.json")
    with pytest.raises(hugectr.InvalidArgument, match="describes its model itself"):
        hugectr.load(new, graph=tmp_path / "graph.json")
    with pytest.raises(hugectr.InvalidArgument, match="nowhere"):
        hugectr.load(old, graph=tmp_path / "nowhere.json")


def test_every_link_of_a_chain_loads():
    for step, path in checkpoints.published(FIXTURES / "be4a3b8" / "deltas"):
        model = build_net(**CASES["deltas"])
        model.resume(path)
        loaded = hugectr.load(path)
        assert loaded.step == step
        assert loaded.predict(net_data(), 16).tobytes() == model.predict(net_data(), 16).tobytes()


def test_parts_are_those_of_the_model(tmp_path):
    model = trained()
    loaded = hugectr.load(model.save(tmp_path))
    assert loaded.solver.batchsize_eval == BATCH
    assert repr(loaded.input.sparse[0].top_name) == repr(model.input.sparse[0].top_name)
    names = [table.sparse_embedding_name for table in model.embeddings]
    assert [table.sparse_embedding_name for table in loaded.embeddings] == names
    assert {layer.name for layer in model.dense_layers} <= {
        layer.name for layer in loaded.dense_layers
    }
    assert repr(loaded.schema) == repr(model.schema)
    with pytest.raises(TypeError, match=r"hugectr\.load"):
        pickle.dumps(loaded)


def test_saved_on_several_devices_and_as_deltas(tmp_path):
    model = trained(devices=2, kind="Localized")
    model.save(tmp_path, delta=True)
    for _ in range(3):
        model.train()
    path = model.save(tmp_path, delta=True)
    assert read_manifest(path)["chain"]
    loaded = hugectr.load(tmp_path)
    np.testing.assert_allclose(
        loaded.predict(frame(), BATCH, output="logit"), evaluated(model).ravel(), rtol=0, atol=1e-6
    )
    assert loaded.schema is not None


# --- what is refused ------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    return trained().save(tmp_path / "run")


def test_no_checkpoint(tmp_path):
    with pytest.raises(hugectr.InvalidArgument, match=r"load: .* is no checkpoint and has none"):
        hugectr.load(tmp_path)
    with pytest.raises(hugectr.InvalidArgument, match=r"load: .*no such folder"):
        hugectr.load(tmp_path / "nothing")
    with pytest.raises(hugectr.InvalidArgument, match="load: device"):
        hugectr.load(tmp_path, device="tpu")


def flip(path, place=-1):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name", ["dense.weights", "table0.key.1-of-1", "table1.vector.1-of-1", "statistics0.mean"]
)
def test_damage_is_found(saved, name):
    flip(saved / name)
    with pytest.raises(hugectr.DataError, match=f"{name} is damaged in bytes"):
        hugectr.load(saved)


def test_optimizer_states_are_not_read(saved):
    wanted = hugectr.load(saved).predict(frame())
    for name in ("dense.states", "table0.state0.1-of-1", "table1.state1.1-of-1"):
        flip(saved / name)
    with pytest.raises(hugectr.DataError):
        checkpoints.verify(saved)
    assert hugectr.load(saved).predict(frame()).tobytes() == wanted.tobytes()


def test_a_schema_is_checked(saved):
    names = [path.name for path in (saved / "schema").iterdir()]
    assert "schema.json" in names
    assert len(names) > 1
    for name in names:
        flip(saved / "schema" / name)
        with pytest.raises(hugectr.DataError, match=f"schema/{name} is damaged"):
            hugectr.load(saved)
        with pytest.raises(hugectr.DataError, match=f"schema/{name} is damaged"):
            checkpoints.verify(saved)
        flip(saved / "schema" / name)
    (saved / "schema" / names[0]).unlink()
    with pytest.raises(hugectr.DataError, match=f"schema/{names[0]} is missing"):
        hugectr.load(saved)


def rewritten(saved, **changes):
    manifest = json.loads((saved / "manifest.json").read_text()) | changes
    (saved / "manifest.json").write_bytes(manifest_text(manifest))


def test_a_later_version_and_one_without_a_description(saved):
    rewritten(saved, format=5)
    with pytest.raises(hugectr.DataError, match=r"format 5, this version reads 1 to 4: update"):
        hugectr.load(saved)
    rewritten(saved, format=3, description=None)
    with pytest.raises(hugectr.InvalidArgument, match=r"does not describe.*Model\.load_weights"):
        hugectr.load(saved)


def test_a_layer_that_this_version_has_not(saved):
    description = read_manifest(saved)["description"]
    description["layers"][-2]["type"] = "Transformer"
    rewritten(saved, description=description)
    with pytest.raises(hugectr.DataError, match=r"can not build .*Transformer"):
        hugectr.load(saved)


def test_a_slice_of_half_a_range(saved):
    description = read_manifest(saved)["description"]
    description["layers"][-2] |= {"type": "Slice", "attributes": {"ranges": [0, 1, 2]}}
    rewritten(saved, description=description)
    with pytest.raises(hugectr.DataError, match="can not build"):
        hugectr.load(saved)


def test_names_outside_the_folder_are_refused(saved):
    schema = read_manifest(saved)["schema"]
    rewritten(saved, schema={"../../schema.json": schema["schema.json"]})
    with pytest.raises(hugectr.DataError, match=r"a name in schema"):
        hugectr.load(saved)


# --- memory ---------------------------------------------------------------------------------------

SCRIPT = """
import resource, sys
import hugectr
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
hugectr.load(sys.argv[1])
before = peak()
model = hugectr.load(sys.argv[2])
print(peak() - before, sum(t.stats()["bytes"] for t in model.session.tables()) >> 20)
"""


def test_memory_holds_the_tables_once(saved, tmp_path):
    """100 MB of index and rows; as many bytes of states as of vectors, which are not read."""
    schema = fitted()
    model = build(schema.encode(frame()), schema, optimizer="AdaGrad")
    rows = 1_500_000
    vectors = np.random.default_rng(1).random((rows, VEC), np.float32)
    model.session.table(0).load(
        {
            "keys": np.arange(rows),
            "slot_ids": None,
            "vectors": vectors,
            "states": [vectors],
            "last_step": None,
        }
    )
    large = model.save(tmp_path / "large")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(saved), str(large)],
        capture_output=True,
        text=True,
        check=True,
    )
    grown, tables = map(int, done.stdout.split())
    assert tables > 60
    # Beside the tables two chunks of 16 MB are mapped, and the allocator has its slack.
    assert grown < tables + 64, (grown, tables)
