# SPDX-License-Identifier: Apache-2.0
"""Tables out of a native checkpoint: each byte is read once in the job, and sent to its owner.

The chunks of a table are dealt to the processes in blocks, so that a process reads along its files,
and with as many processes as when it was saved reads just its own rows. In a round every process
reads and checks one chunk, sends each row to the process of the device that owns it, and gives what
it received to its own devices: memory is bounded by chunks, whatever the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hugectr.base.threads import Workers
from hugectr.checkpoints.bfloat16 import from_bytes
from hugectr.checkpoints.chunks import (
    Array,
    check_sum,
    checked_chunks,
    chunk_sums,
    mapped_range,
    read_range,
)
from hugectr.checkpoints.linked import LinkedShardReader, in_key_order
from hugectr.checkpoints.manifest import Manifest, RowUnit, row_bytes, row_shape, row_units
from hugectr.checkpoints.rows import EVERY_PROCESS, Parts, bag_of, pack, unpack
from hugectr.checkpoints.shard_names import PLACE, index_parts, linked_file, linked_shards
from hugectr.processes.agreement import LONG, Rounds, jointly

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
    mapped : bool
        Whether rows stay in the files, mapped, instead of being copied out of them: for who uses
        each chunk once, before it asks for the next.
    kind : str
        ``"tables"``; ``"gone"``: the rows that a delta takes away.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        index: int,
        mapped: bool = False,
        kind: str = "tables",
    ) -> None:
        self.path = path
        self._range = mapped_range if mapped else read_range
        self.files = manifest["files"]
        self.table = manifest[kind][index]
        self.parts: Parts = {
            part: row_shape(manifest, self.table, part) for part in self.table["parts"]
        }
        self.units = list(row_units(self.table))
        self._number = index
        self._of_segments: dict[tuple[int, int, int, int], LinkedShardReader] = {}

    def read(self, unit: RowUnit, only: Parts | None = None) -> dict[str, Array]:
        """The rows of a chunk, checked; part -> rows. ``only``: not all parts."""
        parts = only or self.parts
        if unit.linked is None:
            names = self.table["shards"][unit.shard]["files"]
            return {part: self._part(names[part], unit, parts[part][1]) for part in parts}
        index = self.index(unit, [part for part in index_parts(list(parts)) if part != PLACE])
        places = self.index(unit, [PLACE])[PLACE]
        records = self._segments(unit.shard, unit.linked).read(places, parts)
        return self._in_order(parts, index, records)

    def _part(self, name: str, unit: RowUnit, shape: tuple[int, ...]) -> Array:
        """A part of the rows of a chunk."""
        entry = self.files[name]
        size = row_bytes(entry["dtype"], shape)
        begin, end = unit.begin * size, unit.end * size
        data = self._range(self.path / name, begin, end)
        if not isinstance(entry["crc32"], int):
            step, sums = chunk_sums(entry)
            check_sum(self.path / name, begin, data, sums[begin // step])
        return from_bytes(data, entry["dtype"]).reshape((unit.end - unit.begin, *shape))

    @staticmethod
    def _in_order(parts: Parts, *found: dict[str, Array]) -> dict[str, Array]:
        joined = {part: values for some in found for part, values in some.items()}
        return {part: joined[part] for part in parts}

    # --- rows in linked segments ------------------------------------------------------------------

    def index(self, unit: RowUnit, parts: Sequence[str]) -> dict[str, Array]:
        """What a linked shard says of a chunk of its rows."""
        assert unit.linked is not None
        where = (self._number, unit.shard, len(self.table["shards"]), unit.linked)
        return {part: self._part(linked_file(part, *where), unit, ()) for part in parts}

    def _segments(self, shard: int, linked: int) -> LinkedShardReader:
        """Its segments, whose heads are checked when they are first asked for."""
        where = (self._number, shard, len(self.table["shards"]), linked)
        if where not in self._of_segments:
            self._of_segments[where] = LinkedShardReader(self.path, self.files, self.table, where)
        return self._of_segments[where]

    def check_linked(self) -> None:
        """Check the heads of all segments.

        Raises
        ------
        DataError
            Naming the one that is damaged, or another's.
        """
        for (_, shard, _, linked), _ in linked_shards(self._number, self.table):
            self._segments(shard, linked)

    def sorted_linked(self, shard: int, linked: int, parts: Parts) -> Iterator[dict[str, Array]]:
        """Rows of a linked shard by (slot, key), in chunks; its index is in memory meanwhile."""
        own = index_parts(list(parts))
        units = [unit for unit in self.units if (unit.shard, unit.linked) == (shard, linked)]
        pieces = [self.index(unit, own) for unit in units]
        if not pieces:
            return
        index = {part: np.concatenate([piece[part] for piece in pieces]) for part in own}
        for chosen in in_key_order(index, self.table["chunk_rows"]):
            some = {part: values[chosen] for part, values in index.items()}
            with_records = any(part not in own for part in parts)
            records = self._segments(shard, linked).read(some[PLACE], parts) if with_records else {}
            yield self._in_order(parts, some, records)

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

    def ahead(self, units: list[RowUnit]) -> ChunksAhead:
        """Content of chunks, each read while the one before is used."""
        return ChunksAhead(self, units)


class ChunksAhead:
    """Content of chunks, in order, each read by a thread while the one before is used.

    A context: the thread ends with it. It is no generator, since one that is left in the middle
    ends when the garbage collector comes, in any thread and in the middle of anything, where
    waiting for another thread may wait for ever.

    Parameters
    ----------
    reader : TableReader
    units : list of RowUnit
    """

    def __init__(self, reader: TableReader, units: list[RowUnit]) -> None:
        self._reader, self._units = reader, iter(units)
        self._pool = Workers(1, "checkpoint")
        self._following: Future[dict[str, Array]] | None = None

    def __enter__(self) -> ChunksAhead:
        self._read_next()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _read_next(self) -> None:
        unit = next(self._units, None)
        self._following = None if unit is None else self._pool.submit(self._reader.read, unit)

    def __iter__(self) -> ChunksAhead:
        return self

    def __next__(self) -> dict[str, Array]:
        following, self._following = self._following, None
        if following is None:
            raise StopIteration
        try:
            values = following.result()
        finally:
            del following  # else an error's traceback keeps what it came from, and the model
        self._read_next()
        return values


def take_gone(
    table: _core.TableAccess, path: Path, manifest: Manifest, index: int, group: ProcessGroup
) -> None:
    """Take the rows from a table that went before a delta was saved. Collective."""
    if not manifest.get("gone"):
        return
    reader = TableReader(path, manifest, index, kind="gone")

    def erase() -> None:  # each process its own
        for unit in reader.units:
            values = reader.read(unit)
            table.erase(values["key"], values.get("slot"))

    jointly(group, erase, LONG)


def load_table(table: _core.TableAccess, reader: TableReader, group: ProcessGroup) -> None:
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
        with reader.ahead(reader.units) as chunks:
            for values in chunks:
                table.load(bag_of(values))
        return
    with reader.ahead(reader.block(group.rank, group.size)) as chunks:
        rounds = Rounds(group)

        def outgoing() -> list[bytearray]:
            return addressed(table, next(chunks, None), group.size)

        for _ in range(-(-len(reader.units) // group.size)):
            received = rounds.exchange(outgoing)
            rounds.use(lambda received=received: load(table, received, reader.parts))  # type: ignore[misc]
        rounds.finish()


def load(table: _core.TableAccess, received: Sequence[memoryview], parts: Parts) -> None:
    """Give a table the rows that came from all processes."""
    for data in received:
        if len(data):
            table.load(bag_of(unpack(data, parts)))


def addressed(
    table: _core.TableAccess, values: dict[str, Array] | None, size: int
) -> list[bytearray]:
    """The message to each process: rows that its devices own."""
    if values is None:
        return [bytearray()] * size
    processes = table.row_processes(values["key"], values.get("slot"))
    if (processes == EVERY_PROCESS).any():
        owned = [(processes == EVERY_PROCESS) | (processes == rank) for rank in range(size)]
        return [pack(values, np.flatnonzero(own)) if own.any() else bytearray() for own in owned]
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
