# SPDX-License-Identifier: Apache-2.0
"""Work in a forked process that ends, or fails, at a chosen call to the file system.

The calls are counted where Python makes them (its audit events, and the calls on handles, which
have none), so that whatever code is run needs no marks for this.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable

from faults.harness import Crashed, Hung
from hugectr.base.errors import CommError, DataError

KILLED = 137
_EVENTS = ("open", "os.", "shutil.", "fcntl.", "ctypes.dl")
_HANDLES = ("write", "pwrite", "fsync", "fdatasync", "close", "fstat")
_LOOKS = ("stat", "lstat")


class Calls:
    """The calls of this process to the file system from now on.

    Parameters
    ----------
    number : int
        The call, from 1, at which ``act`` is called; 0: none.
    act : callable
    looks : str
        When given, looking whether something is there counts as well, and ``last_look`` is the
        number of the last look at a path that ends so, or of the call after it got its name.
    """

    def __init__(self, number: int, act: Callable[[], None], looks: str = "") -> None:
        self.count = self.last_look = 0
        self._number, self._act = number, act
        self._lock = threading.Lock()
        self._looks, self._acting = looks, False
        sys.addaudithook(self._event)
        for name in _HANDLES + (_LOOKS if looks else ()):
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _is_it(self, look: str = "", after: int = 0) -> bool:
        with self._lock:
            if self._acting:
                return False
            self.count += 1
            if self._looks and look.endswith(self._looks):
                self.last_look = self.count + after
            self._acting = self.count == self._number
            return self._acting

    def _event(self, event: str, arguments: tuple[object, ...]) -> None:
        if not event.startswith(_EVENTS):
            return
        name = str(arguments[1]) if event == "os.rename" else ""
        if event == "ctypes.dlsym":  # an exchange is about to be made
            name = self._looks
        if self._is_it(name, after=1):
            self._act()

    def _counted(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **settings: object) -> object:
            if self._is_it(str(arguments[0]) if name in _LOOKS else ""):
                if name == "pwrite":  # the half of it has been written
                    handle, data, place = arguments
                    call(handle, data[: len(data) // 2], place)  # type: ignore[index, arg-type]
                if name == "close":
                    call(*arguments)
                self._act()
            return call(*arguments, **settings)

        return counted


def die() -> None:
    """End the process as SIGKILL does: nothing is cleaned up."""
    os._exit(KILLED)


def fail() -> None:
    """What a broken disk says."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def fork(work: Callable[[], int]) -> int:
    """Run work in a child that ends with its result; 1: as an error that files may have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        status = work()
    except (OSError, DataError, CommError):
        pass
    except BaseException as error:
        status = 2
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def wait(child: int, seconds: float = 60.0) -> int:
    """Exit status of a child; that of SIGKILL is ``KILLED``."""
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise Hung(f"after {seconds:g} s")
        time.sleep(0.0005)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL:
        return KILLED
    if code < 0:
        raise Crashed(signal.Signals(-code).name)
    return code
