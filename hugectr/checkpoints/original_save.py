# SPDX-License-Identifier: Apache-2.0
"""Files of the original layout, written by a job of one process or of many: the same bytes.

Every process gathers intervals of the table's order from all others and writes them where they
belong in ``key``, ``slot_id``, ``emb_vector`` and the states. Where the others do not see process
0's folder, it gathers all intervals itself, one at a time: its memory does not grow with the job.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hugectr.base.places import file_place
from hugectr.checkpoints.chunks import CHUNK, Array
from hugectr.checkpoints.merge import in_order
from hugectr.checkpoints.original_files import CheckpointFiles, TableFiles, write_statistics
from hugectr.checkpoints.row_intervals import SpreadRows, spread_rows
from hugectr.checkpoints.rows import Parts, bytes_a_row, pack, parts_of, unpack
from hugectr.processes.agreement import Rounds, from_root, jointly, together

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.checkpoints.state import LoadedModel
    from hugectr.processes.group import ProcessGroup


def save_params(state: LoadedModel, prefix: str, iteration: int, group: ProcessGroup) -> None:
    """Write weights, BatchNorm's running statistics and optimizer states of a model. Collective.

    Raises
    ------
    OSError
        The same on all processes, with the rank of the first it happened to.
    """
    network, names = state.session.network, CheckpointFiles(prefix, iteration)

    def dense() -> None:
        file_place("prefix", names.dense)
        network.dense_weights().tofile(names.dense)
        network.dense_optimizer_states().tofile(names.dense_optimizer)
        write_statistics(names.dense, network.non_trainables())

    from_root(group, dense)
    shared = all(together(group, lambda: Path(names.dense).is_file()))
    for index, table in enumerate(state.session.tables()):
        files = TableFiles(table.parts(), names.sparse(index), names.sparse_optimizer(index))
        save_table(table, files, group, group.size if shared else 1)


class RowFiles(Protocol):
    """Files of one table, written in pieces at any place."""

    parts: Parts

    def create(self) -> None:
        """Make them, without rows."""
        ...

    def open(self) -> None:
        """Open them for writing."""
        ...

    def write(self, values: dict[str, Array], first: int, total: int) -> None:
        """Write rows from place ``first`` on, of so many rows in all."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


def save_table(
    table: _core.SessionTable, files: RowFiles, group: ProcessGroup, writers: int
) -> int:
    """Write one table; the first ``writers`` processes write. Collective. Returns its rows."""
    from_root(group, files.create)
    rows = spread_rows(table, group, max(1, CHUNK // bytes_a_row(files.parts)))
    try:
        if group.rank < writers:
            jointly(group, files.open)
        else:
            jointly(group, lambda: None)
        _write_intervals(table, rows, files, group, writers)
    finally:
        files.close()
    return rows.total


def _write_intervals(
    table: _core.SessionTable,
    rows: SpreadRows,
    files: RowFiles,
    group: ProcessGroup,
    writers: int,
) -> None:
    blocks = [rows.block(rank, writers) for rank in range(group.size)]
    rounds = Rounds(group)
    for number in range(max(map(len, blocks))):
        turn = [block[number] if number < len(block) else None for block in blocks]

        def outgoing(turn: list[int | None] = turn) -> list[bytearray]:
            return [_rows_of(table, rows, files.parts, interval) for interval in turn]

        received = rounds.exchange(outgoing)

        def write(
            received: list[memoryview] = received, own: int | None = turn[group.rank]
        ) -> None:
            pieces = [unpack(data, files.parts) for data in received if len(data)]
            if own is not None and pieces:
                files.write(in_order(pieces), rows.intervals[own].first, rows.total)

        rounds.use(write)
    rounds.finish()


def _rows_of(
    table: _core.SessionTable, rows: SpreadRows, parts: Parts, number: int | None
) -> bytearray:
    """This process's rows of an interval, as a message."""
    if number is None or rows.intervals[number].begin == rows.intervals[number].end:
        return bytearray()
    interval = rows.intervals[number]
    bag = table.read(rows.order, interval.begin, interval.end, True)
    values = parts_of(bag, table.parts())
    return pack({part: values[part] for part in parts})
