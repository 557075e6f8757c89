# SPDX-License-Identifier: Apache-2.0
"""Files of the original layout, written by a job: the same bytes that one process would write.

Every process gathers intervals of the table's order from all others and writes them where they
belong in ``key``, ``slot_id``, ``emb_vector`` and the states. Where the others do not see process
0's folder, it gathers all intervals itself, one at a time: its memory does not grow with the job.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hugectr.agreement import Rounds, from_root, jointly, together
from hugectr.checkpoint import TABLE_FILES, CheckpointFiles, write_statistics
from hugectr.checkpoint_chunks import CHUNK, Array, bytes_of
from hugectr.checkpoint_manifest import row_bytes
from hugectr.checkpoint_merge import in_order
from hugectr.checkpoint_rows import Parts, bytes_a_row, pack, parts_of, unpack
from hugectr.row_intervals import SpreadRows, spread_rows

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.model import Model
    from hugectr.processes.group import ProcessGroup


def save_params(model: Model, prefix: str, iteration: int, group: ProcessGroup) -> None:
    """Write weights and optimizer states of a model that is spread over processes. Collective.

    Raises
    ------
    OSError
        The same on all processes, with the rank of the first it happened to.
    """
    session, names = model.session, CheckpointFiles(prefix, iteration)

    def dense() -> None:
        Path(names.dense).parent.mkdir(parents=True, exist_ok=True)
        session.dense_weights().tofile(names.dense)
        session.dense_optimizer_states().tofile(names.dense_optimizer)
        write_statistics(names.dense, session.non_trainables())

    from_root(group, dense)
    shared = all(together(group, lambda: Path(names.dense).is_file()))
    for index in range(len(model.embeddings)):
        files = TableFiles(
            session.embedding_parts(index), names.sparse(index), names.sparse_optimizer(index)
        )
        save_table(session, index, files, group, group.size if shared else 1)


class TableFiles:
    """Files of one table, written in pieces at any place.

    Parameters
    ----------
    parts : Parts
        Of a row; its last step has no place in this layout.
    folder, states_file : str
    """

    def __init__(self, parts: Parts, folder: str, states_file: str) -> None:
        self.parts: Parts = {part: kind for part, kind in parts.items() if part != "last_step"}
        self._states_file = Path(states_file)
        self._folder = Path(folder)
        self._states = [part for part in self.parts if part.startswith("state")]
        self._handles: dict[str, int] = {}

    def _paths(self) -> dict[str, Path]:
        found = {p: self._folder / name for p, name in TABLE_FILES.items() if p in self.parts}
        return found | {"states": self._states_file}

    def create(self) -> None:
        """Make them, empty."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._paths().values():
            path.write_bytes(b"")

    def open(self) -> None:
        """Open them for writing."""
        for part, path in self._paths().items():
            self._handles[part] = os.open(path, os.O_WRONLY)

    def write(self, values: dict[str, Array], first: int, total: int) -> None:
        """Write rows from place ``first`` on, of so many rows in all."""
        for part, array in values.items():
            size = row_bytes(*self.parts[part])
            place, handle = first * size, part
            if part in self._states:  # one state after the other
                place, handle = (self._states.index(part) * total + first) * size, "states"
            rest = bytes_of(np.ascontiguousarray(array))
            while rest:
                try:
                    written = os.pwrite(self._handles[handle], rest, place)
                except OSError as error:
                    path = str(self._paths()[handle])
                    raise OSError(error.errno, error.strerror, path) from error
                place, rest = place + written, rest[written:]

    def close(self) -> None:
        """Close what is open."""
        while self._handles:
            os.close(self._handles.popitem()[1])


def save_table(
    session: _core.Session, index: int, files: TableFiles, group: ProcessGroup, writers: int
) -> None:
    """Write one table; the first ``writers`` processes write. Collective."""
    from_root(group, files.create)
    rows = spread_rows(session, index, group, max(1, CHUNK // bytes_a_row(files.parts)))
    try:
        if group.rank < writers:
            jointly(group, files.open)
        else:
            jointly(group, lambda: None)
        _write_intervals(session, index, rows, files, group, writers)
    finally:
        files.close()


def _write_intervals(
    session: _core.Session,
    index: int,
    rows: SpreadRows,
    files: TableFiles,
    group: ProcessGroup,
    writers: int,
) -> None:
    blocks = [rows.block(rank, writers) for rank in range(group.size)]
    rounds = Rounds(group)
    for number in range(max(map(len, blocks))):
        turn = [block[number] if number < len(block) else None for block in blocks]

        def outgoing(turn: list[int | None] = turn) -> list[bytearray]:
            return [_rows_of(session, index, rows, files.parts, interval) for interval in turn]

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
    session: _core.Session, index: int, rows: SpreadRows, parts: Parts, number: int | None
) -> bytearray:
    """This process's rows of an interval, as a message."""
    if number is None or rows.intervals[number].begin == rows.intervals[number].end:
        return bytearray()
    interval = rows.intervals[number]
    bag = session.read_embedding(index, rows.order, interval.begin, interval.end, True)
    values = parts_of(bag)
    return pack({part: values[part] for part in parts})
