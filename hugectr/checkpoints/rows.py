# SPDX-License-Identifier: Apache-2.0
"""Rows of a table on their way: out of a model, into files, and to the process that owns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from hugectr.checkpoints.direct_file import ALIGNMENT, aligned_empty
from hugectr.checkpoints.linked import LinkedShard
from hugectr.checkpoints.manifest import row_bytes

if TYPE_CHECKING:
    from hugectr import _core

Array = npt.NDArray[Any]
#: Part of a row -> dtype, and shape of one row of it. Order is that of the files.
Parts = Mapping[str, tuple[str, tuple[int, ...]]]


#: In place of a process in ``TableAccess.row_processes``: all have the row.
EVERY_PROCESS = 0xFFFFFFFF


class RowSource(Protocol):
    """Rows of one table, sorted by (slot, key), that can be read in parts.

    Attributes
    ----------
    name : str
        Of the table.
    parts : Parts
    rows : int
    placement : str or None
        Where rows are, as the core names it; None: not known.
    vector_type : str
        What files are to hold vectors in: ``"float32"`` or ``"bfloat16"``.
    linked : list of LinkedShard
        Rows besides, in segments that a checkpoint is to link.
    """

    name: str
    parts: Parts
    rows: int
    placement: str | None
    vector_type: str
    linked: Sequence[LinkedShard]

    def read(
        self, begin: int, end: int, into: Mapping[str, Array] | None = None
    ) -> Mapping[str, Array]:
        """Rows [begin, end): part -> array of end - begin rows.

        Parameters
        ----------
        begin, end : int
        into : dict of str to ndarray, optional
            Memory for so many rows or more that may be used, as of ``row_memory``.
        """


class HeldRows:
    """Rows that lie in memory.

    Parameters
    ----------
    name : str
    arrays : dict of str to ndarray
        Part -> its rows.
    placement : str, optional
    vector_type : str, optional
    linked : list of LinkedShard, optional
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, Array],
        placement: str | None = None,
        vector_type: str = "float32",
        linked: Sequence[LinkedShard] = (),
    ) -> None:
        self.name, self.placement, self.vector_type = name, placement, vector_type
        self.linked = linked
        self.arrays = arrays
        self.parts: Parts = {
            part: (str(values.dtype), values.shape[1:]) for part, values in arrays.items()
        }
        self.rows = len(arrays["key"])

    def read(
        self, begin: int, end: int, into: Mapping[str, Array] | None = None
    ) -> Mapping[str, Array]:
        """Views of rows [begin, end)."""
        return {part: values[begin:end] for part, values in self.arrays.items()}


class ModelRows:
    """Rows that stay in the model until they are read; not while it trains.

    Parameters
    ----------
    table : TableAccess
    since : int
        Only the rows touched since this mark; 0: all.
    beside : Path, optional
        The folder of a checkpoint that may link segments of the table's disks, where both are of
        one file system: their rows are then no part of the others.
    """

    def __init__(
        self, table: _core.TableAccess, since: int = 0, beside: Path | None = None
    ) -> None:
        self.name = table.name()
        self.parts: Parts = table.parts()
        self.placement: str | None = table.placement()
        self.vector_type = table.vector_type()
        self._table = table
        table.check_undamaged()  # a delta, or another file system, might not meet those rows
        self._order = table.order(since)
        self.linked: Sequence[LinkedShard] = ()
        if beside is not None:
            rest, found = table.stored(self._order)
            linked = [LinkedShard(table, rows, self.parts) for rows in found]
            if linked and all(one.is_beside(beside) for one in linked):
                self._order, self.linked = rest, linked
        self.rows = len(self._order)

    def read(
        self, begin: int, end: int, into: Mapping[str, Array] | None = None
    ) -> Mapping[str, Array]:
        """Copies of rows [begin, end)."""
        if into is None:
            into = row_memory(self.parts, end - begin)
        values = {part: array[: end - begin] for part, array in into.items()}
        self._table.read(self._order, begin, end, True, bag_of(values))
        return values


#: The parts that a score can be: its last use is a step, or a time of the data. A table has one,
#: and the other of a checkpoint says nothing to it.
SCORES = ("score", "timed_score")


def parts_of(bag: _core.BufferBag, parts: Parts) -> dict[str, Array]:
    """Rows as the core names them -> parts of a checkpoint; ``parts`` are the table's."""
    found: dict[str, Array] = {"key": bag["keys"]}
    if bag["slot_ids"] is not None:
        found["slot"] = bag["slot_ids"]
    found["vector"] = bag["vectors"]
    found |= {f"state{i}": state for i, state in enumerate(bag["states"])}
    if bag["last_step"] is not None:
        found["last_step"] = bag["last_step"]
    scores = bag.get("scores")
    if scores is not None:
        found["timed_score" if "timed_score" in parts else "score"] = scores
    return found


def bag_of(parts: Mapping[str, Array]) -> _core.BufferBag:
    """Parts of a checkpoint -> rows as the core names them."""
    return {
        "keys": parts["key"],
        "slot_ids": parts.get("slot"),
        "vectors": parts["vector"],
        "states": [values for part, values in parts.items() if part.startswith("state")],
        "last_step": parts.get("last_step"),
        "scores": next((parts[part] for part in SCORES if part in parts), None),
    }


def stored_parts(parts: Parts, vector_type: str) -> Parts:
    """Parts as files hold them.

    Parameters
    ----------
    parts : Parts
    vector_type : str
        As of a ``RowSource``.
    """
    return {
        part: (vector_type if part == "vector" else dtype, shape)
        for part, (dtype, shape) in parts.items()
    }


def row_memory(parts: Parts, rows: int) -> dict[str, Array]:
    """Arrays for so many rows, in memory that can be written to disks as it lies."""
    return {part: aligned_empty((rows, *shape), dtype) for part, (dtype, shape) in parts.items()}


def chunk_rows(parts: Parts, chunk: int) -> int:
    """Rows of a chunk of about ``chunk`` bytes. Where there are many, as many as make all parts
    begin on bounds of blocks: parts have at least 4 bytes a row (those in 16 bits may have 2, and
    then go through the page cache)."""
    rows = max(1, chunk // bytes_a_row(parts))
    even = ALIGNMENT // 4
    return rows - rows % even if rows >= even else rows


def bytes_a_row(parts: Parts) -> int:
    """Bytes of one row, all parts."""
    return sum(row_bytes(dtype, shape) for dtype, shape in parts.values())


def pack(values: Mapping[str, Array], chosen: Array | None = None) -> bytearray:
    """Rows as bytes: their number as int64, then part by part.

    Parameters
    ----------
    values : dict of str to ndarray
    chosen : ndarray of int64, optional
        Which rows, in which order; None: all.
    """
    count = len(values["key"]) if chosen is None else len(chosen)
    packed = bytearray(np.int64(count).tobytes())
    for array in values.values():
        picked = array if chosen is None else array[chosen]
        packed += memoryview(np.ascontiguousarray(picked).reshape(-1).view(np.uint8).data)
    return packed


def unpack(data: bytearray | memoryview, parts: Parts) -> dict[str, Array]:
    """What ``pack`` made of rows of these parts; views of the bytes."""
    count = int(np.frombuffer(data, np.int64, 1)[0])
    place, values = 8, {}
    for part, (dtype, shape) in parts.items():
        elements = count * int(np.prod(shape, dtype=np.int64))
        values[part] = np.frombuffer(data, dtype, elements, place).reshape((count, *shape))
        place += values[part].nbytes
    return values
