# SPDX-License-Identifier: Apache-2.0
"""Saves that something happens to, and what must be there afterwards."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.fake_model import FakeModel, all_rows
from oracle.pipe_group import pipe_groups
from oracle.thread_group import results_of

from faults.forked import KILLED, Calls, fork, wait
from faults.harness import Broken, FalseSuccess, Lost
from hugectr import checkpoints
from hugectr.base.errors import DataError
from hugectr.checkpoints import publication
from hugectr.processes.solo import SoloGroup

#: Where files live without a disk, whose waits nothing here depends on: only processes die.
MEMORY = Path("/dev/shm")
State = tuple[Any, ...]
FEW = {(0, key): key for key in range(60)}
MANY = {(0, key): 3 * key for key in range(20, 300)}


@contextlib.contextmanager
def place_for(folder: Path) -> Iterator[Path]:
    """A folder for checkpoints that is quick, or else in the given one."""
    if not os.access(MEMORY, os.W_OK):
        yield folder / "run"
        return
    with tempfile.TemporaryDirectory(prefix="hctr-fault-", dir=MEMORY) as quick:
        yield Path(quick) / "run"


def state_of(models: list[FakeModel]) -> State:
    """All that a job is."""
    session = models[0].session
    dense = session.network.dense_weights().tolist()
    return session.step(), dense, session.reader.position(), all_rows(models)


def solo(step: int, rows: dict[tuple[int, int], int]) -> FakeModel:
    """A model of one process."""
    model = FakeModel(SoloGroup(), 1)
    model.train(rows, step)
    return model


@dataclass
class Saving:
    """A save that has not begun.

    Attributes
    ----------
    begin : callable
        Starts it, in processes of its own; takes what each does first, returns their ids.
    before, after : State or None
        What the folder holds before it, and when it is done; None: nothing.
    """

    begin: Callable[[Callable[[], None]], list[int]]
    before: State | None
    after: State


def _in_one(save: Callable[[], object]) -> Callable[[Callable[[], None]], list[int]]:
    def begin(first: Callable[[], None]) -> list[int]:
        def work() -> int:
            first()
            save()
            return 0

        return [fork(work)]

    return begin


def fresh(folder: Path) -> Saving:
    """The first save of a run."""
    model = solo(1, FEW)
    return Saving(_in_one(lambda: model.save(folder)), None, state_of([model]))


def following(folder: Path) -> Saving:
    """The second save, which retires the first."""
    solo(1, FEW).save(folder)
    before = state_of([solo(1, FEW)])
    model = solo(2, FEW | MANY)
    save = _in_one(lambda: model.save(folder, keep_last=1))
    return Saving(save, before, state_of([model]))


def behind(folder: Path) -> Saving:
    """The second save, in the background."""
    solo(1, FEW).save(folder)
    before = state_of([solo(1, FEW)])
    model = solo(2, FEW | MANY)

    def save() -> None:
        model.save(folder, background=True)
        model.wait_for_save()

    return Saving(_in_one(save), before, state_of([model]))


def same_step(folder: Path) -> Saving:
    """A step that is there, saved again with other content."""
    solo(1, FEW).save(folder)
    before = state_of([solo(1, FEW)])
    model = solo(1, MANY)
    return Saving(_in_one(lambda: model.save(folder)), before, state_of([model]))


def same_step_without_exchange(folder: Path) -> Saving:
    """The same where the file system has no exchange of names."""
    saving = same_step(folder)

    def begin(first: Callable[[], None]) -> list[int]:
        def without() -> None:
            publication.exchange = lambda *_: False  # type: ignore[assignment]
            first()

        return saving.begin(without)

    return Saving(begin, saving.before, saving.after)


def delta(folder: Path) -> Saving:
    """A delta on a full checkpoint and a delta."""
    model = solo(1, FEW)
    model.save(folder, delta=True)
    model.train({(0, key): -key for key in range(9)}, 2)
    model.save(folder, delta=True)
    before = state_of([model])
    model.train({(0, key): 7 * key for key in range(0, 200, 5)}, 3)
    save = _in_one(lambda: model.save(folder, delta=True, keep_last=1))
    return Saving(save, before, state_of([model]))


def two_processes(folder: Path) -> Saving:
    """A job of two processes, each with its rows."""

    def job(group: Any, step: int, rows: dict[tuple[int, int], int]) -> FakeModel:
        model = FakeModel(group, 2)
        model.train(rows, step)
        return model

    results_of(2, lambda group: job(group, 1, FEW).save(folder))
    before = state_of(results_of(2, lambda group: job(group, 1, FEW)))
    after = state_of(results_of(2, lambda group: job(group, 2, FEW | MANY)))

    def begin(first: Callable[[], None]) -> list[int]:
        groups = pipe_groups()
        children = []
        for rank in range(2):

            def work(rank: int = rank) -> int:
                groups[1 - rank].abort("the end of the other process")
                first()
                job(groups[rank], 2, FEW | MANY).save(folder, keep_last=1)
                return 0

            children.append(fork(work))
        for group in groups:
            group.abort("both ends are the children's")
        return children

    return Saving(begin, before, after)


KINDS = {
    "fresh": fresh,
    "following": following,
    "background": behind,
    "same-step": same_step,
    "same-step-no-exchange": same_step_without_exchange,
    "delta": delta,
    "two-processes": two_processes,
}


def count_calls(saving: Saving, make: Callable[[], Calls]) -> tuple[int, int]:
    """How many calls an undisturbed save makes, and its last look; ``make`` begins to count."""
    reading, writing = os.pipe()

    def first() -> None:
        calls = make()
        close, write = os._exit, os.write

        def tell(status: int) -> None:
            write(writing, f"{calls.count} {calls.last_look}\n".encode())
            close(status)

        os._exit = tell  # type: ignore[assignment]

    children = saving.begin(first)
    for child in children:
        if wait(child):
            raise FalseSuccess("an undisturbed save failed")
    os.close(writing)
    with os.fdopen(reading) as file:
        found = [[int(word) for word in line.split()] for line in file]
    return max(count for count, _ in found), max(look for _, look in found)


def check(folder: Path, saving: Saving, must_be_new: bool) -> None:
    """What is there is whole, and old or new; and the next save works and clears what is dead.

    Raises
    ------
    Lost, FalseSuccess
    """
    newest = checkpoints.latest(folder)
    found = None
    if newest is not None:
        try:
            checkpoints.verify(newest)
            found = _loaded(folder)
        except (DataError, OSError) as error:
            raise Lost(f"{newest} can not be loaded: {error}") from error
    if found not in ([saving.after] if must_be_new else [saving.before, saving.after]):
        kind = FalseSuccess if must_be_new else Lost
        raise kind(f"{newest} is neither what was there nor what was saved")
    model = FakeModel(SoloGroup(), 1)
    if newest is not None:
        model.resume(folder)
    model.train({(0, 5): 17}, 9)
    model.save(folder, keep_last=1)
    if _loaded(folder) != state_of([model]):
        raise Lost("the save after it")
    left = [path.name for path in folder.iterdir()]
    if left != ["step-0000000009"]:
        raise Lost(f"the save after it left {left}")


def _loaded(folder: Path) -> State:
    model = FakeModel(SoloGroup(), 1)
    model.resume(folder)
    return state_of([model])


def end_all(children: list[int]) -> list[int]:
    """Exit statuses of children.

    Raises
    ------
    Broken
        When one ended with an error that files do not have.
    """
    statuses = [wait(child) for child in children]
    if not set(statuses) <= {0, 1, KILLED}:
        raise Broken(f"exit statuses {statuses}: see stderr")
    return statuses
