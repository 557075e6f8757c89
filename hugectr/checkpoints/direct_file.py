# SPDX-License-Identifier: Apache-2.0
"""Writing files past the page cache, where the file system lets one.

What a checkpoint writes is not read again soon. Through the page cache every byte is copied once
more, by the processor that trains; and the pages take the place of data that training reads. So
blocks go to the disk from where they lie (O_DIRECT), if they lie on bounds of blocks.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: Bytes: what memory, place and length of a direct write are multiples of, on any usual disk.
ALIGNMENT = 4096


def aligned_empty(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array without values, in pages of its own.

    It begins at a multiple of ``ALIGNMENT``; and giving back the gigabytes of a background save
    does not hold Python's lock, as freeing an array of NumPy's does, while training goes on.
    """
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if size == 0:
        return np.empty(shape, dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # advice only: not every kernel has large pages
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)


class DirectFile:
    """A new file, written in pieces, from any thread.

    Parameters
    ----------
    path : Path
        A file that is there is replaced.

    Raises
    ------
    OSError
        With the path, from every call: disk full, no right to write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT
        self._handle = os.open(path, flags | os.O_TRUNC, 0o666)
        self._direct: int | None = None
        with contextlib.suppress(OSError):  # not every file system has it
            self._direct = os.open(path, flags | getattr(os, "O_DIRECT", 0))

    def write(self, data: memoryview, place: int, address: int) -> int:
        """Write bytes behind ``place``.

        Parameters
        ----------
        data : memoryview
            Of bytes.
        place : int
            In the file.
        address : int
            Of the data in memory.

        Returns
        -------
        int
            Bytes that went through the page cache: they are on the disk after ``sync`` only, while
            the others are there but for the length of the file.
        """
        direct = 0
        if self._direct is not None and place % ALIGNMENT == 0 and address % ALIGNMENT == 0:
            whole = len(data) - len(data) % ALIGNMENT
            try:
                direct = self._write(self._direct, data[:whole], place)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                # Blocks of this disk are larger, or it takes O_DIRECT for the name only: as others.
        rest = data[direct:]
        self._write(self._handle, rest, place + direct)
        return len(rest)

    def _write(self, handle: int, data: memoryview, place: int) -> int:
        done = 0
        while done < len(data):
            try:
                written = os.pwrite(handle, data[done:], place + done)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            if written == 0:
                raise OSError(errno.EIO, "the file takes no more bytes", str(self.path))
            done += written
        return done

    def begin_sync(self) -> None:
        """Wait until the disk has the data written so far."""
        self._wait(os.fdatasync)

    def sync(self) -> None:
        """Wait until the disk has the file."""
        self._wait(os.fsync)

    def _wait(self, call: Callable[[int], None]) -> None:
        try:
            call(self._handle)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def check_in_place(self, size: int) -> None:
        """Whether the path still leads to this file, and it has so many bytes.

        Raises
        ------
        OSError
            When somebody removed, replaced or cut it.
        """
        own = os.fstat(self._handle)
        try:
            is_same = os.path.samestat(own, os.stat(self.path, follow_symlinks=False))
        except FileNotFoundError:
            is_same = False
        if not is_same or own.st_size != size:
            text = "it was removed or changed while it was written"
            raise OSError(errno.ESTALE, text, str(self.path))

    def close(self) -> None:
        """Close; what was not synced may be lost."""
        handles, self._handle, self._direct = (self._handle, self._direct), -1, None
        for handle in handles:
            if handle is not None and handle >= 0:
                os.close(handle)
