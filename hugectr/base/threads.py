# SPDX-License-Identifier: Apache-2.0
"""Threads of the package's Python part: the only place that starts any.

Python's own ``RuntimeError: can't start new thread`` says neither which thread nor what was short.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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


class Workers(ThreadPoolExecutor):
    """A pool of threads; submit() raises OutOfMemory when there is none to be had."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """As ThreadPoolExecutor.submit."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            raise _named(str(self._thread_name_prefix), error) from error


def _named(name: str, error: RuntimeError) -> Exception:
    """The error that names the thread; others, as at the interpreter's end, stay as they are."""
    if _NO_THREAD not in str(error):
        return error
    return OutOfMemory(_core.thread_shortage(f"the thread '{name}'", "none is to be had"))
