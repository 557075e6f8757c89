# SPDX-License-Identifier: Apache-2.0
"""Estimators in a job of several processes: one model, on all of them, and each may save it."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from oracle.thread_group import results_of
from processes import job

import hugectr
from hugectr.estimator.jobs import in_one_folder

SCRIPT = Path(__file__).with_name("fit_job.py")


def run(folder, size, **settings):
    script = [SCRIPT, folder, json.dumps(settings)]
    status, out, err = job.run("launch", size, *script)
    assert status == 0, f"{out}\n{err}"
    found = [dict(np.load(folder / f"{size}-{rank}.npz")) for rank in range(size)]
    for one in found:
        for part in one["predictions"]:
            np.testing.assert_array_equal(part, found[0]["predictions"][0])
    return found[0]


def test_processes_have_the_model_of_one(tmp_path):
    said = {"random_state": 1, "epochs": 3, "model": "wdl"}
    one, two = (run(tmp_path, size, **said) for size in (1, 2))
    assert one["steps"] == two["steps"]
    np.testing.assert_allclose(two["predictions"], one["predictions"], rtol=1e-4)
    assert sorted(os.listdir(tmp_path)) == ["1-0.npz", "2-0.npz", "2-1.npz", "model", "own-1"]
    hugectr.CTRClassifier.load(tmp_path / "own-1")


def test_nobody_gives_a_seed_and_rows_divide_by_nothing(tmp_path):
    run(tmp_path, 3, epochs=1, model="lr", rows=601)


class OfTwo:
    """A group of two processes, of which this is the second; the first says a folder."""

    rank, size = 1, 2

    def __init__(self, said):
        self.said = said

    def all_gather(self, data, limit=None):
        return [self.said.pop(0), data]


def test_notes_of_who_saves_are_not_copied(tmp_path, monkeypatch):
    """They are gone at any moment, and a copy with them."""
    from hugectr import processes

    def work(group):
        monkeypatch.setattr(processes, "current", lambda: groups[threading.get_ident()])
        groups[threading.get_ident()] = group
        group.barrier()
        own = tmp_path / str(group.rank)
        own.mkdir()

        def save(folder):
            if group.rank == 0:
                (folder / "step").mkdir()
                (folder / ".saving-owner").symlink_to(tmp_path / "gone")
            group.barrier()

        in_one_folder("fit", own, save)
        group.barrier()
        return sorted(os.listdir(own))

    groups = {}
    assert results_of(2, work)[1] == ["step"]


def test_a_folder_that_only_process_0_sees_is_told_before_the_work(tmp_path, monkeypatch):
    from hugectr import processes
    from hugectr.processes import values

    said = [
        values.encode({"result": str(tmp_path / "elsewhere"), "call": ""}),
        values.encode({"result": None, "call": "CTRClassifier.fit"}),
    ]
    monkeypatch.setattr(processes, "current", lambda: OfTwo(said))
    with pytest.raises(hugectr.InvalidArgument, match="TMPDIR name a folder that all of them see"):
        in_one_folder("CTRClassifier.fit", tmp_path, lambda folder: pytest.fail("worked"))
