# SPDX-License-Identifier: Apache-2.0
"""Where rows of a table lie on a device, and what those that have no place there take."""

from __future__ import annotations

import math

from hugectr.plan.job import Job
from hugectr.plan.table_cost import Array, Held
from hugectr.plan.table_load import INDEX, TableLoad
from hugectr.plan.tiers import DISK_INDEX, GROUP, PLACE, ROW, ROW_OVER_DISK, STAGED_KEY, MissedRows
from hugectr.plan.whole_step import PHASES

_GATHER, _UPDATE, _MOVE = (PHASES.index(phase) for phase in ("gather", "update", "move rows"))
#: Bytes of memory that a place looked up takes, of each key and distinct row.
_SECTOR = 32


def distinct_rows(t: TableLoad, job: Job) -> tuple[float, float]:
    """Distinct rows of a batch, and of one device's samples."""
    keys = job.batch * t.keys
    whole = min(keys * t.distinct, float(t.rows))
    return whole, min(keys / job.devices * t.distinct_of_device, whole)


class LaidRows:
    """Rows of the tables of a job, in the tiers of their Memory.

    Parameters
    ----------
    job : Job
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._laws: dict[tuple[float, float, float], MissedRows] = {}

    def lay(
        self,
        t: TableLoad,
        out: Array,
        held: Held,
        at: int | slice,
        holders: int,
        part: float = 1.0,
        width: float = 1.0,
        keys: float = 1.0,
    ) -> None:
        """Rows of devices that have this part of them all and so many columns; they look up `keys`
        of a batch's. `holders`: all that have rows of the table."""
        rows, record = part * t.rows, width * t.record_bytes
        held.device[at] += INDEX * rows
        tiers, machine = t.tiers, self._job.machine
        if tiers is not None:
            tiers = tiers.each_of(min(holders, self._job.column_devices))
        places = rows if tiers is None else tiers.places(record)
        if tiers is None or places >= rows:
            held.device[at] += rows * record
            return
        lacking = 0.0
        if tiers.disk is None:
            held.host[at] += rows * record
            least = rows * record if tiers.host is not None else 0.0
        else:
            least = 2 * places * record  # it must hold twice what devices have places for
            held.host[at] += min(rows * record, tiers.host or 0) + DISK_INDEX * rows
            if rows * record > (tiers.host or 0):
                held.disk[at] += rows * record
                lacking = max(0.0, rows * record - tiers.disk)
        lacking += max(0.0, least - (tiers.host or 0))
        seen = keys * self._job.batch * t.keys
        distinct = part * distinct_rows(t, self._job)[0]
        if places > 0:
            lacking += max(0.0, min(rows, 2 * distinct) - places) * (record + PLACE)
        held.lacking = max(held.lacking, lacking)  # budgets are those of each device
        if places == 0:
            vectors = width * t.vec_size * t.vector_bytes
            rate = machine.host_rate or math.inf
            out[_GATHER, at] += seen * vectors / rate
            # Read and written at the same time: the link goes both ways.
            out[_UPDATE, at] += distinct * record / rate
            return
        of_row = ROW if tiers.disk is None else ROW_OVER_DISK
        held.device[at] += places * (record + PLACE) + rows * of_row + seen * STAGED_KEY
        law = self._law(t)
        rate = machine.host_moves or machine.host_rate or math.inf
        moved = part * law(places / part) * record / rate
        looked_up = (seen + distinct) * _SECTOR / machine.copy
        read = 0.0
        if tiers.disk is not None and machine.disk_rate:
            in_host = (tiers.host or 0) / record
            read = part * law(in_host / part) * max(GROUP, record) / machine.disk_rate
        out[_MOVE, at] += moved + looked_up + read

    def _law(self, t: TableLoad) -> MissedRows:
        batch = (float(t.rows), self._job.batch * t.keys, distinct_rows(t, self._job)[0])
        if batch not in self._laws:
            self._laws[batch] = MissedRows(*batch)
        return self._laws[batch]
