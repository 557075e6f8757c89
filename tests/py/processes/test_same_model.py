# SPDX-License-Identifier: Apache-2.0
"""Processes that build unlike models are told so, before any of them trains."""

import pytest
from processes import job

SCRIPT = job.TESTS / "processes" / "unlike_job.py"


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (
            "placement",
            "Model.compile: embeddings['table0'].placement is 'by_key' on process 0 and "
            "'one_device' on process 1",
        ),
        ("frequent", "embeddings['table0'].frequent is "),
        ("rate", "solver.lr is 0.02 on process 0 and 0.5 on process 1"),
        ("optimizer", "optimizer is 'SGD' on process 0 and 'AdaGrad' on process 1"),
        ("plan", "Model.compile: solver.plan is None on process 0 and 'auto' on process 1"),
        ("table", " is not there on process 0 and "),
        ("variable", "environment.HUGECTR_BUCKET_BYTES is None on process 0 and '1' on process 1"),
    ],
)
def test_unlike_models_are_refused(what, says):
    status, out, err = job.run("launch", 2, SCRIPT, what)
    assert status == 2, err
    assert says in err, err
    assert "all processes of a job build the same model" in err
    assert "trained" not in out


def test_how_a_process_computes_is_its_own():
    status, out, err = job.run("launch", 2, SCRIPT, "own")
    assert status == 0, err
    assert out.count("trained") == 2
