# SPDX-License-Identifier: Apache-2.0
"""Two programs, or two threads of one, save into one folder at the same time."""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from oracle.fake_model import FakeModel

from faults.forked import fork
from faults.harness import Case, FalseSuccess, Lost
from faults.savings import FEW, MANY, State, end_all, place_for, solo, state_of
from hugectr import checkpoints
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.processes.solo import SoloGroup

NAME = "two writers in one folder: of one run, of two, threads, jobs started twice"
_ROWS = (FEW, MANY)
_SAVES = 5


def _steps(kind: str, writer: int) -> list[int]:
    """Which steps a writer saves."""
    if kind.startswith("same-steps"):
        return list(range(1, _SAVES + 1))
    return list(range(1 + writer, 2 * _SAVES + 1, 2))


def _state(step: int, writer: int) -> State:
    return state_of([solo(step, _ROWS[writer])])


def _write(run: Path, kind: str, writer: int, tell: Callable[[int], None]) -> None:
    """Save step after step; ``tell`` of those that were saved."""
    model = FakeModel(SoloGroup(), 1)
    if "two-runs" in kind:
        model.run_id = f"{writer:032x}"
    for step in _steps(kind, writer):
        model.train(_ROWS[writer], step)
        try:
            path = model.save(run, background=step % 2 == 0)
            model.wait_for_save()
            checkpoints.verify(path)  # else a DataError ends the process
        except InvalidArgument as error:
            if "is being saved to by" not in str(error) and "save to" not in str(error).lower():
                raise
            continue
        tell(step)


def _in_processes(run: Path, kind: str) -> list[list[int]]:
    saved, children = [], []
    start_reading, start_writing = os.pipe()
    for writer in range(2):
        reading, writing = os.pipe()

        def work(writer: int = writer, writing: int = writing) -> int:
            os.close(start_writing)
            os.read(start_reading, 1)  # until both are there
            _write(run, kind, writer, lambda step: (os.write(writing, f"{step}\n".encode()),))  # type: ignore[arg-type, return-value]
            return 0

        children.append(fork(work))
        os.close(writing)
        saved.append(reading)
    os.close(start_reading)
    os.close(start_writing)
    if any(end_all(children)):
        raise FalseSuccess("a save returned, and what it returned could not be verified")
    found = []
    for reading in saved:
        with os.fdopen(reading) as file:
            found.append([int(line) for line in file])
    return found


def _in_threads(run: Path, kind: str) -> list[list[int]]:
    saved: list[list[int]] = [[], []]
    errors: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            _write(run, kind, writer, saved[writer].append)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise FalseSuccess(f"{type(errors[0]).__name__}: {errors[0]}")
    return saved


def _case(kind: str, number: int, folder: Path) -> None:
    with place_for(folder) as run:
        saved = (_in_threads if "threads" in kind else _in_processes)(run, kind)
        if not any(saved):
            raise Lost("nobody could save")
        if "two-runs" in kind and all(saved):
            raise Lost(f"two runs saved into one folder: steps {saved}")
        for step in sorted(set(saved[0] + saved[1])):
            path = checkpoints.step_folder(run, step)
            try:
                checkpoints.verify(path)
                model = FakeModel(SoloGroup(), 1)
                model.resume(path)
            except (DataError, InvalidArgument) as error:
                raise FalseSuccess(str(error)) from error
            wanted = [_state(step, writer) for writer in range(2) if step in saved[writer]]
            if state_of([model]) not in wanted:
                raise Lost(f"{path} is of nobody who saved it")
        left = [path.name for path in run.iterdir() if path.name.startswith(".")]
        if left:
            raise Lost(f"left behind: {json.dumps(left)}")


def cases(full: bool) -> list[Case]:
    """Writers of one run and of two, at the same steps and at steps between each other's."""
    kinds = [
        f"{steps}-{runs}-{where}"
        for steps in ("same-steps", "own-steps")
        for runs in ("one-run", "two-runs")
        for where in ("processes", "threads")
    ]
    return [
        Case(f"{kind}-{number}", functools.partial(_case, kind, number))
        for kind in kinds
        for number in range(25 if full else 1)
    ]
