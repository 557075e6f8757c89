# SPDX-License-Identifier: Apache-2.0
"""The first failure of a job, as one process knows it."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from hugectr import _core
from hugectr.base.errors import CommError, OutOfMemory
from hugectr.base.threads import start_thread

_PACKAGE = str(Path(__file__).parents[1]) + os.sep

#: Seconds that a process waits for another one before the job counts as broken.
DEFAULT_LIMIT = 60.0


def limit_from_environment() -> float:
    """``HUGECTR_PROCESS_TIMEOUT`` in seconds, or the default."""
    return _seconds("HUGECTR_PROCESS_TIMEOUT", DEFAULT_LIMIT)


def start_limit_from_environment() -> float:
    """``HUGECTR_START_TIMEOUT``: seconds that processes have to start; the limit, or a minute."""
    return _seconds("HUGECTR_START_TIMEOUT", max(limit_from_environment(), DEFAULT_LIMIT))


def seconds_before_telling(rank: int, missing: Sequence[int]) -> float:
    """How long a process that gives up lets others say why before it does.

    All that wait give up at about the same time, and the first to tell is believed. Who misses
    fewest knows best: what one process got before another one hung takes it to an exchange to
    which those that did not get it can not come, so that it misses them, too. Then the lowest rank.
    """
    lower = sum(1 for other in range(rank) if other not in missing)
    return 0.5 * lower + 1.5 * min(len(missing) - 1, 2)


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not value > 0:  # NaN is no number of seconds either
        raise CommError(f"{name}: found {text!r}, allowed: a number of seconds above 0")
    return value


class JobFailure:
    """Shared by all groups of a process.

    A process learns of a failure by its own error, by the message of another process, or because a
    connection ended. The first one counts; every later call on a group raises it. A process whose
    script does not notice within the job's limit is ended, so that no rank outlives its job; sooner
    where the GPUs do not let go of what waits on them, for then it can not notice.

    Parameters
    ----------
    limit : float
        Seconds that a script has to notice a failure; GPUs have a tenth of it.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.reason: str | None = None
        self.remote = False  # another process knows the cause and shows it
        self._noticed = False  # by the script; threads of the package notice in vain
        self._lock = threading.Lock()
        self._sessions: weakref.WeakSet[_core.Session] = weakref.WeakSet()
        _failures.add(self)

    def add_session(self, session: _core.Session) -> None:
        """Have a session's waiting calls end when the job fails, from whatever thread learns it."""
        with self._lock:
            self._sessions.add(session)

    def set(self, reason: str, remote: bool) -> bool:
        """Note a failure; False when an earlier one is known."""
        with self._lock:
            if _in_script():
                self._noticed = True
            if self.reason is not None:
                return False
            self.reason, self.remote = reason, remote
            sessions = list(self._sessions)
        # All at the same time, and none in this thread: a GPU may take long to let go of what waits
        # on it, or wait for what another session has there, and the other processes must be told.
        leaving = []
        for session in sessions:
            thread = _start(session.leave, reason)
            if thread is None:
                session.leave(reason)
            else:
                leaving.append((thread, weakref.ref(session)))
        _start(self._end_if_unnoticed, leaving)
        end = time.monotonic() + 1.0
        for thread, _ in leaving:
            thread.join(max(0.0, end - time.monotonic()))
        return True

    def check(self) -> None:
        """Raise CommError when the job has failed."""
        if self.reason is not None:
            raise CommError(self.reason)

    def wait(self, seconds: float) -> None:
        """Wait so long for a failure to become known, and raise it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.reason is None:
            time.sleep(0.01)
        self.check()

    def _end_if_unnoticed(
        self, leaving: list[tuple[threading.Thread, weakref.ref[_core.Session]]]
    ) -> None:
        begin = time.monotonic()
        for thread, _ in leaving:
            thread.join(max(0.0, begin + max(1.0, self.limit / 10) - time.monotonic()))
        # A thread may be done in the core and wait for Python, which a busy script keeps.
        sessions = [session() for thread, session in leaving if thread.is_alive()]
        if any(session is not None and not session.has_left() for session in sessions):
            _end_process(
                f"{self.reason}; the GPUs do not let go of what waits on them, so this process is "
                "ended"
            )
        time.sleep(max(0.0, begin + self.limit - time.monotonic()))
        if not self._noticed:
            cause = "the job has failed" if self.remote else self.reason
            _end_process(f"{cause}; this process is ended: it took no notice for {self.limit:g} s")


def _in_script() -> bool:
    """Whether this thread is one of the user's, not of the core or of this package."""
    thread = threading.current_thread()
    if thread.name.startswith("hctr-"):
        return False
    if not isinstance(thread, threading._DummyThread):
        return True
    frame: FrameType | None = sys._getframe()  # the core calls nothing but this package
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame is not None


def _script_was_told() -> None:
    """A CommError is made in this thread, and is going to be raised there."""
    if _in_script():
        for failure in list(_failures):
            if failure.reason is not None:
                failure._noticed = True


_failures: weakref.WeakSet[JobFailure] = weakref.WeakSet()
_core.comm_error_hooks.append(_script_was_told)


def _start(work: Callable[..., None], argument: Any) -> threading.Thread | None:
    try:
        return start_thread(work, argument, name="hctr-failure", daemon=True)
    except (RuntimeError, OutOfMemory):
        # An interpreter that is about to end may start no thread, a system may have none.
        return None


def _end_process(why: str) -> None:
    try:
        sys.stderr.write(f"hugectr: {why}\n")
        sys.stderr.flush()
    finally:
        os._exit(1)
