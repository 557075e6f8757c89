# SPDX-License-Identifier: Apache-2.0
"""Workers of multiprocessing (as joblib's) inherit what says which process of a job their parent
is, and are none of it."""

import multiprocessing.process
import os

import pytest
from processes import job

from hugectr.processes.workers import parent_in_job, say_that_this_joined, way_out_of_workers


def test_workers_of_a_job_train_alone():
    script = job.TESTS / "processes" / "workers_job.py"
    status, out, err = job.run("launch", 2, script, HUGECTR_START_TIMEOUT="20", hangs_after=120)
    assert status == 0, err
    assert all(f"process {rank}: workers in jobs of [1, 1]" in out for rank in range(2))


def test_whose_worker_a_process_is(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("HUGECTR_JOINED", "")
    say_that_this_joined()
    own, worker = os.getpid(), dict(os.environ)
    assert parent_in_job() is None  # that is itself
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    assert parent_in_job() is None  # a program that it has started may be of a job of its own
    assert way_out_of_workers() == ""
    monkeypatch.setattr(multiprocessing.process, "parent_process", lambda: "there is one")
    assert parent_in_job() == own
    assert "take RANK and WORLD_SIZE out of os.environ" in way_out_of_workers()
    assert parent_in_job(worker | {"RANK": "0"}) is None  # of another job
    monkeypatch.delenv("HUGECTR_JOINED")
    assert parent_in_job() is None


@pytest.mark.parametrize("text", ["7", "seven:", ":", "-1:x"])
def test_what_is_no_such_variable_means_nothing(text, monkeypatch):
    monkeypatch.setattr(multiprocessing.process, "parent_process", lambda: "there is one")
    assert parent_in_job(os.environ | {"HUGECTR_JOINED": text}) is None
