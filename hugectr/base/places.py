# SPDX-License-Identifier: Apache-2.0
"""Where files and folders are to be written: what is wrong with the path is said of the argument.

What the system does not let us (a disk that is full, no right to write) stays an OSError.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from hugectr.base.arguments import check_path
from hugectr.base.errors import InvalidArgument

#: What another path mends.
_OF_THE_PATH = frozenset(
    (errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOENT)
)


def file_place(where: str, path: str | os.PathLike[str]) -> Path:
    """Where a file is to be written; its folder is made.

    Parameters
    ----------
    where : str
        The argument, for complaints.
    path : path

    Raises
    ------
    InvalidArgument
        When a folder is there, or no file can be, as on the way there is one.
    OSError
        When the system does not let us.
    """
    place = whole_place(where, path)
    if place.is_dir():
        raise InvalidArgument(f"{where}: {os.fspath(path)!r} is a folder; give the path of a file")
    return place


def whole_place(where: str, path: str | os.PathLike[str]) -> Path:
    """Where a file or folder is to be put whole, in the place of what is there, if anything is.

    Parameters
    ----------
    where : str
        The argument, for complaints.
    path : path

    Raises
    ------
    InvalidArgument, OSError
        As of ``file_place``, but for a folder that is there.
    """
    place = Path(check_path(where, path))
    _make(where, path, place.absolute().parent)
    try:
        place.exists()  # whether it can be a name
    except OSError as error:
        raise _wrong(where, path, error) from error
    return place


def folder_place(where: str, path: str | os.PathLike[str]) -> Path:
    """A folder to write into, which is made.

    Parameters
    ----------
    where : str
        The argument, for complaints.
    path : path

    Raises
    ------
    InvalidArgument, OSError
        As of ``file_place``.
    """
    place = Path(check_path(where, path))
    _make(where, path, place)
    return place


@contextlib.contextmanager
def errors_of(path: str | os.PathLike[str]) -> Iterator[None]:
    """What goes wrong while a file is written, a disk that is full above all, names the file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        why = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, why, os.fspath(path)) from error


def _make(where: str, path: str | os.PathLike[str], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise InvalidArgument(
            f"{where}: {os.fspath(path)!r} can not be written: {error.filename!r} is there and no "
            "folder; give another path, or remove it"
        ) from error
    except OSError as error:
        raise _wrong(where, path, error) from error


def _wrong(where: str, path: str | os.PathLike[str], error: OSError) -> Exception:
    """The error of the argument, where it is one."""
    if error.errno not in _OF_THE_PATH:
        return error
    return InvalidArgument(
        f"{where}: {os.fspath(path)!r} can not be written: {error.strerror}; give another path"
    )
