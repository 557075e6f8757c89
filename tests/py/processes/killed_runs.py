# SPDX-License-Identifier: Apache-2.0
"""Jobs that train one model into one folder, are killed and started again (resume_job.py)."""

import json
import os
import signal
import time

from processes import job

from hugectr import checkpoints

SCRIPT = job.TESTS / "processes" / "resume_job.py"


class Run:
    """Jobs that train the same model into the same folder."""

    def __init__(self, place, source, engine, rows, steps, interval, background=True, device="cpu"):
        place.mkdir()
        self.place, self.engine, self.processes = place, engine, len(rows)
        self.folder = place / "checkpoints"
        self.file = place / "settings.json"
        settings = {"folder": str(self.folder), "source": source, "vvgpu": rows, "steps": steps}
        settings |= {"interval": interval, "background": background, "device": device}
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
        path = checkpoints.latest(self.folder)
        manifest = checkpoints.verify(path)
        return path.name, manifest["files"], manifest["data_position"]


def wait_for(what, running):
    end = time.monotonic() + 120
    while not what():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end
        time.sleep(0.001)


def check_killed_half_way(place, source, engine, rows, device="cpu"):
    """200 steps end in the same bits as 100, SIGKILL to the last process, and the rest."""
    whole = Run(place / "whole", source, engine, rows, 200, 1000, device=device)
    whole.finish()
    halves = Run(place / "halves", source, engine, rows, 200, 20, device=device)
    running = halves.start()
    wait_for(lambda: halves.steps_done() > 100, running)
    halves.kill(running, len(rows) - 1)
    assert halves.steps_done() < 200
    halves.finish()
    assert halves.losses() == whole.losses()
    assert halves.last() == whole.last()
