# SPDX-License-Identifier: Apache-2.0
"""Who trains, and where a table of theirs may be."""

from __future__ import annotations

from dataclasses import dataclass, field

from hugectr.plan.dense_work import DenseTime
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
    near: int = 0  #: devices of the first process, which share its memory; 0: all
    #: Of the dense network, beside which batches are planned too.
    dense: DenseTime = field(default_factory=DenseTime)

    @property
    def column_devices(self) -> int:
        """Of a process, among which columns may be dealt."""
        return min(self.near or self.devices, self.devices)

    def columns_from(self, first: int) -> int:
        """Among how many from this device on: a process has whole rows."""
        return min(self.column_devices - first % self.column_devices, self.devices - first)

    @property
    def hiding(self) -> tuple[float, float]:
        """Seconds of dense work that hide vectors, and their gradients, on their way."""
        share = self.machine.hides if self.devices > 1 else 0.0
        return share * self.dense.before_vectors, share * self.dense.behind_gradients

    @property
    def number_bytes(self) -> int:
        """Of a number of a vector that layers read."""
        return NUMBER_BYTES[self.made]


@dataclass(frozen=True)
class Choice:
    """What a plan decides of one table: its placement's kind and, where it has one, its device (of
    by_column the first); and its exchange, where that is not the table's own."""

    kind: str
    device: int = 0
    exchange: str | None = None


#: Kinds whose devices ask each other for rows, unless sums travel for certain.
_ASKING = ("by_key", "by_slot", "one_device")


def asks(table: TableLoad, choice: Choice) -> bool:
    """Whether several devices ask each other for rows of the table when a batch is planned."""
    if choice.kind in _ASKING:
        return (choice.exchange or table.exchange) != "pooled"
    return choice.kind != "by_column"


def choices_of(table: TableLoad, job: Job, given: Choice | None = None) -> list[Choice]:
    """Every placement that a table may have, or the given one; and where the table leaves that
    open, every exchange.

    That sums travel may be worth more bytes: nobody asks for rows then, for which every batch's
    plan takes longer.
    """
    choices = [given] if given else _placements_of(table, job)
    if job.devices == 1 or table.exchange != "auto":
        return choices
    asking = [c for c in choices if c.kind in _ASKING and (c.kind != "by_slot" or table.slots > 1)]
    return choices + [Choice(c.kind, c.device, "pooled") for c in asking]


def _placements_of(table: TableLoad, job: Job) -> list[Choice]:
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
