# SPDX-License-Identifier: Apache-2.0
"""A save ends, or its disk fails, at each of its calls to the file system."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from faults.forked import Calls, die, fail
from faults.harness import Case
from faults.savings import KINDS, check, count_calls, end_all, place_for

NAME = "a save killed, or failed by the disk, at every file-system call"
_ACTS = {"kill": die, "fail": fail}


def _case(kind: str, act: str, number: int, folder: Path) -> None:
    def first() -> None:
        Calls(number, _ACTS[act])

    with place_for(folder) as run:
        saving = KINDS[kind](run)
        statuses = end_all(saving.begin(first))
        check(run, saving, must_be_new=not any(statuses))


def _calls(kind: str) -> int:
    with tempfile.TemporaryDirectory() as folder, place_for(Path(folder)) as run:
        return count_calls(KINDS[kind](run), lambda: Calls(0, die))[0]


def cases(full: bool) -> list[Case]:
    """Every call of every kind of save; in the short part some."""
    found = []
    for kind in KINDS:
        last = _calls(kind)
        for act in _ACTS:
            for number in range(1, last + 1, 1 if full else max(1, last // 3)):
                name = f"{kind}-{act}-{number}"
                found.append(Case(name, functools.partial(_case, kind, act, number)))
    return found
