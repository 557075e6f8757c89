# SPDX-License-Identifier: Apache-2.0
"""Work spread over processes of this machine, from any script."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_starting = threading.Lock()


def _submit(pool: ProcessPoolExecutor, work: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
    """Results to come; starts the processes.

    They would run the user's script again, which need not be written for that, and find it by what
    ``__main__`` says of itself. What they are given to do is of this package.
    """
    main = sys.modules["__main__"]
    with _starting:
        file, spec = vars(main).pop("__file__", None), main.__spec__
        main.__spec__ = None
        try:
            return pool.map(work, items)
        finally:
            main.__spec__ = spec
            if file is not None:
                main.__file__ = file


def map_in_processes(
    work: Callable[[T], R],
    items: Sequence[T],
    processes: int,
    shown: Callable[[Iterable[R]], Iterable[R]] = iter,
) -> list[R]:
    """Results of ``work`` on each item, in order, from up to so many processes.

    Parameters
    ----------
    work : callable
        A function of this package, or a ``functools.partial`` of one: it travels by name.
    items : sequence
    processes : int
        1: this process does it all.
    shown : callable
        Goes around the results as they come, to show progress.
    """
    processes = min(processes, len(items))
    if processes <= 1:
        return list(shown(map(work, items)))
    # spawn: a fork would copy the threads' locks of whoever trains in this process.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        return list(shown(_submit(pool, work, items)))
