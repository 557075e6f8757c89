# SPDX-License-Identifier: Apache-2.0
"""The files that a conversion reads, as they were when it began."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import BinaryIO

from hugectr.base.errors import DataError
from hugectr.data.regular_file import open_regular

#: Of the begin and of the end of a file, for its checksum.
_END_BYTES = 64 << 10


def _status(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    # What is open in place of an empty file has a time of its own.
    return status.st_size, status.st_mtime_ns if status.st_size else 0


@dataclass(frozen=True)
class InputFile:
    """A file, and by what one sees that it has changed.

    Attributes
    ----------
    path : str
    size, mtime_ns : int
    crc32 : int
        Of its begin and its end.
    """

    path: str
    size: int
    mtime_ns: int
    crc32: int

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> InputFile:
        """The file as it is now.

        Raises
        ------
        DataError
            When it can not be read.
        """
        with open_regular(path) as file:
            size, mtime_ns = _status(file)
            crc32 = zlib.crc32(file.read(_END_BYTES))
            file.seek(max(0, size - _END_BYTES))
            crc32 = zlib.crc32(file.read(_END_BYTES), crc32)
        return cls(os.fspath(path), size, mtime_ns, crc32)

    def identity(self) -> list[int | str]:
        """What is kept of it, wherever it is called from."""
        return [os.path.abspath(self.path), self.size, self.mtime_ns, self.crc32]

    def check(self, file: BinaryIO) -> None:
        """Complain when the file, open for reading, is no longer what it was.

        Raises
        ------
        DataError
        """
        size, mtime_ns = _status(file)
        if (size, mtime_ns) != (self.size, self.mtime_ns):
            now = f"it had {self.size} bytes, and has {size}" if size != self.size else "its time"
            raise DataError(
                f"{self.path} has changed since the conversion began ({now}): convert again, and "
                "it is counted anew"
            )
