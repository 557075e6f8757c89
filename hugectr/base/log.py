# SPDX-License-Identifier: Apache-2.0
"""Log lines of the Python side: the logger ``hugectr``, and the form of the core's own log.

Its one handler writes v3's lines. A program that logs in a way of its own takes it off::

    logger = logging.getLogger("hugectr")
    logger.handlers.clear()
    logger.propagate = True
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hugectr import _core

DEBUG, INFO, WARNING, ERROR, SILENT = range(5)
_NAMES = ("DEBUG", "INFO", "WARNING", "ERROR", "SILENT")
#: The same as ``logging`` counts; nothing is above CRITICAL.
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL + 1)
_rank = 0  # of this process in its job

logger = logging.getLogger("hugectr")


class LineHandler(logging.Handler):
    """Writes v3's lines: progress to standard output, from process 0 alone, the rest to errors."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        if _rank > 0 and logging.INFO <= record.levelno < logging.WARNING:
            return
        stream = sys.stdout if record.levelno < logging.WARNING else sys.stderr
        stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        head = f"[HCTR][{stamp}][{record.levelname}][RK{_rank}][main]: "
        try:
            stream.write(f"{head}{record.getMessage()}\n")
            stream.flush()
        except (OSError, RecursionError):  # `head` has seen enough: the program says so
            raise
        except Exception:
            self.handleError(record)


def _level_from_environment() -> int:
    text = os.environ.get("HUGECTR_LOG_LEVEL", "").strip().upper()
    if text in _NAMES:
        return _NAMES.index(text)
    return min(int(text), SILENT) if text.isdigit() else INFO


def level() -> int:
    """The lowest level that is written; ``HUGECTR_LOG_LEVEL`` sets the first value."""
    effective = logger.getEffectiveLevel()
    return next((i for i, value in enumerate(_LEVELS) if effective <= value), SILENT)


def set_level(value: int) -> None:
    """Set the lowest level that is written, here and in the core.

    Parameters
    ----------
    value : int
        0 debug, 1 info, 2 warnings, 3 errors, 4 nothing.
    """
    logger.setLevel(_LEVELS[min(value, SILENT)])
    _core.set_log_level(value)


_quiet_lock = threading.Lock()
_quiet_parts = 0  # of the program, in any thread, that want warnings only
_level_before = INFO  # what the last of them sets back


@contextmanager
def only_warnings() -> Iterator[None]:
    """Nothing below a warning is written meanwhile; where less is, it stays so.

    Threads share the level: where several are in here it is set back when the last one leaves.
    """
    global _quiet_parts, _level_before
    with _quiet_lock:
        if not _quiet_parts:
            _level_before = level()
            set_level(max(_level_before, WARNING))
        _quiet_parts += 1
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet_parts -= 1
            if not _quiet_parts:
                set_level(_level_before)


def set_rank(rank: int) -> None:
    """Say which process of a job this is: progress is written by process 0 alone."""
    global _rank
    _rank = rank
    _core.set_log_rank(rank)


def debug(message: str) -> None:
    """Write a line that only a closer look needs."""
    logger.debug("%s", message)


def info(message: str) -> None:
    """Write a line of progress."""
    logger.info("%s", message)


def warning(message: str) -> None:
    """Write a line that the user should act on."""
    logger.warning("%s", message)


if not logger.handlers:  # a program that has set the logger up already knows what it wants
    logger.addHandler(LineHandler())
    logger.propagate = False
if logger.level == logging.NOTSET:
    logger.setLevel(_LEVELS[_level_from_environment()])
