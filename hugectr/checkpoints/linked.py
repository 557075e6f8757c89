# SPDX-License-Identifier: Apache-2.0
"""Rows in segments of a disk tier: linked into a checkpoint, and read out of it.

A table over a disk has most of its rows in sealed segments there, which never change. A checkpoint
on the same file system gets those by their names (hard links, plain files like all others) and
writes what says whose rows are in them: keys, slots, scores and places, in the order of places, so
that who reads them all reads along the segments.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hugectr import _core
from hugectr.checkpoints.bfloat16 import from_bytes
from hugectr.checkpoints.chunks import CHUNK, Array, ChunkFile, ChunkWriter
from hugectr.checkpoints.manifest import row_bytes
from hugectr.checkpoints.reread import is_known
from hugectr.checkpoints.shard_names import (
    PLACE,
    index_parts,
    linked_file,
    record_parts,
    segment_file,
)

if TYPE_CHECKING:
    from hugectr.checkpoints.rows import Parts

#: Errors that mean: there is no link from there to here.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
#: An open file with what the manifest says of it besides.
Written = dict[str, tuple[ChunkFile, str, tuple[int, ...]]]


class LinkedShard:
    """Rows of one device that lie in sealed segments of its disk, which stay there meanwhile.

    Parameters
    ----------
    table : TableAccess
    rows : LinkedRows
    parts : Parts
        Of the table's rows.
    """

    def __init__(self, table: _core.TableAccess, rows: _core.LinkedRows, parts: Parts) -> None:
        order = rows.order()
        self.rows = len(order)
        self.segments = rows.segments()
        self._held = rows
        self.index: dict[str, Array] = {}
        for part in index_parts(list(parts)):
            if part == "key":
                self.index[part] = order.keys(0, self.rows)
            elif part == "slot":
                self.index[part] = order.slot_ids(0, self.rows)
            else:
                self.index[part] = rows.places() if part == PLACE else table.scores(order)

    def is_beside(self, folder: Path) -> bool:
        """Whether its segments are there, on the file system that a folder is, or will be, on."""
        while not folder.exists():
            folder = folder.parent
        try:
            found = {os.stat(path).st_dev for path, _, _, _ in self.segments}
        except OSError:  # somebody took the names away; rows are read as ever
            return False
        return found == {folder.stat().st_dev}

    def write(
        self, work: Path, where: tuple[int, int, int, int], step: int, writer: ChunkWriter
    ) -> Written:
        """Have its files written, chunks of ``step`` rows; ``where``: as of ``linked_file``."""
        files: Written = {}
        for part, values in self.index.items():
            name = linked_file(part, *where)
            file = writer.open(work / name, step * values.itemsize)
            files[name] = file, str(values.dtype), values.shape
            for number, begin in enumerate(range(0, self.rows, step)):
                writer.put(file, number, values[begin : begin + step])
        return files

    def share(
        self,
        work: Path,
        where: tuple[int, int, int, int],
        writer: ChunkWriter,
        known: Collection[int] | None,
    ) -> dict[str, dict[str, Any]]:
        """Read the segments and link them; what the manifest says of them, by name.

        Parameters
        ----------
        work, where, writer
            As of ``write``.
        known : collection of int, optional
            Inodes of those that are not read again where a checkpoint had linked them before, and
            read them then; None: of all.

        Raises
        ------
        DataError
            When a segment is damaged; names it.
        OSError
            As of any file that is written.
        """
        mode = (work / linked_file("key", *where)).stat().st_mode & 0o777
        entries = {}
        for number, (path, size, _, sums) in enumerate(self.segments):
            name = segment_file(number, *where)
            self._held.sync(number)
            self._held.verify(number, not is_known(path, known))
            try:
                os.link(path, work / name, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                _copy(Path(path), work / name, writer)
            else:
                with contextlib.suppress(OSError):  # those of the disk are their owner's alone
                    os.chmod(work / name, mode)
            entries[name] = {
                "bytes": size,
                "chunk_bytes": CHUNK,
                "crc32": sums,
                "dtype": "uint8",
                "shape": [size],
            }
        return entries

    def described(self) -> dict[str, Any]:
        """What the manifest says of its shard."""
        return {"rows": self.rows, "heads": [head for _, _, head, _ in self.segments]}


def _copy(path: Path, target: Path, writer: ChunkWriter) -> None:
    file = writer.open(target, CHUNK)
    with path.open("rb") as source:
        for number in range(-(-path.stat().st_size // CHUNK)):
            writer.put(file, number, np.frombuffer(source.read(CHUNK), np.uint8))


class LinkedShardReader:
    """Records of one linked shard of a checkpoint, by place.

    Parameters
    ----------
    path : Path
        Of the checkpoint.
    files : dict
        Of the manifest.
    table : dict
        Of the manifest.
    where : tuple of int
        As of ``linked_file``.

    Raises
    ------
    DataError
        When a segment is not what the manifest says; names it.
    """

    def __init__(
        self,
        path: Path,
        files: Mapping[str, Any],
        table: Mapping[str, Any],
        where: tuple[int, int, int, int],
    ) -> None:
        _, shard, _, number = where
        first = table["shards"][0]["files"]
        self._layout: list[tuple[str, str, tuple[int, ...]]] = [
            (part, files[first[part]]["dtype"], tuple(files[first[part]]["shape"][1:]))
            for part in record_parts(table["parts"])
        ]
        heads = table["shards"][shard]["linked"][number]["heads"]
        names = [segment_file(segment, *where) for segment in range(len(heads))]
        self._segments = _core.LinkedSegments(
            sum(row_bytes(dtype, shape) for _, dtype, shape in self._layout),
            [
                (str(path / name), files[name]["bytes"], head)
                for name, head in zip(names, heads, strict=True)
            ],
        )

    def read(self, places: Array, only: Parts) -> dict[str, Array]:
        """The rows at these places: those of ``only`` that segments have."""
        records, begin, values = self._segments.read(places), 0, {}
        for part, dtype, shape in self._layout:
            end = begin + row_bytes(dtype, shape)
            if part in only:
                data = np.ascontiguousarray(records[:, begin:end]).reshape(-1).data
                values[part] = from_bytes(data, dtype).reshape((len(places), *shape))
            begin = end
        return values


def in_key_order(index: Mapping[str, Array], step: int) -> Iterator[Array]:
    """Rows of an index, as numbers, by (slot, key), ``step`` at a time."""
    names = (index["key"], index["slot"]) if "slot" in index else (index["key"],)
    order = np.lexsort(names)
    for begin in range(0, len(order), step):
        yield order[begin : begin + step]
