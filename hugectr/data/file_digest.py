# SPDX-License-Identifier: Apache-2.0
"""What tells the files of one source from those of another, without reading them whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, cast

from hugectr.base.errors import DataError
from hugectr.data.patterns import raw_paths
from hugectr.data.regular_file import open_regular, read_file_list

if TYPE_CHECKING:
    import pyarrow.fs as pafs

#: Bytes at the begin of a file, and at its end, that are looked at. A Parquet file ends with the
#: counts, sizes and extremes of all its columns.
_END = 64 << 10


def digest_of_files(form: str, source: str) -> tuple[int, str]:
    """The files of a source and a digest of them, in their order.

    Of each file its size, its begin and its end. Paths do not count.

    Parameters
    ----------
    form : str
        ``"Norm"``, ``"Raw"`` or ``"Parquet"``.
    source : str
        As the reader takes it.

    Returns
    -------
    tuple of (int, str)
        Number of files, digest.

    Raises
    ------
    DataError
        When there is none, or one can not be read; names it.
    """
    found = hashlib.sha256()
    count = 0
    for size, begin, end in _ends_of(form, source):
        found.update(f"{size} {len(begin)} ".encode() + begin + end)
        count += 1
    return count, found.hexdigest()


def _ends_of(form: str, source: str) -> Iterator[tuple[int, bytes, bytes]]:
    if form == "Parquet":
        from hugectr.data.parquet_files import parquet_files  # pyarrow is needed for Parquet only

        filesystem, paths, _ = parquet_files(source)
        for path in paths:
            yield _ends_there(filesystem, path)
        return
    for path in raw_paths(source) if form == "Raw" else read_file_list(source):
        yield _ends_here(path)


def _ends_here(path: str) -> tuple[int, bytes, bytes]:
    with open_regular(path) as file:
        return _ends(path, file)


def _ends_there(filesystem: pafs.FileSystem, path: str) -> tuple[int, bytes, bytes]:
    try:
        with filesystem.open_input_file(path) as file:
            return _ends(path, cast("BinaryIO", file))
    except (OSError, ValueError) as error:
        raise DataError(f"{path!r} can not be opened: {error}") from error


def _ends(path: str, file: BinaryIO) -> tuple[int, bytes, bytes]:
    try:
        size = file.seek(0, 2)
        file.seek(0)
        begin = file.read(_END)
        file.seek(max(0, size - _END))
        return size, begin, file.read(_END)
    except OSError as error:
        raise DataError(f"{path!r} can not be read: {error}") from error
