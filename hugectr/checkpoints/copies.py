# SPDX-License-Identifier: Apache-2.0
"""Rows that every process has: what one process knows of them is brought to the others.

A table is read out once, by the process of a row's first device. Who gives rows back to a table
process by process, each what it read, brings those that all have to the others here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hugectr.checkpoints.chunks import CHUNK
from hugectr.checkpoints.load import load
from hugectr.checkpoints.rows import EVERY_PROCESS, bytes_a_row, pack, parts_of
from hugectr.processes.agreement import LONG, Rounds, jointly, together

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.processes.group import ProcessGroup


def copy_to_all(table: _core.TableAccess, group: ProcessGroup) -> None:
    """Give all processes the rows that each has to have, from who reads them out. Collective.

    Nothing travels of tables whose rows are in one process each.

    Raises
    ------
    OutOfMemory
        When they do not fit a budget: the same on all processes.
    """
    if group.size == 1 or table.placement() not in ("replicated", "hybrid"):
        return
    order = jointly(group, table.order, LONG)
    step = max(1, CHUNK // bytes_a_row(table.parts()))
    rounds = Rounds(group)
    for begin in range(0, max(together(group, lambda: len(order))), step):

        def outgoing(begin: int = begin) -> list[bytearray]:
            end = min(begin + step, len(order))
            messages = [bytearray() for _ in range(group.size)]
            if begin >= end:
                return messages
            values = parts_of(table.read(order, begin, end, True), table.parts())
            everywhere = table.row_processes(values["key"], values.get("slot")) == EVERY_PROCESS
            message = pack(values, np.flatnonzero(everywhere))
            return [messages[rank] if rank == group.rank else message for rank in range(group.size)]

        received = rounds.exchange(outgoing)
        rounds.use(lambda received=received: load(table, received, table.parts()))  # type: ignore[misc]
    rounds.finish()
