# SPDX-License-Identifier: Apache-2.0
"""The rows of a table that is spread over processes, cut in the one order of (slot, key).

Files of the original layout have all rows in that order, while every process knows only its own.
A sample of everybody's rows gives bounds that cut the order into intervals of about the same size;
counts by interval give each its place in the files. No process ever sees all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hugectr.checkpoints.chunks import Array
from hugectr.checkpoints.merge import rows_up_to

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.processes.group import ProcessGroup

_SAMPLES = 4  # a process samples so many of its rows for an interval


@dataclass(frozen=True)
class Interval:
    """Neighbouring rows of the whole table.

    Attributes
    ----------
    begin, end : int
        This process's rows among them, as places in its own order.
    first, count : int
        Place of the first one in the whole order, and how many all processes have.
    """

    begin: int
    end: int
    first: int
    count: int


@dataclass(frozen=True)
class SpreadRows:
    """A table's rows: the order of this process's, and intervals of all.

    Attributes
    ----------
    order : RowOrder
    intervals : list of Interval
        The same number on all processes.
    total : int
        Rows of the whole table.
    """

    order: _core.RowOrder
    intervals: list[Interval]
    total: int

    def block(self, rank: int, workers: int) -> list[int]:
        """Numbers of the intervals that one of so many working processes has."""
        if rank >= workers:
            return []
        count = len(self.intervals)
        return list(range(rank * count // workers, (rank + 1) * count // workers))


def spread_rows(table: _core.TableAccess, group: ProcessGroup, rows_each: int) -> SpreadRows:
    """Cut a table into intervals. Collective.

    Parameters
    ----------
    table : TableAccess
    group : ProcessGroup
    rows_each : int
        Rows of an interval, about: at most twice as many.
    """
    order = table.order()
    own = identities(table, order, 0, len(order))
    step = max(1, rows_each // (_SAMPLES * group.size))
    sample = np.stack([_slots(own)[step - 1 :: step], own["key"][step - 1 :: step]])
    gathered = [
        np.frombuffer(data, np.int64).reshape(2, -1) for data in group.all_gather(sample.tobytes())
    ]
    slots, keys = np.concatenate(gathered, axis=1)
    by_identity = np.lexsort([keys, slots])
    every = max(1, rows_each // step)
    chosen = by_identity[every - 1 :: every]
    bounds = [rows_up_to(own, (int(slots[i]), int(keys[i]))) for i in chosen]
    ends = np.array([*bounds, len(order)], np.int64)
    begins = np.concatenate([[0], ends[:-1]])
    counts = np.sum(
        [np.frombuffer(d, np.int64) for d in group.all_gather((ends - begins).tobytes())], axis=0
    )
    firsts = np.concatenate([[0], np.cumsum(counts)])
    intervals = [
        Interval(*map(int, item)) for item in zip(begins, ends, firsts[:-1], counts, strict=True)
    ]
    return SpreadRows(order, intervals, int(firsts[-1]))


def rows_of_all(table: _core.TableAccess, group: ProcessGroup) -> int:
    """How many different rows all processes have. Collective."""
    own = np.int64(len(table.order()))
    counts = [np.frombuffer(data, np.int64) for data in group.all_gather(own.tobytes())]
    return int(np.sum(counts))


def identities(
    table: _core.TableAccess, order: _core.RowOrder, begin: int, end: int
) -> dict[str, Array]:
    """Keys, and slots where the table has them, of rows of an order."""
    found: dict[str, Array] = {"key": order.keys(begin, end)}
    if "slot" in table.parts():
        found["slot"] = order.slot_ids(begin, end)
    return found


def _slots(values: dict[str, Array]) -> Array:
    slots = values.get("slot")
    return np.zeros(len(values["key"]), np.int64) if slots is None else slots.astype(np.int64)
