# SPDX-License-Identifier: Apache-2.0
"""Processes with a GPU each train what one process trains, with and without MPI."""

import functools
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from hugectr import _core

sys.path.insert(0, str(Path(__file__).parents[1] / "py"))

from model import placed_models, test_rows_by_node
from oracle.small_data import generate
from oracle.small_net import SIZES
from processes import job
from processes.killed_runs import check_killed_half_way

GPUS = _core.device_count("cuda")
STEPS = 100
SCRIPT = job.TESTS / "processes" / "train_job.py"

pytestmark = pytest.mark.gpus(2)

ROWS = [
    rows
    for rows in ([[0], [1]], [[0, 1], [2, 3]], [[0], [1], [2], [3]])
    if sum(map(len, rows)) <= GPUS
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Sources of each format, for training and for evaluation."""
    return {
        kind: generate(tmp_path_factory.mktemp(kind), kind, **more)
        for kind, more in {
            "Norm": {"num_files": 4},
            "Raw": {"num_samples": 2400},
            "Parquet": {"num_files": 4},
        }.items()
    }


@pytest.fixture(scope="module")
def alone(tmp_path_factory, data):
    """What one process with one GPU trains: a function that remembers it."""

    @functools.cache
    def train(embedding, optimizer, kind):
        folder = tmp_path_factory.mktemp("alone")
        return outcome(folder, data, "launch", [[0]], embedding, optimizer, kind)[0]

    return train


def outcome(folder, data, engine, rows, embedding, optimizer, kind, script=SCRIPT, **more):
    settings = {
        "name": f"{len(rows)}",
        "kind": kind,
        "source": data[kind][0],
        "eval_source": data[kind][1],
        "sizes": SIZES,
        "vvgpu": rows,
        "device": "cuda",
        "embedding": embedding,
        "optimizer": optimizer,
        "steps": STEPS,
        **more,
    }
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    status, out, err = job.run(engine, len(rows), script, file)
    assert status == 0, f"{out}\n{err}"
    return [dict(np.load(folder / f"{len(rows)}-{rank}.npz")) for rank in range(len(rows))]


@pytest.mark.parametrize("by_node", ["1", "auto"])
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_processes_that_stand_for_nodes(tmp_path, data, alone, rows, by_node):
    """Collectives inside and between them; of four processes two are a node."""
    one = alone("Distributed", "SGD", "Norm")
    nodes = {"nodes": [rank * 2 // len(rows) for rank in range(len(rows))], "by_node": [by_node]}
    script = SCRIPT.with_name("by_node_job.py")
    of_job = "launch", rows, "Distributed", "SGD", "Norm", script
    parts = outcome(tmp_path, data, *of_job, **nodes)
    for part in parts:
        np.testing.assert_allclose(part["losses"], one["losses"], rtol=1e-5)
        np.testing.assert_array_equal(part["dense"], parts[0]["dense"])
    if by_node == "1":
        again = outcome(tmp_path, data, *of_job, **nodes)
        np.testing.assert_array_equal(again[0]["losses"], parts[0]["losses"])


@pytest.mark.gpus(4)
@pytest.mark.parametrize("rows", [[[0, 1], [2, 3]], [[0], [1], [2], [3]]], ids=str)
@pytest.mark.parametrize("more", [{}, {"micro_batches": 2}, {"wire": "fp16"}], ids=str)
def test_rows_go_to_a_node_once(tmp_path, rows, more):
    tables = test_rows_by_node.tables_of(31)
    one = placed_models.make_model(tables, [[0]], device="cuda")
    wanted = placed_models.outcome(one, test_rows_by_node.STEPS)
    nodes = [rank * 2 // len(rows) for rank in range(len(rows))]
    solver = {"device": "cuda"} | more
    found = test_rows_by_node.run(tmp_path / "a", 31, rows, nodes, "1", **solver)
    tolerance = 5e-4 if "wire" in more else 1e-5
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=tolerance)
    again = test_rows_by_node.run(tmp_path / "b", 31, rows, nodes, "1", **solver)
    np.testing.assert_array_equal(again["losses"], found["losses"])


@pytest.mark.parametrize("rows", ROWS, ids=str)
@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize(
    ("optimizer", "tolerance", "kind"),
    [("SGD", 1e-5, "Norm"), ("SGD", 1e-5, "Parquet"), ("Adam", 1e-4, "Raw")],
)
def test_processes_train_what_one_does(
    tmp_path, data, alone, rows, embedding, optimizer, tolerance, kind
):
    engine = "mpi" if embedding == "Distributed" and shutil.which("mpirun") else "launch"
    one = alone(embedding, optimizer, kind)
    parts = outcome(tmp_path, data, engine, rows, embedding, optimizer, kind)
    for part in parts:
        np.testing.assert_allclose(part["losses"], one["losses"], rtol=tolerance)
        np.testing.assert_array_equal(part["dense"], parts[0]["dense"])
    keys = np.concatenate([part["keys"] for part in parts])
    slots = np.concatenate([part["slots"] for part in parts])
    order = np.lexsort((keys, slots) if slots.size else (keys,))
    np.testing.assert_array_equal(keys[order], one["keys"])
    vectors = np.concatenate([part["vectors"] for part in parts])[order]
    assert np.linalg.norm(vectors - one["vectors"]) <= 1e-4 * np.linalg.norm(one["vectors"])


@pytest.mark.parametrize("processes", [n for n in (1, 2, 4) if n <= GPUS])
def test_killed_half_way_and_resumed(tmp_path, data, processes):
    """With saves in the background, plans ahead and 8 workers."""
    rows = [[id] for id in range(processes)]
    check_killed_half_way(tmp_path, data["Raw"][0], "launch", rows, device="cuda")


@pytest.mark.parametrize("what", ["kill", "sleep"])
def test_all_end_when_one_goes_wrong(what):
    """NCCL waits for ever for a process that is gone; nobody else may."""
    script = job.TESTS / "processes" / "failing_job.py"
    limit = {"HUGECTR_PROCESS_TIMEOUT": "10"}
    status, out, err = job.run("launch", 2, script, what, 1, "cuda", hangs_after=60, **limit)
    assert status != 0, out + err
    assert "process 1" in err
