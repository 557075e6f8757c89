# SPDX-License-Identifier: Apache-2.0
"""Reading a folder that somebody may replace by another one meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hugectr.base.errors import DataError, InvalidArgument

_Found = TypeVar("_Found")
#: Folders that may come in the place of the one that is read, until that is an error.
TRIES = 10


def _identity(folder: Path) -> tuple[object, ...] | None:
    """Which folder a path leads to, and what was done in it last; None: to none that is read."""
    try:
        found = os.stat(folder)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def of_one_folder(folder: Path, read: Callable[[], _Found]) -> _Found:
    """What ``read`` makes of a folder, all of whose files are of one and the same.

    Parameters
    ----------
    folder : Path
        Written beside, and then exchanged (``base.replaced``).
    read : callable
        Called again, with nothing of before, where another folder is there after it.

    Raises
    ------
    DataError, InvalidArgument, OSError
        What ``read`` raises while nothing changes; or that each of ``TRIES`` was replaced.
    """
    last: BaseException | None = None
    for _ in range(TRIES):
        before = _identity(folder)
        try:
            found = read()
        except (DataError, InvalidArgument, OSError) as error:
            if before == _identity(folder):
                raise
            last = error
        else:
            if before == _identity(folder):
                return found
    raise DataError(
        f"{folder} was replaced {TRIES} times, each time while it was read: save less often"
    ) from last
