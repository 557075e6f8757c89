# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are written beside, and then take the place of what they may replace."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.base.exchange import exchange

#: What looking into somebody's file may end in.
_NONE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
_WAY_OUT = "give another path, or remove it"
#: Times that a folder is read which is replaced while it is.
TRIES = 10

T = TypeVar("T")


def refuse_other_file(where: str, path: Path, what: str, is_one: Callable[[Path], bool]) -> None:
    """Whether a file may be written there: nothing is, or an empty file, or what is replaced.

    Parameters
    ----------
    where : str
        The call, for complaints.
    path : Path
    what : str
        What is replaced, in words.
    is_one : callable
        Whether a file that is there is one; errors of files and of what is in them: none.

    Raises
    ------
    InvalidArgument
        When something else is there: data of somebody's.
    """
    if not path.exists():
        return
    if not path.is_file():
        raise InvalidArgument(f"{where}: {path} is there and no file; {_WAY_OUT}")
    try:
        good = path.stat().st_size == 0 or is_one(path)
    except _NONE:
        good = False
    if not good:
        raise InvalidArgument(f"{where}: {path} is there and no {what}; {_WAY_OUT}")


def refuse_other_folder(
    where: str, folder: Path, what: str, names_of: Callable[[Path], set[str]]
) -> None:
    """Whether a folder may be written there: nothing is, or an empty folder, or what is replaced.

    Parameters
    ----------
    where, what
        As of ``refuse_other_file``.
    folder : Path
    names_of : callable
        The names in a folder that is replaced, of which some may be missing; errors of files and
        values mean that it is none.

    Raises
    ------
    InvalidArgument
        When something else is there, or something else beside it: it would go too.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InvalidArgument(f"{where}: {folder} is there and no folder; {_WAY_OUT}")
    there = sorted(os.listdir(folder))
    try:
        own = names_of(folder) if there else set()
    except _NONE:
        own = set()
    others = [name for name in there if name not in own and name != "__pycache__"]
    if others and own:
        raise InvalidArgument(
            f"{where}: {folder} has more in it than {what}: {others[0]!r}, which would be lost; "
            f"{_WAY_OUT}"
        )
    if others:
        raise InvalidArgument(f"{where}: {folder} is there and no {what}; {_WAY_OUT}")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Where to write a folder that is to be there whole, or as it was before."""
    folder = Path(os.path.realpath(folder))  # of a link what it leads to; "." has no name
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}")
    beside.mkdir()  # as the user's mask has it
    try:
        yield beside
        replace_folder(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def replace_folder(new: Path, folder: Path) -> None:
    """Let a folder beside another take its name; what had it has the name of the new one then.

    At no moment is nothing there, where the system can exchange names; else only for two renames.
    """
    try:
        if not folder.exists():
            new.rename(folder)
            return
    except OSError as error:  # somebody else was first, as in a job of which all processes write
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    handle = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if exchange(handle, new.name, folder.name):
            return
    finally:
        os.close(handle)
    old = new.with_name(f"{new.name}.old")
    folder.rename(old)
    new.rename(folder)
    old.rename(new)


def read_settled(folder: Path, file: str, read: Callable[[], T]) -> T:
    """What is read of a folder that another process may replace meanwhile: all of it of one.

    Parts of the old and of the new one would go together without a word, or be said to be damaged.

    Parameters
    ----------
    folder : Path
        What ``replace_folder`` replaces.
    file : str
        One that every such folder has, by which they are told apart.
    read : callable

    Raises
    ------
    DataError
        When it is replaced again and again.
    Exception
        What ``read`` raises of a folder that stays.
    """
    for _ in range(TRIES):
        before = _which(folder, file)
        try:
            found = read()
        except (DataError, InvalidArgument, OSError):
            if _which(folder, file) == before:
                raise
        else:
            if _which(folder, file) == before:
                return found
    raise DataError(f"{folder} was replaced {TRIES} times while it was read; read a copy of it")


def _which(folder: Path, file: str) -> tuple[int, ...]:
    """What tells a folder from one that was there before; nothing where there is none."""
    try:
        of_folder, of_file = folder.stat(), (folder / file).stat()
    except OSError:
        return ()
    return (of_folder.st_dev, of_folder.st_ino, of_file.st_ino, of_file.st_mtime_ns)
