# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while the ``hugectr`` command is being loaded ends it as quietly as later.

Nothing of the package is imported here: most of what is loaded comes behind it.
"""

import itertools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: Exit status of what was interrupted.
STATUS = 130
MESSAGE = "hugectr: interrupted"


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"{MESSAGE}\n".encode())
    os._exit(STATUS)


def _is_command() -> bool:
    """Whether this process is the command, not a program that imports the package."""
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":
        words = sys.orig_argv
        return any(pair == ("-m", "hugectr") for pair in itertools.pairwise(words))
    return os.path.basename(program) in ("hugectr", "huge_ctr")


def _exit(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
    raise SystemExit(128 + number)


@contextmanager
def terminated_in_order() -> Iterator[None]:
    """SIGTERM (a scheduler's, ``timeout``'s) ends what is inside as an interruption would.

    So files that are half written go. Only in a program that has left SIGTERM as it is.
    """
    default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not default or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def quiet_until_loaded() -> None:
    """End without a traceback from now on, in a process that is the command."""
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if default and _is_command() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _end)


def loaded() -> None:
    """An interruption is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
