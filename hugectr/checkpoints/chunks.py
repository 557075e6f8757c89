# SPDX-License-Identifier: Apache-2.0
"""Files of a checkpoint: written in chunks by several threads, each chunk with its CRC-32.

A chunk's place is known before it is written, so that chunks of all files go to the same few
threads in any order; CRC, writing and syncing of one overlap with those of the others.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import DataError
from hugectr.base.regular_file import open_regular
from hugectr.base.threads import Workers
from hugectr.checkpoints.bfloat16 import stored
from hugectr.checkpoints.direct_file import DirectFile
from hugectr.checkpoints.finite import NonFinite, nonfinite

Array = npt.NDArray[Any]

CHUNK = 16 << 20  # bytes of a chunk: of all parts of its rows together
_THREADS = 4
_IN_FLIGHT = 8  # chunks of files that wait for a thread
_SYNCED = 256 << 20  # bytes of a file in the page cache after which the disk is told to begin


class ChunkFile:
    """A file being written; chunks in any order, from any thread.

    Parameters
    ----------
    path : Path
    chunk_bytes : int
        Of every chunk but the last.
    dtype : str, optional
        What the file holds where that is not the type of the values.
    """

    def __init__(self, path: Path, chunk_bytes: int, dtype: str = "") -> None:
        self.path, self.chunk_bytes, self._dtype = path, chunk_bytes, dtype
        self.bytes = 0
        self._cached = 0
        self._sums: dict[int, int] = {}
        self._nonfinite: list[NonFinite] = []
        self._lock = threading.Lock()
        self._file = DirectFile(path)

    def put(self, number: int, values: Array) -> None:
        """Write chunk ``number``."""
        values = np.ascontiguousarray(values)
        bad = nonfinite(values)
        values = stored(values, self._dtype)
        data = bytes_of(values)
        self._sums[number] = zlib.crc32(data)
        cached = self._file.write(data, number * self.chunk_bytes, values.ctypes.data)
        with self._lock:
            self.bytes += len(data)
            before = self._cached
            self._cached += cached
            begin = self._cached // _SYNCED > before // _SYNCED
            if bad is not None:
                before_it = number * self.chunk_bytes // values.itemsize
                self._nonfinite.append(NonFinite(bad.count, before_it + bad.first))
        # Else all of it is written when the file is closed, and nothing overlaps with that.
        if begin:
            self._file.begin_sync()

    @property
    def nonfinite(self) -> NonFinite | None:
        """What was infinite or no number among the values written."""
        if not self._nonfinite:
            return None
        first = min(bad.first for bad in self._nonfinite)
        return NonFinite(sum(bad.count for bad in self._nonfinite), first)

    def sync(self) -> None:
        """Wait for the disk; the path must then lead to the file, with all its bytes."""
        self._file.sync()
        self._file.check_in_place(self.bytes)

    def close(self) -> None:
        """Close; what was not synced may be lost."""
        self._file.close()

    def entry(self, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
        """What the manifest says about it."""
        return {
            "bytes": self.bytes,
            "chunk_bytes": self.chunk_bytes,
            "crc32": [self._sums[number] for number in sorted(self._sums)],
            "dtype": dtype,
            "shape": list(shape),
        }


class ChunkWriter:
    """Threads that write chunks of files. As a context, it waits for them and closes the files."""

    def __init__(self) -> None:
        self._pool = Workers(_THREADS, "checkpoint")
        self._pending: deque[Future[None]] = deque()
        self._files: list[ChunkFile] = []

    def open(self, path: Path, chunk_bytes: int, dtype: str = "") -> ChunkFile:
        """Begin a file."""
        self._files.append(ChunkFile(path, chunk_bytes, dtype))
        return self._files[-1]

    def put(self, file: ChunkFile, number: int, values: Array) -> Future[None]:
        """Have a chunk written; raises the error of an earlier one.

        Returns
        -------
        Future
            Until it is done, the values must stay as they are.
        """
        written = self._pool.submit(file.put, number, values)
        self._pending.append(written)
        while len(self._pending) > _IN_FLIGHT:
            self._pending.popleft().result()
        return written

    def finish(self) -> None:
        """Wait until all files are on the disk."""
        while self._pending:
            self._pending.popleft().result()
        for result in [self._pool.submit(file.sync) for file in self._files]:
            result.result()

    def __enter__(self) -> ChunkWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as files:  # all are closed, whatever one of them says
            for file in self._files:
                files.callback(file.close)
            self._pool.shutdown(wait=True, cancel_futures=True)


def write_file(path: Path, values: Array, writer: ChunkWriter) -> ChunkFile:
    """Have an array written as a file."""
    step = max(1, CHUNK // values.itemsize)
    file = writer.open(path, step * values.itemsize)
    flat = np.ascontiguousarray(values).reshape(-1)
    for number, begin in enumerate(range(0, flat.size, step)):
        writer.put(file, number, flat[begin : begin + step])
    return file


def bytes_of(values: Array) -> memoryview:
    """Memory of a contiguous array."""
    return memoryview(values.reshape(-1).view(np.uint8).data) if values.size else memoryview(b"")


# --- reading --------------------------------------------------------------------------------------


def chunk_sums(entry: dict[str, Any]) -> tuple[int, list[int]]:
    """Bytes of a chunk and the checksums; a file of format 1 is one chunk."""
    if isinstance(entry["crc32"], int):
        return max(1, entry["bytes"]), [entry["crc32"]] if entry["bytes"] else []
    return entry["chunk_bytes"], entry["crc32"]


def read_range(path: Path, begin: int, end: int) -> bytearray:
    """Bytes [begin, end) of a file.

    Raises
    ------
    DataError
        When the file is shorter, or can not be read.
    """
    data = bytearray(end - begin)
    view, place = memoryview(data), begin
    try:
        with open_regular(path) as file:
            file.seek(begin)
            while view:
                count = file.readinto(view)
                if not count:
                    raise DataError(
                        f"{path} ends at byte {place}, bytes up to {end} are expected: take "
                        "another checkpoint"
                    )
                view, place = view[count:], place + count
    except OSError as error:
        raise DataError(f"{path} can not be read ({error}): take another checkpoint") from error
    return data


def mapped_range(path: Path, begin: int, end: int) -> memoryview:
    """Bytes [begin, end) of a file, mapped into memory as long as somebody has them.

    The file must not be cut short meanwhile, as nothing does to a published checkpoint.

    Raises
    ------
    DataError
        When the file is shorter, or can not be read.
    """
    if begin == end:
        return memoryview(b"")
    first = begin - begin % mmap.ALLOCATIONGRANULARITY
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < end:
                raise DataError(
                    f"{path} ends at byte {size}, bytes up to {end} are expected: take another "
                    "checkpoint"
                )
            # Its pages all at once: the checksum looks at every one.
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
            length = end - first
            pages = mmap.mmap(file.fileno(), length, flags, mmap.PROT_READ, offset=first)
    except OSError as error:
        raise DataError(f"{path} can not be read ({error}): take another checkpoint") from error
    return memoryview(pages)[begin - first :]


def check_sum(path: Path, begin: int, data: bytearray | memoryview, wanted: int) -> None:
    """Compare the checksum of a chunk.

    Raises
    ------
    DataError
        Naming the file and the bytes.
    """
    found = zlib.crc32(data)
    if found != wanted:
        raise DataError(
            f"{path} is damaged in bytes {begin} to {begin + len(data)}: their checksum is "
            f"{found:08x}, the manifest says {wanted:08x}; take another checkpoint"
        )


def checked_chunks(path: Path, entry: dict[str, Any]) -> Iterator[bytearray]:
    """Content of a file, checked, a bounded piece at a time.

    A file of format 1 has one checksum: it is known to be wrong only at the end.
    """
    step, sums = chunk_sums(entry)
    if len(sums) != -(-entry["bytes"] // step):
        raise DataError(f"{path}: the manifest has {len(sums)} checksums: take another checkpoint")
    for number, wanted in enumerate(sums):
        begin, end = number * step, min((number + 1) * step, entry["bytes"])
        if end - begin <= 4 * CHUNK:
            data = read_range(path, begin, end)
            check_sum(path, begin, data, wanted)
            yield data
            continue
        found = 0
        for first in range(begin, end, CHUNK):
            data = read_range(path, first, min(first + CHUNK, end))
            found = zlib.crc32(data, found)
            yield data
        if found != wanted:
            raise DataError(
                f"{path} is damaged: its checksum is {found:08x}, the manifest says {wanted:08x}; "
                "take another checkpoint"
            )


def read_array(path: Path, entry: dict[str, Any]) -> Array:
    """A whole file, checked, as an array."""
    data = bytearray()
    for chunk in checked_chunks(path, entry):
        data += chunk
    return np.frombuffer(data, entry["dtype"]).reshape(entry["shape"])
