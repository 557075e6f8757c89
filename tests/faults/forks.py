# SPDX-License-Identifier: Apache-2.0
"""Children of fork(): the parent's model is refused, a new one works, nobody waits."""

from __future__ import annotations

import functools
from pathlib import Path

from faults.harness import ROOT, Case, Lost, run_script

NAME = "forks of a process that trains, saves or loads data"

JOB = ROOT / "tests" / "faults" / "forks_job.py"
CASES = (
    "every_call",
    "deleted",
    "new_model",
    "while_training",
    "while_saving",
    "pool",
    "grandchild",
    "network",
)
#: Of those whose forks fall at another moment each time.
REPEATED = {"while_training": 5, "while_saving": 5}


def held(folder: Path, name: str) -> None:
    """The parent and its children come to their ends, and the parent trains on."""
    ended = run_script(JOB, name, folder, seconds=200)
    if ended.status != 0 or "ended: done" not in ended.out:
        raise Lost(f"status {ended.status}\n{ended.out[-2000:]}\n{ended.err[-6000:]}")


def cases(full: bool) -> list[Case]:
    """Each kind of fork."""
    found = [
        Case(f"{name}-{number}", functools.partial(held, name=name))
        for name in CASES
        for number in range(REPEATED.get(name, 1))
    ]
    short = {"every_call-0", "while_training-0"}
    return found if full else [case for case in found if case.name in short]
