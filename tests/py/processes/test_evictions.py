# SPDX-License-Identifier: Apache-2.0
"""``Model.evict`` in a job: all processes ask for the same rows, or none goes."""

from pathlib import Path

from processes import job


def test_processes_that_ask_for_different_rows():
    status, out, err = job.run("launch", 2, Path(__file__).with_name("eviction_job.py"))
    assert status == 0, out + err
    assert out.count("both") == 2
