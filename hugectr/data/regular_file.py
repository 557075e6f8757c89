# SPDX-License-Identifier: Apache-2.0
"""The one way in which Python opens files from outside: nothing without an end, nothing that waits.

A pipe, a socket, a device or a folder is refused before it is opened, and who reads a file reads no
more than the size it had then: ``/dev/zero`` has no end, a pipe nobody to write into it, and
``/proc/kmsg`` is a regular file of no bytes that waits for the next message.
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO

from hugectr.base import regular_file
from hugectr.base.errors import DataError
from hugectr.base.regular_file import NotRegularError, Path

#: Largest text that is read in one piece: a configuration, a list of files.
MOST_TEXT_BYTES = 64 << 20


def _unopened(path: Path, error: Exception) -> DataError:
    if isinstance(error, NotRegularError):
        return DataError(f"{os.fspath(path)!r} {error.strerror}")
    reason = getattr(error, "strerror", None) or str(error)
    return DataError(f"{os.fspath(path)!r} can not be opened: {reason}")


def regular_file_size(path: Path) -> int:
    """Bytes of a regular file.

    Raises
    ------
    DataError
        When there is none of that name, or it is something else than a regular file.
    """
    try:
        return regular_file.regular_size(path)
    except (OSError, ValueError) as error:
        raise _unopened(path, error) from None


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises
    ------
    DataError
        As ``regular_file_size``, or when it may not be read.
    """
    try:
        return io.BufferedReader(regular_file.open_regular(path))
    except (OSError, ValueError) as error:
        raise _unopened(path, error) from None


def read_text(path: Path) -> str:
    """Read a text file in one piece, without the mark that editors of Windows put before it.

    Raises
    ------
    DataError
        As ``open_regular``, or when it is larger than a text is or no UTF-8; names the byte.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_TEXT_BYTES:
            raise DataError(
                f"{os.fspath(path)!r} has {size} bytes; a text that is read here has at most "
                f"{MOST_TEXT_BYTES}"
            )
        try:
            return file.read(size).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{os.fspath(path)!r}: byte {error.start} is no UTF-8 text") from None
        except OSError as error:
            raise DataError(f"{os.fspath(path)!r} can not be read: {error.strerror}") from None


def _table_in_text(line: str) -> str:
    """A hint, when a line looks like one of a CSV file."""
    if "," not in line and "\t" not in line:
        return ""
    return (
        "; this looks like a table in text (CSV): read it, with pyarrow.csv.read_csv or "
        "pandas.read_csv, and give DataReaderParams what hugectr.data.from_arrow or from_frame "
        "makes of it"
    )


def read_file_list(path: Path) -> list[str]:
    """Read a text file that lists data files: their number, then one path a line.

    Raises
    ------
    DataError
        When it is no such list.
    """
    text = read_text(path)
    if not text:
        raise DataError(f"file list {os.fspath(path)!r} is empty")
    first, *lines = text.split("\n")
    paths = [line.strip() for line in lines if line.strip()]
    number = first.strip()
    # isdigit() is true of more than int() takes, and int() takes no number of thousands of digits.
    count = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0
    if count < 1 or len(paths) < count or "\0" in text:
        raise DataError(
            f"file list {os.fspath(path)!r}: line 1 must be the number of files, then one path a "
            f"line; found {number[:40]!r} and {len(paths)} paths{_table_in_text(number)}"
        )
    return paths[:count]
