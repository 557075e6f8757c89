# SPDX-License-Identifier: Apache-2.0
"""The first failure of a job, as one process knows it."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

from hugectr.errors import CommError

if TYPE_CHECKING:
    from hugectr import _core

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
        for session in sessions:
            session.leave(reason)
        if remote:
            threading.Thread(target=self._end_if_unnoticed, daemon=True).start()
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

    def _end_if_unnoticed(self) -> None:
        time.sleep(self.limit)
        if not self._noticed:
            sys.stderr.write(
                f"hugectr: the job has failed, and this process is ended: it took no notice for "
                f"{self.limit:g} s\n"
            )
            sys.stderr.flush()
            os._exit(1)
