# SPDX-License-Identifier: Apache-2.0
"""Log lines of the Python side, in the form and at the levels of the core's own log."""

import os
import sys
import time

from hugectr import _core

DEBUG, INFO, WARNING, ERROR, SILENT = range(5)
_NAMES = ("DEBUG", "INFO", "WARNING", "ERROR", "SILENT")
_level: int | None = None
_rank = 0  # of this process in its job


def _level_from_environment() -> int:
    text = os.environ.get("HUGECTR_LOG_LEVEL", "").strip().upper()
    if text in _NAMES:
        return _NAMES.index(text)
    return int(text) if text.isdigit() else INFO


def level() -> int:
    """The lowest level that is written; ``HUGECTR_LOG_LEVEL`` sets the first value."""
    global _level
    if _level is None:
        _level = _level_from_environment()
    return _level


def set_level(value: int) -> None:
    """Set the lowest level that is written, here and in the core.

    Parameters
    ----------
    value : int
        0 debug, 1 info, 2 warnings, 3 errors, 4 nothing.
    """
    global _level
    _level = value
    _core.set_log_level(value)


def set_rank(rank: int) -> None:
    """Say which process of a job this is: progress is written by process 0 alone."""
    global _rank
    _rank = rank
    _core.set_log_rank(rank)


def _write(severity: int, message: str) -> None:
    if severity < level() or (_rank > 0 and severity == INFO):
        return
    stream = sys.stdout if severity < WARNING else sys.stderr
    stamp = time.strftime("%H:%M:%S")
    stream.write(f"[HCTR][{stamp}][{_NAMES[severity]}][RK{_rank}][main]: {message}\n")
    stream.flush()


def debug(message: str) -> None:
    """Write a line that only a closer look needs."""
    _write(DEBUG, message)


def info(message: str) -> None:
    """Write a line of progress."""
    _write(INFO, message)


def warning(message: str) -> None:
    """Write a line that the user should act on."""
    _write(WARNING, message)
