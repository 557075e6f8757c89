# SPDX-License-Identifier: Apache-2.0
"""A save is killed (SIGKILL) at a moment drawn at random."""

from __future__ import annotations

import functools
import os
import random
import signal
import time
from pathlib import Path

from faults.harness import Case
from faults.savings import KINDS, check, end_all, place_for

NAME = "a save killed at a random moment: first, next, same step, delta, two processes"


def _case(kind: str, number: int, folder: Path) -> None:
    drawn = random.Random(f"{kind} {number}")
    with place_for(folder) as run:
        saving = KINDS[kind](run)
        reading, writing = os.pipe()  # says when the save begins
        children = saving.begin(lambda: (os.write(writing, b"."), None)[1])
        os.read(reading, 1)
        os.close(reading)
        os.close(writing)
        time.sleep(drawn.uniform(0, 0.03))
        victims = drawn.choice([children, children[:1], children[-1:]])
        for child in victims:
            os.kill(child, signal.SIGKILL)
        statuses = end_all(children)
        check(run, saving, must_be_new=not any(statuses))


def cases(full: bool) -> list[Case]:
    """100 of each kind."""
    count = 100 if full else 3
    return [
        Case(f"{kind}-{number}", functools.partial(_case, kind, number))
        for kind in KINDS
        for number in range(count)
    ]
