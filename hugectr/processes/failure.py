# SPDX-License-Identifier: Apache-2.0
"""The first failure of a job, as one process knows it."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from hugectr.errors import CommError

if TYPE_CHECKING:
    from hugectr import _core

Place = tuple[FrameType | None, int]
Calls = dict[int, Place]

#: Seconds that a process waits for another one before the job counts as broken.
DEFAULT_LIMIT = 60.0


def limit_from_environment() -> float:
    """``HUGECTR_PROCESS_TIMEOUT`` in seconds, or the default."""
    return _seconds("HUGECTR_PROCESS_TIMEOUT", DEFAULT_LIMIT)


def start_limit_from_environment() -> float:
    """``HUGECTR_START_TIMEOUT``: seconds that processes have to start; the limit, or a minute."""
    return _seconds("HUGECTR_START_TIMEOUT", max(limit_from_environment(), DEFAULT_LIMIT))


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if value <= 0:
        raise CommError(f"{name}: found {text!r}, allowed: a number of seconds above 0")
    return value


class JobFailure:
    """Shared by all groups of a process.

    A process learns of a failure by its own error, by the message of another process, or because a
    connection ended. The first one counts; every later call on a group raises it. A process whose
    own code does not notice within the job's limit is ended, so that no rank outlives its job.

    Parameters
    ----------
    limit : float
        Seconds between a failure and the end of a process that does not notice it.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.reason: str | None = None
        self.remote = False  # another process knows the cause and shows it
        self._noticed = False
        self._lock = threading.Lock()
        self._sessions: weakref.WeakSet[_core.Session] = weakref.WeakSet()

    def add_session(self, session: _core.Session) -> None:
        """Have a session's waiting calls end when the job fails, from whatever thread learns it."""
        with self._lock:
            self._sessions.add(session)

    def set(self, reason: str, remote: bool) -> bool:
        """Note a failure; False when an earlier one is known."""
        with self._lock:
            if self.reason is not None:
                return False
            self.reason, self.remote = reason, remote
            sessions = list(self._sessions)
        threading.Thread(target=self._end_if_unnoticed, args=(calls(),), daemon=True).start()
        # A GPU may take long to let go of what waits on it; the other processes must be told.
        leaving = threading.Thread(target=_leave, args=(sessions, reason), daemon=True)
        leaving.start()
        leaving.join(1.0)
        return True

    def check(self) -> None:
        """Raise CommError when the job has failed."""
        if self.reason is not None:
            self._noticed = True
            raise CommError(self.reason)

    def wait(self, seconds: float) -> None:
        """Wait so long for a failure to become known, and raise it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.reason is None:
            time.sleep(0.01)
        self.check()

    def _end_if_unnoticed(self, waiting: Calls) -> None:
        """End this process when its code does not come to notice that the job has failed.

        What waits inside the package when the failure is found here waits for that failure, so it
        has little time to return: a GPU that does not may never.
        """
        end = time.monotonic() + (self.limit if self.remote else max(1.0, self.limit / 10))
        while time.monotonic() < end and (waiting or self.remote):
            time.sleep(0.02)
            now = sys._current_frames()
            waiting = {t: call for t, call in waiting.items() if call == place(now.get(t))}
        if waiting and not self.remote:
            _end_process(f"{self.reason}; a call does not return, so this process is ended")
        if self.remote and (waiting or not self._noticed):
            _end_process(
                "the job has failed, and this process is ended: it took no notice for "
                f"{self.limit:g} s"
            )


def _leave(sessions: list[_core.Session], reason: str) -> None:
    for session in sessions:
        session.leave(reason)


def _end_process(why: str) -> None:
    sys.stderr.write(f"hugectr: {why}\n")
    sys.stderr.flush()
    os._exit(1)


def place(frame: FrameType | None) -> Place:
    """Where a thread is: the same as before when it has not moved since."""
    return (frame, frame.f_lasti) if frame is not None else (None, 0)


def calls() -> Calls:
    """The threads of a script that are inside a call of this package, and where."""
    package = str(Path(__file__).parents[1])
    script = {t.ident for t in threading.enumerate() if not t.daemon}
    found = {}
    for thread, top in sys._current_frames().items():
        frame: FrameType | None = top
        while frame is not None and not frame.f_code.co_filename.startswith(package):
            frame = frame.f_back
        if frame is not None and thread in script and thread != threading.get_ident():
            found[thread] = place(top)
    return found
