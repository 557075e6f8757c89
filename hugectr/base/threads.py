# SPDX-License-Identifier: Apache-2.0
"""Threads of the package's Python part: the only place that starts any.

Python's own ``RuntimeError: can't start new thread`` says neither which thread nor what was short.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait as wait_for_all
from typing import Any, ParamSpec, TypeVar

from hugectr import _core
from hugectr.base.errors import OutOfMemory

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NO_THREAD = "can't start new thread"


def start_thread(
    work: Callable[..., object], *arguments: Any, name: str, daemon: bool = False
) -> threading.Thread:
    """Start a thread.

    Raises
    ------
    OutOfMemory
        When the system has none; the text names the thread and the limits.
    """
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=daemon)
    try:
        thread.start()
    except RuntimeError as error:
        raise _named(name, error) from error
    return thread


class Beside(threading.Thread):
    """A thread that is waited for until it is over, whatever interrupts whom.

    A KeyboardInterrupt in ``Thread.join`` lets CPython up to 3.12 take a thread that runs for one
    that has ended, and one in ``Thread.start`` leaves a thread behind that nobody knows of. So keep
    this first, then ``begin`` it: where that raises, the work is not done.

    Parameters
    ----------
    work : callable
    *arguments
        Of it.
    name : str
        Of the thread.
    """

    def __init__(self, work: Callable[..., object], *arguments: Any, name: str) -> None:
        super().__init__(name=name)
        self._work: Callable[[], object] | None = lambda: work(*arguments)
        self._begun = False
        self._may_run, self._over = threading.Event(), threading.Event()

    def begin(self) -> None:
        """Start the thread.

        Raises
        ------
        OutOfMemory
            As of ``start_thread``.
        """
        try:
            self.start()
            self._begun = True
        except RuntimeError as error:
            raise _named(self.name, error) from error
        finally:
            if not self._begun:
                self._over.set()
            self._may_run.set()

    def run(self) -> None:
        """Do the work, if it is still wanted."""
        try:
            self._may_run.wait()
            work, self._work = self._work, None
            if self._begun and work is not None:
                work()
        finally:
            self._over.set()

    def is_over(self) -> bool:
        """Whether the work is done, or was never begun."""
        return self._over.is_set()

    def wait(self) -> None:
        """Wait until it is over; an interrupt leaves it as it is, to be waited for again."""
        self._over.wait()


class Workers(ThreadPoolExecutor):
    """A pool of threads; submit() raises OutOfMemory when there is none to be had."""

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, name)
        self._under_way: set[Future[Any]] = set()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """As ThreadPoolExecutor.submit."""
        try:
            future = super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            raise _named(str(self._thread_name_prefix), error) from error
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As ThreadPoolExecutor.shutdown, which an interrupt would end while threads still work.

        Whoever waits closes the files that they use next.
        """
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        interrupt: KeyboardInterrupt | None = None
        while wait and self._under_way:
            try:
                wait_for_all(list(self._under_way))
            except KeyboardInterrupt as error:
                interrupt = error
        super().shutdown(wait=wait)
        if interrupt is not None:
            raise interrupt


def _named(name: str, error: RuntimeError) -> Exception:
    """The error that names the thread; others, as at the interpreter's end, stay as they are."""
    if _NO_THREAD not in str(error):
        return error
    return OutOfMemory(_core.thread_shortage(f"the thread '{name}'", "none is to be had"))
