# SPDX-License-Identifier: Apache-2.0
"""Files from outside, opened so that nothing but a regular file is ever read."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path


def open_regular(path: Path) -> io.FileIO:
    """Open a file for reading. A pipe is not waited for, a device not read.

    Raises
    ------
    OSError
        When it can not be opened, or is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return io.FileIO(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


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
            raise OSError(errno.EFBIG, f"it has {size} bytes, {most} are allowed", str(path))
        content = bytearray()
        while piece := file.read(min(1 << 20, most + 1 - len(content))):
            content += piece
            if len(content) > most:
                raise OSError(errno.EFBIG, f"it grew beyond {most} bytes", str(path))
        return bytes(content)
