# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while the ``hugectr`` command is being loaded ends it as quietly as later.

Nothing of the package is imported here: most of what is loaded comes behind it.
"""

import itertools
import os
import signal
import sys
import threading
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


def quiet_until_loaded() -> None:
    """End without a traceback from now on, in a process that is the command."""
    default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if default and _is_command() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _end)


def loaded() -> None:
    """An interruption is a KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
