# SPDX-License-Identifier: Apache-2.0
"""A folder, or what is in it, is removed or replaced at every look at it and every call of a save.

A save may fail then. Where it returns, what it returns is there: what happens after its last look
at the path happens to a checkpoint that was there.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path

from faults.forked import Calls
from faults.harness import Case, FalseSuccess, Lost
from faults.savings import KINDS, check, count_calls, end_all, place_for
from hugectr import checkpoints
from hugectr.base.errors import DataError

NAME = "the folder removed, moved or replaced at every call of a save"
_SAVES = {"fresh": 1, "following": 2, "same-step": 1}  # kinds of saves, and their step


def _remove(run: Path) -> None:
    shutil.rmtree(run, ignore_errors=True)


def _move(run: Path) -> None:
    if run.exists():
        run.rename(run.with_name("aside"))


def _replace(run: Path) -> None:
    _move(run)
    run.mkdir()


def _remove_hidden(run: Path) -> None:
    for path in run.glob(".saving-step*"):
        shutil.rmtree(path, ignore_errors=True)


_ACTS = {"remove": _remove, "move": _move, "replace": _replace, "remove-hidden": _remove_hidden}


def _case(kind: str, act: str, number: int, folder: Path) -> None:
    with place_for(folder) as run:
        saving = KINDS[kind](run)
        target = checkpoints.step_folder(run, _SAVES[kind])

        def first() -> None:
            Calls(number, lambda: _ACTS[act](run), target.name)

        if any(end_all(saving.begin(first))):
            if act == "remove-hidden":
                check(run, saving, must_be_new=False)
            elif act == "replace" and any(run.glob("*/manifest.json")):
                raise Lost("a save that failed has written into another folder")
            return
        try:
            checkpoints.verify(target)
        except DataError as error:
            raise FalseSuccess(str(error)) from error


def _looks(kind: str) -> int:
    with tempfile.TemporaryDirectory() as folder, place_for(Path(folder)) as run:
        name = checkpoints.step_folder(run, _SAVES[kind]).name
        return count_calls(KINDS[kind](run), lambda: Calls(0, lambda: None, name))[1]


def cases(full: bool) -> list[Case]:
    """Every call up to the last look, of saves to a folder that is new and that is not."""
    found = []
    for kind in _SAVES:
        last = _looks(kind)
        for act in _ACTS:
            for number in range(1, last + 1, 1 if full else max(1, last // 4)):
                name = f"{kind}-{act}-{number}"
                found.append(Case(name, functools.partial(_case, kind, act, number)))
    return found
