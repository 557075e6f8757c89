# SPDX-License-Identifier: Apache-2.0
"""A job that is killed and started again ends where it would have, to the bit."""

import json
import os
import random
import secrets
import signal
import time

import pytest
from oracle.small_data import generate
from processes import job

from hugectr import checkpoint_folder, native_checkpoint

SCRIPT = job.TESTS / "processes" / "resume_job.py"
#: Kills of test_killed_while_saving; a longer run: HUGECTR_TEST_KILLS=100.
KILLS = int(os.environ.get("HUGECTR_TEST_KILLS", "4"))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("data"), "Raw", num_samples=2400)[0]


class Run:
    """Jobs that train the same model into the same folder."""

    def __init__(self, place, source, engine, rows, steps, interval, background=True):
        place.mkdir()
        self.place, self.engine, self.processes = place, engine, len(rows)
        self.folder = place / "checkpoints"
        self.file = place / "settings.json"
        settings = {"folder": str(self.folder), "source": source, "vvgpu": rows, "steps": steps}
        settings |= {"interval": interval, "background": background}
        self.file.write_text(json.dumps(settings))

    def start(self):
        for old in self.place.glob("pid-*"):
            old.unlink()
        return job.start(self.engine, self.processes, SCRIPT, self.file)

    def finish(self):
        status, out, err = job.run(self.engine, self.processes, SCRIPT, self.file)
        assert status == 0, out + err

    def kill(self, running, rank):
        """SIGKILL to one process; the others must end by themselves."""
        pid = int((self.place / f"pid-{rank}").read_text())
        os.kill(pid, signal.SIGKILL)
        running.communicate(timeout=60)
        assert running.returncode != 0

    def losses(self):
        """Step -> bits of its loss; every time a step was trained it had the same."""
        found = {}
        for line in (self.place / "settings.json.losses").read_text().splitlines():
            step, bits = line.split() if line.count(" ") == 1 else ("0", "")
            if len(bits) == 8:  # else the process was killed while it wrote
                assert found.setdefault(int(step), bits) == bits, f"step {step}"
        return found

    def steps_done(self):
        try:
            return len((self.place / "settings.json.losses").read_text().splitlines())
        except FileNotFoundError:
            return 0

    def last(self):
        path = native_checkpoint.latest(self.folder)
        manifest = checkpoint_folder.verify(path)
        return path.name, manifest["files"], manifest["data_position"]


def wait_for(what, running):
    end = time.monotonic() + 120
    while not what():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("engine", "rows"), [("launch", [[0]]), ("mpi", [[0]] * 4), ("launch", [[0]] * 4)]
)
def test_killed_half_way_and_resumed(tmp_path, source, engine, rows):
    whole = Run(tmp_path / "whole", source, engine, rows, 200, 1000)
    whole.finish()
    halves = Run(tmp_path / "halves", source, engine, rows, 200, 20)
    running = halves.start()
    wait_for(lambda: halves.steps_done() > 100, running)
    halves.kill(running, len(rows) - 1)
    done = halves.steps_done()
    assert done < 200
    halves.finish()
    assert halves.losses() == whole.losses()
    assert halves.last() == whole.last()


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
        newest = native_checkpoint.latest(killed.folder)
        if newest is not None:  # else none was published yet
            checkpoint_folder.verify(newest)
        assert len(saving()) <= 2
        assert len(checkpoint_folder.published(killed.folder)) <= 3
    killed.finish()
    assert killed.losses() == whole.losses()
    assert killed.last() == whole.last()
    assert not list(killed.folder.glob(".saving-*"))
