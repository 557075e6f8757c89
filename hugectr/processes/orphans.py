# SPDX-License-Identifier: Apache-2.0
"""What the processes of a job start themselves, and leave behind when they are killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

_SET_CHILD_SUBREAPER = 36  # of prctl(2)


class Orphans:
    """Ends what is left of the processes started below it. A context of the launcher's.

    A worker whose parent was killed becomes this process's child, in place of that of the system's
    first process, so it is known here.
    """

    def __enter__(self) -> Orphans:
        _adopt(True)
        self._before = _children()
        return self

    def __exit__(self, *_: object) -> None:
        # Those that are ended leave children of their own.
        while found := _children() - self._before:
            for pid in found:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        _adopt(False)


def _adopt(adopts: bool) -> None:
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


def _children() -> set[int]:
    """Processes whose parent this one is."""
    own, found = os.getpid(), set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything.
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
        if parent == own:
            found.add(int(stat.parent.name))
    return found
