# SPDX-License-Identifier: Apache-2.0
"""Tables on a disk (``Memory(disk=)``): killed while they train, disks that are full or damaged."""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults.harness import ROOT, Case, FalseSuccess, Lost, run_script

NAME = "tables on a disk: killed while they train, full disks, damaged segments, also linked ones"
JOB = ROOT / "tests" / "faults" / "disks_job.py"
STEPS = 120
ENVIRON = {"HUGECTR_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}


def _settings(folder: Path, **more: object) -> str:
    return json.dumps({"folder": str(folder), "steps": STEPS, "disk": True} | more)


def _digest(out: str) -> str:
    lines = [line for line in out.splitlines() if line.startswith("digest:")]
    return lines[0] if lines else ""


@functools.cache
def _wanted() -> str:
    """What a table in memory comes to."""
    with tempfile.TemporaryDirectory() as folder:
        return _digest(run_script(JOB, _settings(Path(folder), disk=False), environ=ENVIRON).out)


def _must_be_same(out: str) -> None:
    if not _wanted() or _digest(out) != _wanted():
        raise Lost(f"{_digest(out)} instead of {_wanted()}\n{out[-2000:]}")


def _killed(number: int, folder: Path) -> None:
    """Killed somewhere; the next process takes the folder over and goes on from the checkpoint."""
    drawn = random.Random(number)
    paths = [str(ROOT), str(ROOT / "tests" / "py"), str(ROOT / "tests")]
    child = subprocess.Popen(
        [sys.executable, str(JOB), _settings(folder, act="save")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | ENVIRON | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    assert child.stdout is not None
    saved = 0
    for _ in range(drawn.randrange(1, STEPS)):
        word, _, count = child.stdout.readline().partition(" ")
        saved = int(count) if word == "saved" else saved
    time.sleep(drawn.uniform(0, 0.02))
    child.send_signal(signal.SIGKILL)
    child.stdout.close()
    child.wait()
    ended = run_script(JOB, _settings(folder, act="resume"), environ=ENVIRON)
    if ended.status != 0:
        raise Lost(f"the next process failed\n{ended.out[-1000:]}\n{ended.err[-3000:]}")
    resumed = [line.split()[1] for line in ended.out.splitlines() if line.startswith("resumed")]
    if saved and (not resumed or int(resumed[0]) < saved):
        raise Lost(f"{saved} steps were saved, the next process went on from {resumed}")
    _must_be_same(ended.out)


def _full(number: int, folder: Path) -> None:
    """Files may not grow from some step on, until it has been said."""
    at = random.Random(number).randrange(3, STEPS - 40)
    ended = run_script(JOB, _settings(folder, act="full", at=at, seed=number), environ=ENVIRON)
    if ended.status != 0:
        raise Lost(f"it did not go on\n{ended.out[-1000:]}\n{ended.err[-3000:]}")
    if "error:" not in ended.out:
        raise FalseSuccess("the disk was full and nobody said so")
    _must_be_same(ended.out)


def _damaged(number: int, folder: Path) -> None:
    """Bits of segments are turned: either nobody needs them, or it is said."""
    at = random.Random(number).randrange(10, STEPS - 10)
    ended = run_script(JOB, _settings(folder, act="damage", at=at, seed=number), environ=ENVIRON)
    if ended.status != 0:
        raise FalseSuccess(f"another error\n{ended.out[-1000:]}\n{ended.err[-3000:]}")
    if "error:" not in ended.out:
        _must_be_same(ended.out)


def _turn_bits(folder: Path, drawn: random.Random) -> str:
    """Of one linked segment of a checkpoint, as a file of its own; returns its name."""
    files = sorted(file for file in folder.iterdir() if ".segment" in file.name)
    if not files:
        raise Lost(f"{folder} has no linked segments")
    file = drawn.choice(files)
    data = bytearray(file.read_bytes())
    for _ in range(drawn.randint(1, 20)):
        data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
    file.unlink()
    file.write_bytes(data)
    return file.name


def _linked(number: int, folder: Path) -> None:
    """Bits of a checkpoint's linked segments are turned: nobody needs them, or they are named."""
    drawn = random.Random(number)
    saved = run_script(JOB, _settings(folder, act="save", steps=40), environ=ENVIRON)
    if saved.status != 0:
        raise Lost(f"nothing was saved\n{saved.err[-3000:]}")
    name = _turn_bits(folder / "saved" / "step-0000000040", drawn)
    ended = run_script(JOB, _settings(folder, act="resume"), environ=ENVIRON)
    if ended.status == 0:
        _must_be_same(ended.out)
    elif name not in ended.err or "DataError" not in ended.err:
        raise FalseSuccess(f"another error\n{ended.out[-1000:]}\n{ended.err[-3000:]}")


def cases(full: bool) -> list[Case]:
    """100 kills, 50 full disks, 50 damaged folders and links each; one of each in short."""
    acts = {
        "kill": (_killed, 100),
        "full": (_full, 50),
        "damage": (_damaged, 50),
        "linked": (_linked, 50),
    }
    return [
        Case(f"{name}-{number}", functools.partial(run, number))
        for name, (run, count) in acts.items()
        for number in range(count if full else 1)
    ]
