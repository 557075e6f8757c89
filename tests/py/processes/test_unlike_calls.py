# SPDX-License-Identifier: Apache-2.0
"""Processes that make unlike calls, or one that the others do not make, are told which."""

import pytest
from processes import job

SCRIPT = job.TESTS / "processes" / "unlike_calls_job.py"
ALONE = job.TESTS / "processes" / "call_alone_job.py"


def test_unlike_calls_are_refused_on_all_processes(tmp_path):
    _, out, err = job.run("launch", 2, SCRIPT, tmp_path / "run")
    assert out.count("both") == 2, err
    assert out.count("ended") == 2, err
    assert not (tmp_path / "run").exists()


CALLS = {
    "rate": "set_learning_rate",
    "weights": "set_dense_weights",
    "frozen": "freeze_dense",
    "loss": "get_current_loss",
    "losses": "get_current_losses",
    "metrics": "get_eval_metrics",
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_of_one_process_alone_is_named(what):
    status, out, err = job.run("launch", 2, ALONE, what, HUGECTR_PROCESS_TIMEOUT="4")
    assert status != 0
    assert "trained" not in out
    assert "did not take part" in err, err
    assert f"alone in Model.{CALLS[what]}, a call of all processes, not of one" in out, out
