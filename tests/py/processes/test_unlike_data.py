# SPDX-License-Identifier: Apache-2.0
"""Processes that have unlike data are told so, before any of them trains."""

import pytest
from processes import job

SCRIPT = job.TESTS / "processes" / "unlike_data_job.py"


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("order", "data.source is one 96 samples in memory on process 0 and another 96 samples"),
        ("one sample", "data.source is one 96 samples in memory on process 0 and another"),
        ("fewer", "data.source is 96 samples in memory on process 0 and 95 samples in memory"),
        ("table of a share", "data.source is one a table of 48 rows on process 0 and another"),
        ("files", "Model.compile: data.source is one 1 file on process 0 and another 1 file on"),
        (
            "files, restarted",
            "restart_training_data: source is one 1 file on process 0 and another",
        ),
        ("table, shuffled", "data.shuffle.seed is 1 on process 0 and 2 on process 1"),
    ],
)
def test_unlike_data_is_refused(what, says, tmp_path):
    status, out, err = job.run("launch", 2, SCRIPT, what, tmp_path)
    assert status == 2, err
    assert says in err, err
    assert "all processes of a job read the same data" in err
    assert "trained" not in out


@pytest.mark.parametrize("what", ["same", "table", "files of one content"])
def test_the_same_data_is_taken_however_it_lies(what, tmp_path):
    status, out, err = job.run("launch", 2, SCRIPT, what, tmp_path)
    assert status == 0, err
    assert out.count("trained") == 2
