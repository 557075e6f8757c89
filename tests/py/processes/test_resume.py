# SPDX-License-Identifier: Apache-2.0
"""A job that is killed and started again ends where it would have, to the bit."""

import os
import random
import secrets
import time

import pytest
from oracle.small_data import generate
from processes.killed_runs import Run, check_killed_half_way, wait_for

from hugectr import checkpoints

#: Kills of test_killed_while_saving; a longer run: HUGECTR_TEST_KILLS=100.
KILLS = int(os.environ.get("HUGECTR_TEST_KILLS", "4"))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("data"), "Raw", num_samples=2400)[0]


@pytest.mark.parametrize(
    ("engine", "rows"), [("launch", [[0]]), ("mpi", [[0]] * 4), ("launch", [[0]] * 4)]
)
def test_killed_half_way_and_resumed(tmp_path, source, engine, rows):
    check_killed_half_way(tmp_path, source, engine, rows)


def test_killed_while_saving(tmp_path, source):
    """Whatever moment it is, the newest checkpoint is whole, and nothing piles up."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    whole = Run(tmp_path / "whole", source, "launch", [[0]] * 3, 40 * KILLS, 100_000)
    whole.finish()
    killed = Run(tmp_path / "killed", source, "launch", [[0]] * 3, 40 * KILLS, 3)

    def saving():
        return list(killed.folder.glob(".saving-*"))

    for _ in range(KILLS):
        running = killed.start()
        before = killed.steps_done()
        wait_for(lambda before=before: killed.steps_done() > before + draw.randrange(9), running)
        wait_for(saving, running)
        time.sleep(draw.random() * 0.03)
        killed.kill(running, draw.randrange(3))
        newest = checkpoints.latest(killed.folder)
        if newest is not None:  # else none was published yet
            checkpoints.verify(newest)
        assert len(saving()) <= 2
        assert len(checkpoints.published(killed.folder)) <= 3
    killed.finish()
    assert killed.losses() == whole.losses()
    assert killed.last() == whole.last()
    assert not list(killed.folder.glob(".saving-*"))
