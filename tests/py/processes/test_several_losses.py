# SPDX-License-Identifier: Apache-2.0
"""Several losses in a job: losses, metrics and predictions of one process with as many devices."""

import json

import numpy as np
from processes import job


def outcome(folder, rows):
    script = job.TESTS / "processes" / "tasks_job.py"
    status, out, err = job.run("launch", len(rows), script, folder, json.dumps(rows))
    assert status == 0, f"{out}\n{err}"
    return [dict(np.load(folder / f"{len(rows)}-{rank}.npz")) for rank in range(len(rows))]


def test_processes_are_devices(tmp_path):
    (one,) = outcome(tmp_path, [[0, 1]])
    for part in outcome(tmp_path, [[0], [0]]):
        assert part["names"].tolist() == one["names"].tolist()
        for name in ("losses", "metrics", "weights", "predictions"):
            np.testing.assert_array_equal(part[name], one[name], name)
