# SPDX-License-Identifier: Apache-2.0
"""Whether budgets of disks are more than is free there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hugectr.plan.memory import size_for_people


@dataclass(frozen=True)
class DiskBudget:
    """What rows of a table may take on a disk.

    Attributes
    ----------
    table : str
    folder : str
    bytes : int
        Of a process.
    """

    table: str
    folder: str
    bytes: int


def few_on_disks(budgets: Iterable[DiskBudget]) -> list[str]:
    """A warning for each file system that has less free now than the budgets on it."""
    of_system: dict[int, tuple[Path, list[DiskBudget]]] = {}
    for budget in budgets:
        there = _nearest(Path(budget.folder))
        of_system.setdefault(os.stat(there).st_dev, (there, []))[1].append(budget)
    said = []
    for there, own in of_system.values():
        free, asked = shutil.disk_usage(there).free, sum(budget.bytes for budget in own)
        if asked <= free:
            continue
        tables = ", ".join(f"'{budget.table}'" for budget in own)
        said.append(
            f"Memory(disk=) of {tables} may take {size_for_people(asked)} (a process), and the "
            f"file system of {own[0].folder} has {size_for_people(free)} free now: training stops "
            "when it is full"
        )
    return said


def _nearest(folder: Path) -> Path:
    """It, or what is there of the folders that it is to be in."""
    folder = folder.absolute()
    return next(part for part in (folder, *folder.parents) if part.exists())
