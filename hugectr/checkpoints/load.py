# SPDX-License-Identifier: Apache-2.0
"""Tables out of a native checkpoint: each byte is read once in the job, and sent to its owner.

The chunks of a table are dealt to the processes in blocks, so that a process reads along its files,
and with as many processes as when it was saved reads just its own rows. In a round every process
reads and checks one chunk, sends each row to the process of the device that owns it, and gives what
it received to its own devices: memory is bounded by chunks, whatever the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hugectr.agreement import LONG, Rounds, jointly
from hugectr.checkpoints.chunks import Array, check_sum, checked_chunks, chunk_sums, read_range
from hugectr.checkpoints.manifest import Manifest, RowUnit, row_bytes, row_shape, row_units
from hugectr.checkpoints.rows import Parts, bag_of, pack, unpack
from hugectr.threads import Workers

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.processes.group import ProcessGroup


class TableReader:
    """Rows of one table of a checkpoint.

    Parameters
    ----------
    path : Path
        Of the checkpoint.
    manifest : dict
    index : int
        Of the table.
    """

    def __init__(self, path: Path, manifest: Manifest, index: int) -> None:
        self.path = path
        self.files = manifest["files"]
        self.table = manifest["tables"][index]
        self.parts: Parts = {
            part: row_shape(manifest, self.table, part) for part in self.table["parts"]
        }
        self.units = list(row_units(self.table))

    def read(self, unit: RowUnit, only: Parts | None = None) -> dict[str, Array]:
        """The rows of a chunk, checked; part -> rows. ``only``: not all parts."""
        values = {}
        for part, (dtype, shape) in (only or self.parts).items():
            name = self.table["shards"][unit.shard]["files"][part]
            size = row_bytes(dtype, shape)
            begin, end = unit.begin * size, unit.end * size
            data = read_range(self.path / name, begin, end)
            entry = self.files[name]
            if not isinstance(entry["crc32"], int):
                step, sums = chunk_sums(entry)
                check_sum(self.path / name, begin, data, sums[begin // step])
            values[part] = np.frombuffer(data, dtype).reshape((unit.end - unit.begin, *shape))
        return values

    def check_whole_files(self, rank: int, size: int) -> None:
        """Check files that have one checksum only (format 1); each by one process."""
        names = [name for shard in self.table["shards"] for name in shard["files"].values()]
        for name in names[rank::size]:
            if isinstance(self.files[name]["crc32"], int):
                for _ in checked_chunks(self.path / name, self.files[name]):
                    pass

    def block(self, rank: int, size: int) -> list[RowUnit]:
        """The chunks that a process reads."""
        count = len(self.units)
        return self.units[rank * count // size : (rank + 1) * count // size]

    def ahead(self, units: list[RowUnit]) -> Iterator[dict[str, Array]]:
        """Content of chunks, each read while the one before is used."""
        with Workers(1, "checkpoint") as pool:
            following = pool.submit(self.read, units[0]) if units else None
            for number in range(len(units)):
                assert following is not None
                values = following.result()
                if number + 1 < len(units):
                    following = pool.submit(self.read, units[number + 1])
                yield values


def load_table(
    session: _core.Session, index: int, reader: TableReader, group: ProcessGroup
) -> None:
    """Give a table the rows of a checkpoint, on top of those it has. Collective.

    Raises
    ------
    DataError
        When a chunk is damaged: the same on all processes.
    OutOfMemory
        When rows do not fit a budget: likewise.
    """
    jointly(group, lambda: reader.check_whole_files(group.rank, group.size), LONG)
    if group.size == 1:
        for values in reader.ahead(reader.units):
            session.load_embedding(index, bag_of(values))
        return
    block = reader.block(group.rank, group.size)
    chunks, reading = reader.ahead(block), len(block)
    rounds = Rounds(group)

    def outgoing() -> list[bytearray]:
        nonlocal reading
        values = next(chunks) if reading > 0 else None
        reading -= 1
        return addressed(session, index, values, group.size)

    for _ in range(-(-len(reader.units) // group.size)):
        received = rounds.exchange(outgoing)
        rounds.use(lambda received=received: load(session, index, received, reader.parts))  # type: ignore[misc]
    rounds.finish()


def load(session: _core.Session, index: int, received: Sequence[memoryview], parts: Parts) -> None:
    """Give a table the rows that came from all processes."""
    for data in received:
        if len(data):
            session.load_embedding(index, bag_of(unpack(data, parts)))


def addressed(
    session: _core.Session, index: int, values: dict[str, Array] | None, size: int
) -> list[bytearray]:
    """The message to each process: rows that its devices own."""
    if values is None:
        return [bytearray()] * size
    processes = session.row_processes(index, values["key"], values.get("slot"))
    order = np.argsort(processes, kind="stable")
    bounds = np.searchsorted(processes[order], np.arange(size + 1))
    messages = []
    for begin, end in pairwise(bounds):
        if begin == end:
            messages.append(bytearray())
            continue
        whole = end - begin == len(order)
        messages.append(pack(values, None if whole else order[begin:end]))
    return messages
