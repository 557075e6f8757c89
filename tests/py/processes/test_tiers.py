# SPDX-License-Identifier: Apache-2.0
"""Rows in tiers on the devices of several processes."""

import re

import numpy as np
import pytest
from model.nets import make_model
from model.test_tiers import rows_of, setup_of
from processes import job

from hugectr import checkpoints
from hugectr.checkpoints.manifest import read_manifest
from hugectr.checkpoints.merge import MergedRows, links_of
from hugectr.data import write_file_list, write_norm

SCRIPT = job.TESTS / "processes" / "tiers_job.py"


@pytest.mark.parametrize(("exchange", "devices"), [("pooled", 1), ("unique", 2)])
def test_two_processes_train_the_same_with_few_places(tmp_path, exchange, devices):
    status, out, err = job.run("launch", 2, SCRIPT, tmp_path / "saved", exchange, devices)
    assert status == 0, f"{out}\n{err}"
    assert out.count("the same") == 2


@pytest.mark.parametrize(("exchange", "devices"), [("pooled", 1), ("unique", 2)])
def test_two_processes_share_a_folder_of_a_disk(tmp_path, exchange, devices):
    folders = tmp_path / "saved", exchange, devices, tmp_path / "disk"
    status, out, err = job.run("launch", 2, SCRIPT, *folders)
    assert status == 0, f"{out}\n{err}"
    assert out.count("the same") == 2
    # What they saved has linked segments of each device, and one process takes it.
    path = checkpoints.latest(tmp_path / "saved")
    linked = [shard.get("linked", []) for shard in read_manifest(path)["tables"][0]["shards"]]
    assert len(linked) == 2
    if devices == 1:  # fewer rows for each of four devices: host memory holds most of them
        assert all(sum(one["rows"] for one in of_process) > 0 for of_process in linked)
    checkpoints.verify(path)
    model = make_model(setup_of(optimizer="Adam"))
    model.resume(path)
    blocks = list(MergedRows(links_of(path), 0).blocks())
    bag = rows_of(model)[0]
    for part, name in (("key", "keys"), ("vector", "vectors")):
        np.testing.assert_array_equal(np.concatenate([b[part] for b in blocks]), bag[name])


def test_two_processes_whose_tables_grow(tmp_path):
    script = job.TESTS / "processes" / "growing_tiers_job.py"
    status, out, err = job.run("launch", 2, script, "unique", "cpu", tmp_path)
    assert status == 0, f"{out}\n{err}"
    assert out.count("the same") == 2


def test_a_disk_that_one_process_loses_is_told_to_all_where_they_read_together(tmp_path):
    train = setup_of(steps=120).train
    keys = np.asarray(train.sparse["keys"][0]).reshape(len(train.label), -1)
    write_norm(tmp_path / "data.norm", train.label, train.dense, keys, i64=True)
    write_file_list(tmp_path / "files.txt", [tmp_path / "data.norm"])
    script = job.TESTS / "processes" / "lost_disk_job.py"
    files = tmp_path / "files.txt", tmp_path / "disk"
    status, out, err = job.run("launch", 2, script, *files, hangs_after=60)
    assert status == 0, f"{out}\n{err}"
    assert "process 1 is told: table 'emb': can not open" in out, out
    # By the process itself, or by its stream where a collective was to come behind the read.
    told = (
        r"process 0 is told: collective stopped: process 1: (rank 1 failed: )?table 'emb': can not"
    )
    assert re.search(told, out), out
