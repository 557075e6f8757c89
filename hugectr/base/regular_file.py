# SPDX-License-Identifier: Apache-2.0
"""Files from outside, opened so that nothing but a regular file is ever read.

A pipe, a socket, a device or a folder is refused before it is opened: opening some of them waits,
or does something. ``hugectr.data.regular_file`` has the same with the errors of bad data.
"""

from __future__ import annotations

import errno
import io
import os
import stat

Path = str | os.PathLike[str]

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegularError(OSError):
    """What the path leads to is something else than a regular file; ``strerror`` says what."""


def _refuse(path: Path, status: os.stat_result) -> None:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        what = f"is {_KINDS.get(kind, 'something else')}, not a regular file"
        raise NotRegularError(errno.EINVAL, what, os.fspath(path))


def regular_size(path: Path) -> int:
    """Bytes of a regular file; OSError when there is none of that name."""
    status = os.stat(path)
    _refuse(path, status)
    return status.st_size


def open_regular(path: Path) -> io.FileIO:
    """Open a file for reading.

    Raises
    ------
    OSError
        When it can not be opened, or is no regular file.
    """
    regular_size(path)
    # By an opener, so that the handle has one owner whenever an interrupt comes.
    return io.FileIO(path, "rb", opener=_open)


def _open(path: Path, _: int) -> int:
    # O_NONBLOCK: it may have become a pipe since.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        _refuse(path, status)
        if status.st_size == 0:  # some of the kernel's have bytes all the same, or wait for them
            empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            os.dup2(empty, handle, inheritable=False)
            os.close(empty)
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_bounded(path: Path, most: int) -> bytes:
    """The whole content of a file of at most so many bytes.

    Raises
    ------
    OSError
        When it can not be read, is no regular file, or is longer.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            text = f"it has {size} bytes, {most} are allowed"
            raise OSError(errno.EFBIG, text, os.fspath(path))
        content = bytearray()
        while piece := file.read(min(1 << 20, most + 1 - len(content))):
            content += piece
            if len(content) > most:
                raise OSError(errno.EFBIG, f"it grew beyond {most} bytes", os.fspath(path))
        return bytes(content)
