# SPDX-License-Identifier: Apache-2.0
"""Who trains, and where a table of theirs may be."""

from __future__ import annotations

from dataclasses import dataclass

from hugectr.plan.machine import Machine
from hugectr.plan.table_load import TableLoad, column_devices
from hugectr.plan.travel import NUMBER_BYTES


@dataclass(frozen=True)
class Job:
    """Who trains: devices, the global batch, the machine, and what layers read vectors in."""

    devices: int
    batch: int
    machine: Machine
    made: str = "float32"  #: one of ``NUMBER_BYTES``
    near: int = 0  #: devices of the first process, among which columns are dealt; 0: all
    dense: float = 0.0  #: seconds of the dense network, beside which batches are planned too

    @property
    def column_devices(self) -> int:
        """Among which columns may be dealt."""
        return min(self.near or self.devices, self.devices)

    @property
    def number_bytes(self) -> int:
        """Of a number of a vector that layers read."""
        return NUMBER_BYTES[self.made]


@dataclass(frozen=True)
class Choice:
    """A placement of one table: its kind and, where it has one, its device."""

    kind: str
    device: int = 0


def choices_of(table: TableLoad, job: Job) -> list[Choice]:
    """Every placement that a table may have."""
    devices = job.devices
    choices = []
    for kind in table.kinds:
        if kind == "hybrid" and table.tiers is not None:
            # Two tables, of which each would take the whole budget, and one folder on a disk.
            # Frequent rows keep their places without it.
            continue
        if kind == "one_device":
            choices += [Choice(kind, device) for device in range(devices)]
        elif kind == "hybrid":
            choices += [Choice(kind)] if table.frequent is not None and devices > 1 else []
        elif kind != "by_column" or column_devices(table.vec_size, job.column_devices) > 1:
            choices.append(Choice(kind))
    return choices
