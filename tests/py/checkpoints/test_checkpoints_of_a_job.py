# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of real jobs: saved by some processes, loaded by others, with the same bytes."""

import json
from pathlib import Path

import numpy as np
import pytest
from oracle.small_data import generate
from oracle.small_net import SIZES, build, losses

from hugectr import checkpoints
from hugectr.checkpoints.manifest import manifest_text
from hugectr.checkpoints.reshard import reshard
from hugectr.spec.enums import DataReaderType_t

job = pytest.importorskip("processes.job")
SCRIPT = Path(__file__).with_name("checkpoint_job.py")
ROWS = {1: [[0, 1, 2, 3]], 2: [[0, 1], [0, 1]], 3: [[0, 1], [0], [0]]}  # of 4 devices


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("data"), "Raw", num_samples=2400)[0]


def run(tmp_path, source, count, action, embedding, **settings):
    """Run the script in so many processes; returns the losses."""
    file, result = tmp_path / "settings.json", tmp_path / "result.json"
    settings |= {"folder": str(tmp_path), "source": source, "result": str(result)}
    settings |= {"vvgpu": ROWS[count], "action": action, "embedding": embedding}
    file.write_text(json.dumps(settings))
    status, out, err = job.run("launch", count, SCRIPT, file)
    assert status == 0, out + err
    return json.loads(result.read_text())


def content(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize(("saving", "loading"), [(2, 3), (3, 1), (1, 2)])
def test_saved_by_some_loaded_by_others(tmp_path, source, saving, loading, embedding):
    wanted = run(tmp_path, source, saving, "save", embedding)
    path = checkpoints.latest(tmp_path / "run")
    manifest = checkpoints.verify(path)
    assert len(manifest["tables"][0]["shards"]) == saving
    assert manifest["chain"] == ["step-0000000008"]
    found = run(tmp_path, source, loading, "resume", embedding, again="again")
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    again = checkpoints.latest(tmp_path / "again")
    assert len(checkpoints.verify(again)["tables"][0]["shards"]) == loading
    a, b = (content(reshard(p, tmp_path / f"one{i}", 1)) for i, p in enumerate((path, again)))
    assert a == b  # rows, states, dense weights, position: all the same bytes
    files = content(tmp_path / "files")
    assert {n: d for n, d in content(tmp_path / "again").items() if n in files} == files
    run(tmp_path, source, loading, "files", embedding, again="from_files")
    assert content(tmp_path / "from_files") == files


def test_a_place_that_the_data_has_not_stops_no_job(tmp_path, source):
    """Readers that share the decoding go back together."""
    wanted = run(tmp_path, source, 2, "save", "Distributed")
    assert wanted
    path = checkpoints.latest(tmp_path / "run")
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["data_position"]["sample"] = 10**9
    (path / "manifest.json").write_bytes(manifest_text(manifest))
    found = run(tmp_path, source, 2, "refused", "Distributed")
    settings = {"slot_size_array": SIZES, "float_label_dense": True, "vvgpu": [[0, 1, 2, 3]]}
    alone = losses(build(DataReaderType_t.Raw, source, **settings), 5)
    np.testing.assert_allclose(found, alone, rtol=1e-5)
