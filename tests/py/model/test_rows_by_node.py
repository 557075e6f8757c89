# SPDX-License-Identifier: Apache-2.0
"""Distinct rows that go to each node once, in processes that stand for nodes: the same model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from model import placed_models, test_placements

TOLERANCE = {"SGD": 1e-5, "Adam": 1e-4}
KINDS = ("by_key", "by_slot", "one_device", "hybrid")
STEPS = 40


def tables_of(seed: int) -> list[placed_models.Table]:
    """What rows may travel of, all of them asked to."""
    tables = placed_models.random_tables(seed, KINDS)
    return [replace(table, exchange="unique") for table in tables]


def run(
    folder: Path, seed: int, rows, nodes, by_node: str, optimizer="SGD", counts=False, **solver
):
    """What a job learned, and how many collectives a process of it made."""
    folder.mkdir()
    return test_placements.run_job(
        folder,
        rows,
        "train",
        script=test_placements.job.TESTS / "processes" / "by_node_job.py",
        script_of_nodes="model/placed_job.py",
        optimizer=optimizer,
        seed=seed,
        kinds=KINDS,
        exchange="unique",
        steps=STEPS,
        nodes=nodes,
        by_node=[by_node],
        solver=solver,
        counts=counts,
    )


@pytest.mark.parametrize(
    ("rows", "nodes", "more"),
    [
        ([[0, 1]] * 2, [0, 1], {}),
        ([[0]] * 4, [0, 1, 0, 1], {}),
        ([[0, 1]] * 4, [1, 0, 1, 0], {"optimizer": "Adam"}),
        ([[0, 1]] * 2, [0, 1], {"micro_batches": 2}),
        ([[0, 1, 2]] * 2, [0, 1], {"wire": "fp16"}),
    ],
    ids=["two of two", "four of one", "eight", "micro-batches", "fp16"],
)
def test_the_model_of_one_device(tmp_path, rows, nodes, more):
    optimizer = more.pop("optimizer", "SGD")
    tables = tables_of(31)
    by_key = placed_models.placed(tables, "by_key")
    wanted = placed_models.outcome(placed_models.make_model(by_key, [[0]], optimizer), STEPS)
    found = run(tmp_path / "a", 31, rows, nodes, "1", optimizer, **more)
    tolerance = 5e-4 if "wire" in more else TOLERANCE[optimizer]
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=tolerance)
    if "wire" not in more:
        placed_models.assert_near(found, wanted, tolerance)
    again = run(tmp_path / "b", 31, rows, nodes, "1", optimizer, **more)
    for name, values in found.items():
        np.testing.assert_array_equal(again[name], values, err_msg=name)


def test_rows_go_in_two_hops(tmp_path):
    """A collective more each way, and one of keys and one of counts in each plan."""
    directly, by_node = (
        run(tmp_path / word, 32, [[0, 1]] * 2, [0, 1], word, counts=True) for word in ("0", "1")
    )
    more = by_node["collectives"][0] - directly["collectives"][0]
    assert more >= 2 * 4 * STEPS, "of two devices"
