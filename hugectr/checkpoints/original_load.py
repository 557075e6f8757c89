# SPDX-License-Identifier: Apache-2.0
"""Files of the original layout into a model: each byte read once, each row sent to its owner.

One process is a job of one. Where only process 0 sees the files, it reads them all; else every
process reads a block of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints.chunks import CHUNK, Array, read_range
from hugectr.checkpoints.copies import copy_to_all
from hugectr.checkpoints.load import addressed, load
from hugectr.checkpoints.manifest import row_bytes
from hugectr.checkpoints.merge import in_order
from hugectr.checkpoints.original_files import TABLE_FILES
from hugectr.checkpoints.row_intervals import SpreadRows, identities, rows_of_all, spread_rows
from hugectr.checkpoints.rows import Parts, bytes_a_row, pack, unpack
from hugectr.processes.agreement import LONG, Rounds, from_root, jointly, together

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.processes.group import ProcessGroup


def read_floats(path: str | Path, count: int, what: str, group: ProcessGroup) -> Array:
    """A file of float32, read by process 0 for all. Collective.

    Raises
    ------
    DataError
        When it is not there or has another size.
    """

    def read() -> Array:
        values = read_range(Path(path), 0, _size(Path(path), 4 * count, what))
        return np.frombuffer(values, np.float32)

    return from_root(group, read)


def _size(path: Path, wanted: int, what: str) -> int:
    if not path.is_file():
        raise DataError(f"{path} is not there: {what} are expected in it")
    size = path.stat().st_size
    if size != wanted:
        raise DataError(
            f"{path} has {size} bytes, but the {what} of this model take {wanted}; it was written "
            "by another model"
        )
    return size


class SavedTable:
    """A table's folder (3.1 and later) or single file (3.0 and before), read in ranges of rows.

    Parameters
    ----------
    path : str
    parts : Parts
        Of a row, without states.
    i64_keys : bool
        Width of the keys in a single file.

    Raises
    ------
    DataError
        When sizes do not fit each other.
    """

    def __init__(self, path: str, parts: Parts, i64_keys: bool) -> None:
        self.path, self.parts = Path(path), parts
        self._record: np.dtype[Any] | None = None
        if self.path.is_file():
            fields = {"key": np.int64 if i64_keys else np.uint32, "slot": np.uint64}
            kinds: list[Any] = [
                (part, fields.get(part, dtype), shape) for part, (dtype, shape) in parts.items()
            ]
            self._record = np.dtype(kinds)
            size, row = self.path.stat().st_size, self._record.itemsize
            if size % row:
                raise DataError(f"{path} has {size} bytes, not a multiple of the row of {row}")
            self.rows = size // row
            return
        for part in parts:
            if not (self.path / TABLE_FILES[part]).is_file():
                raise DataError(f"{path} has no file {TABLE_FILES[part]}")
        key_bytes = (self.path / "key").stat().st_size
        if key_bytes % 8:
            raise DataError(
                f"{self.path / 'key'} has {key_bytes} bytes, which are no whole number of int64 "
                "keys: the file is damaged"
            )
        self.rows = key_bytes // 8
        for part, (dtype, shape) in parts.items():
            file = self.path / TABLE_FILES[part]
            wanted = self.rows * row_bytes(dtype, shape)
            if file.stat().st_size != wanted:
                raise DataError(
                    f"{file} has {file.stat().st_size} bytes, but key has {self.rows} rows, which "
                    f"take {wanted} here; was it written with another embedding_vec_size?"
                )

    def read(self, begin: int, end: int) -> dict[str, Array]:
        """Rows [begin, end) as they lie in the files."""
        if self._record is not None:
            size = self._record.itemsize
            records = np.frombuffer(
                read_range(self.path, begin * size, end * size), self._record, end - begin
            )
            return {
                part: np.ascontiguousarray(records[part], dtype)
                for part, (dtype, _) in self.parts.items()
            }
        values = {}
        for part, (dtype, shape) in self.parts.items():
            size = row_bytes(dtype, shape)
            data = read_range(self.path / TABLE_FILES[part], begin * size, end * size)
            values[part] = np.frombuffer(data, dtype).reshape((end - begin, *shape))
        return values


def _in_layout(parts: Parts) -> Parts:
    return {part: kind for part, kind in parts.items() if part in TABLE_FILES}


def load_table(table: _core.SessionTable, path: str, i64_keys: bool, group: ProcessGroup) -> None:
    """Replace a table's rows by saved ones. Collective.

    Raises
    ------
    DataError, OutOfMemory
        The same on all processes; the table is as it was.
    """
    parts = _in_layout(table.parts())
    load_rows(table, Path(path), lambda: SavedTable(path, parts, i64_keys), parts, group)


def check_states_fit(
    table: _core.SessionTable, states_file: str, path: str, i64_keys: bool, group: ProcessGroup
) -> None:
    """Before rows are loaded, whether the states that wait for them are of as many. Collective.

    Raises
    ------
    DataError
        The same on all processes.
    """
    parts = table.parts()
    row = bytes_a_row({part: kind for part, kind in parts.items() if part.startswith("state")})

    def check() -> None:
        rows = SavedTable(path, _in_layout(parts), i64_keys).rows
        what = (
            f"optimizer states of the {rows} rows in {path}, for which it waits "
            "(load_sparse_optimizer_states with the file that was saved with them)"
        )
        _size(Path(states_file), rows * row, what)

    from_root(group, check)


class SavedRows(Protocol):
    """Rows in files, read in ranges."""

    rows: int

    def read(self, begin: int, end: int) -> dict[str, Array]:
        """Rows [begin, end) as they lie in the files."""
        ...


def load_rows(
    table: _core.SessionTable,
    path: Path,
    open_saved: Callable[[], SavedRows],
    parts: Parts,
    group: ProcessGroup,
) -> None:
    """Replace a table's rows by those of files. Collective.

    Parameters
    ----------
    table : SessionTable
    path : Path
        Where the files are, to see who can read them.
    open_saved : callable
        Checks the files and returns what reads them.
    parts : Parts
        Of a row in them.
    group : ProcessGroup

    Raises
    ------
    DataError, OutOfMemory
        The same on all processes; the table is as it was. Rows that are there twice are damage.
    """
    rows = from_root(group, lambda: open_saved().rows)
    readers = group.size if all(together(group, path.exists)) else 1
    before = jointly(group, lambda: table.dump(True), LONG)
    try:
        jointly(group, table.reset)
        _load_blocks(table, open_saved, parts, rows, group, readers)
        held = rows_of_all(table, group)
        if held != rows:
            raise DataError(
                f"{path} has {rows} rows, but {held} different ones: a key is there more than once"
            )
    except BaseException as error:
        # Of an interrupted job nobody knows where the others are.
        if group.size == 1 or isinstance(error, Exception):
            table.reset()
            table.load(before)
            copy_to_all(table, group)
        if isinstance(error, InvalidArgument):  # a key or slot that the table can not have
            raise InvalidArgument(f"{path}: {error}") from error
        raise


def _load_blocks(
    table: _core.SessionTable,
    open_saved: Callable[[], SavedRows],
    parts: Parts,
    rows: int,
    group: ProcessGroup,
    readers: int,
) -> None:
    step = max(1, CHUNK // bytes_a_row(parts))
    blocks = [(rank * rows // readers, (rank + 1) * rows // readers) for rank in range(readers)]
    begin, end = blocks[group.rank] if group.rank < readers else (0, 0)
    longest = max(last - first for first, last in blocks)
    saved = jointly(group, lambda: open_saved() if group.rank < readers else None)
    rounds = Rounds(group)
    for offset in range(0, longest, step):
        first, last = begin + offset, min(begin + offset + step, end)

        def outgoing(first: int = first, last: int = last) -> list[bytearray]:
            values = saved.read(first, last) if saved is not None and first < last else None
            return addressed(table, values, group.size)

        received = rounds.exchange(outgoing)
        rounds.use(lambda received=received: load(table, received, parts))  # type: ignore[misc]
    rounds.finish()


def load_states(table: _core.SessionTable, path: str, group: ProcessGroup) -> bool:
    """Give rows the optimizer states of a file, in the order of (slot, key). Collective.

    Returns
    -------
    bool
        False: the file has states and the table no rows yet; nothing was done.

    Raises
    ------
    DataError
        When it does not fit the table's rows: load those first.
    """
    parts = table.parts()
    states: Parts = {part: kind for part, kind in parts.items() if part.startswith("state")}
    if not states:
        return True
    row = bytes_a_row(states)
    rows = spread_rows(table, group, max(1, CHUNK // bytes_a_row(parts)))
    if not rows.total and from_root(group, lambda: _holds_rows(Path(path), row)):
        return False
    what = f"optimizer states of {rows.total} embedding rows (load the sparse weights first)"
    from_root(group, lambda: _size(Path(path), rows.total * row, what))
    readers = group.size if all(together(group, lambda: Path(path).is_file())) else 1
    blocks = [rows.block(rank, readers) for rank in range(group.size)]
    rounds = Rounds(group)
    for number in range(max(map(len, blocks))):
        turn = [block[number] if number < len(block) else None for block in blocks]
        _load_states_of(table, Path(path), rows, states, turn, group, rounds)
    rounds.finish()
    copy_to_all(table, group)
    return True


def _holds_rows(path: Path, row: int) -> bool:
    """Whether a file is there whose size is that of some rows."""
    size = path.stat().st_size if path.is_file() else 0
    return size > 0 and size % row == 0


def _load_states_of(
    table: _core.SessionTable,
    path: Path,
    rows: SpreadRows,
    states: Parts,
    turn: list[int | None],
    group: ProcessGroup,
    rounds: Rounds,
) -> None:
    """One round: who has rows says which, who reads answers with their states."""
    own = turn[group.rank]
    names: Parts = {part: kind for part, kind in table.parts().items() if part in ("key", "slot")}

    def ask() -> list[bytearray]:
        asked = []
        for number in turn:
            if number is None:
                asked.append(bytearray())
                continue
            piece = rows.intervals[number]
            asked.append(pack(identities(table, rows.order, piece.begin, piece.end)))
        return asked

    questions = rounds.exchange(ask)

    def answer() -> list[bytearray]:
        if own is None:
            return [bytearray()] * group.size
        pieces = []
        for rank, data in enumerate(questions):
            piece = unpack(data, names)
            pieces.append(piece | {"rank": np.full(len(piece["key"]), rank)})
        ranks = in_order(pieces)["rank"]
        values = {}
        place = 0  # where the part begins: one state after the other
        for part, (dtype, shape) in states.items():
            size = row_bytes(dtype, shape)
            begin = place + rows.intervals[own].first * size
            content = read_range(path, begin, begin + len(ranks) * size)
            values[part] = np.frombuffer(content, dtype).reshape((len(ranks), *shape))
            place += rows.total * size
        # Rows of one process keep their order, which is the one it asked in.
        count = [np.flatnonzero(ranks == rank) for rank in range(group.size)]
        return [_states_message(values, chosen) for chosen in count]

    answers = rounds.exchange(answer)

    def give() -> None:
        for number, data in zip(turn, answers, strict=True):
            if number is None or not len(data):
                continue
            piece = rows.intervals[number]
            bag = table.read(rows.order, piece.begin, piece.end, True)
            found = unpack(data, {"key": ("int64", ()), **states})
            bag["states"] = [found[part] for part in states]
            table.load(bag)

    rounds.use(give)


def _states_message(values: dict[str, Array], chosen: Array) -> bytearray:
    if len(chosen) == 0:
        return bytearray()
    return pack({"key": chosen, **{part: array[chosen] for part, array in values.items()}})
