# SPDX-License-Identifier: Apache-2.0
"""A fit by several processes of a job: what they must have in common."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hugectr import processes
from hugectr.base.errors import InvalidArgument
from hugectr.models.sizes import TrainingSizes
from hugectr.processes.agreement import from_root, jointly, together

T = TypeVar("T")


def common_seed() -> int | None:
    """Where nobody gave a seed: one of process 0 for all, as they hold the same rows out; None
    where there is one process.
    """
    group = processes.current()
    if group.size == 1:
        return None
    return from_root(group, lambda: secrets.randbelow(2**31))


def in_one_folder(where: str, own: Path, work: Callable[[Path], T]) -> T:
    """Let all processes write a checkpoint together, and each have it in a folder of its own.

    Parameters
    ----------
    where : str
        The call, for complaints.
    own : Path
        An empty folder of this process, which has the checkpoint in the end.
    work : callable
        Is given the folder, that of process 0, to write into: a call of all processes.

    Raises
    ------
    InvalidArgument
        Before the work, when a process does not see the folder of process 0.
    """
    group = processes.current()
    if group.size == 1:
        return work(own)
    shared = Path(from_root(group, lambda: str(own)))

    def seen() -> None:
        if not shared.is_dir():
            raise InvalidArgument(
                f"{where}: this process does not see {shared}, where process 0 keeps the model: "
                "in a job of several machines let TMPDIR name a folder that all of them see"
            )

    together(group, seen, call=where)
    result = work(shared)
    # Copied while process 0 is here: its folder goes with its estimator. What is hidden (the note
    # of who saves) is no part of a checkpoint, and may go at any moment.
    hidden = shutil.ignore_patterns(".*")
    jointly(
        group,
        lambda: own == shared or shutil.copytree(shared, own, ignore=hidden, dirs_exist_ok=True),
    )
    return result


def in_whole_shares(plan: TrainingSizes) -> TrainingSizes:
    """With a batch size of which all processes get as much: the next larger one, at most."""
    size = processes.current().size
    return replace(plan, batch_size=-(-plan.batch_size // size) * size)
