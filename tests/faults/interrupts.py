# SPDX-License-Identifier: Apache-2.0
"""SIGINT at any moment of training, evaluating, saving, loading, fitting, reading."""

from __future__ import annotations

import functools
import random
from pathlib import Path

from faults.harness import ROOT, Case, FalseSuccess, run_script

NAME = "interrupts (SIGINT) at random moments"

JOB = ROOT / "tests" / "faults" / "interrupts_job.py"
ACTS = ("train", "evaluate", "save", "save_background", "resume", "fit", "restart", "build", "lock")
TIMES = 7


def held(folder: Path, act: str, milliseconds: float) -> None:
    """KeyboardInterrupt or the act's own end, and the model is usable after it."""
    ended = run_script(JOB, act, folder, milliseconds, seconds=120)
    if ended.status != 0 or "ended: usable" not in ended.out:
        raise FalseSuccess(f"status {ended.status}\n{ended.out[-2000:]}\n{ended.err[-6000:]}")


def cases(full: bool) -> list[Case]:
    """Each act, interrupted after a time drawn for the case."""
    found = []
    for act in ACTS:
        for number in range(TIMES):
            name = f"{act}-{number}"
            milliseconds = random.Random(name).uniform(0.1, 120.0)
            run = functools.partial(held, act=act, milliseconds=milliseconds)
            found.append(Case(name, run))
    return found if full else [case for case in found if case.name in ("train-0", "save-1")]
