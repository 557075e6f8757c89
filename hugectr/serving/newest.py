# SPDX-License-Identifier: Apache-2.0
"""Reading the newest checkpoint of a folder that somebody saves to meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints.manifest import MANIFEST, latest

_Found = TypeVar("_Found")
#: Checkpoints that may go while they are read, one after the other, until that is an error.
TRIES = 10


def _there_now(path: Path) -> tuple[Path, int, int] | None:
    """The checkpoint that a path names, and which file its manifest is; None: there is none."""
    found = path if (path / MANIFEST).is_file() else latest(path)
    try:
        return None if found is None else _identity(found)
    except OSError:
        return None


def _identity(place: Path) -> tuple[Path, int, int]:
    state = (place / MANIFEST).stat()
    return place, state.st_ino, state.st_mtime_ns


def of_newest(path: Path, read: Callable[[], _Found]) -> _Found:
    """What ``read`` makes of the checkpoint at ``path``, or of the newest in it.

    A job that saves with ``keep_last`` removes checkpoints while others read them, and one that
    saves a step again puts another in its place. Whoever asked for the newest then gets the one
    that is the newest now. What fails while nothing changes is damage.

    Parameters
    ----------
    path : Path
    read : callable
        Called again, with nothing of before, where another checkpoint is there after it failed.

    Raises
    ------
    DataError, InvalidArgument
        What ``read`` raises; or that each of ``TRIES`` checkpoints went before it was read.
    """
    for left in reversed(range(TRIES)):
        before = _there_now(path)
        try:
            return read()
        except (DataError, InvalidArgument) as error:
            if _there_now(path) == before:
                raise
            if left == 0:
                raise DataError(
                    f"{path}: {TRIES} checkpoints went, each while it was read: keep more of them "
                    f"(save: keep_last), or save less often. The last said: {error}"
                ) from error
    raise AssertionError("the last try returns or raises")
