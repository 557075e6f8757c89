# SPDX-License-Identifier: Apache-2.0
"""Rows in tiers on the devices of several processes."""

import pytest
from processes import job

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


def test_two_processes_whose_tables_grow(tmp_path):
    script = job.TESTS / "processes" / "growing_tiers_job.py"
    status, out, err = job.run("launch", 2, script, "unique", "cpu", tmp_path)
    assert status == 0, f"{out}\n{err}"
    assert out.count("the same") == 2
