# SPDX-License-Identifier: Apache-2.0
"""Jobs of several nodes, a process or some of them each: the same model as of one process."""

import json

import numpy as np
import pytest
from oracle.small_data import NAMES, generate
from oracle.small_net import SIZES
from processes import job

SCRIPT = job.TESTS / "processes" / "by_node_job.py"
STEPS, TOLERANCE = 60, {"SGD": 1e-5, "Adam": 1e-4}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    generate(folder, "Norm")
    return folder


def run(folder, data, rows, nodes, by_node, optimizer="SGD", embedding="Distributed"):
    settings = {
        "name": "job",
        "kind": "Norm",
        "source": str(data / "Norm" / NAMES["Norm"]),
        "eval_source": str(data / "Norm" / "eval" / NAMES["Norm"]),
        "sizes": SIZES,
        "vvgpu": rows,
        "embedding": embedding,
        "optimizer": optimizer,
        "steps": STEPS,
        "nodes": nodes,
        "by_node": by_node,
    }
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    return job.run("launch", len(rows), SCRIPT, file)


def trained(folder, data, rows, nodes, by_node, *more):
    status, out, err = run(folder, data, rows, nodes, by_node, *more)
    assert status == 0, f"{out}\n{err}"
    return [dict(np.load(folder / f"job-{rank}.npz")) for rank in range(len(rows))]


@pytest.mark.parametrize(
    ("rows", "nodes", "by_node", "embedding", "optimizer"),
    [
        ([[0, 1]] * 2, [0, 1], "1", "Distributed", "SGD"),
        ([[0]] * 4, [0, 0, 1, 1], "1", "Localized", "Adam"),
        ([[0, 1]] * 4, [1, 0, 1, 0], "1", "Distributed", "Adam"),
        ([[0, 1]] * 2, [0, 1], "auto", "Distributed", "SGD"),
    ],
)
def test_nodes_train_what_one_process_does(
    tmp_path, data, rows, nodes, by_node, embedding, optimizer
):
    one = trained(tmp_path, data, [[0]], [0], ["0"], optimizer, embedding)[0]
    parts = trained(tmp_path, data, rows, nodes, [by_node], optimizer, embedding)
    for part in parts:
        np.testing.assert_allclose(part["losses"], one["losses"], rtol=TOLERANCE[optimizer])
        np.testing.assert_array_equal(part["dense"], parts[0]["dense"])
    again = trained(tmp_path, data, rows, nodes, [by_node], optimizer, embedding)
    if by_node == "1":  # with "auto" the way may be another one each time
        for name in ("losses", "dense", "vectors"):
            for first, second in zip(parts, again, strict=True):
                np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize(
    ("rows", "nodes", "by_node", "wanted"),
    [
        ([[0]] * 2, [0, 1], ["yes"], "HUGECTR_BY_NODE is 'yes': 0, 1 or auto are allowed"),
        ([[0]] * 2, [0, 1], ["1", "0"], "HUGECTR_BY_NODE is '1' in process 0 and '0' in process 1"),
        ([[0]] * 3, [0, 0, 1], ["1"], "node 0 has 2 devices and node 1 has 1"),
        ([[0, 1], [0], [0], [0, 1]], [0, 0, 1, 1], ["1"], "process 0 has 2 devices and process 1"),
    ],
)
def test_what_can_not_go_by_node_is_refused(tmp_path, data, rows, nodes, by_node, wanted):
    status, out, err = run(tmp_path, data, rows, nodes, by_node)
    assert status != 0
    assert wanted in out + err
