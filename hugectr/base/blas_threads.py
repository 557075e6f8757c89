# SPDX-License-Identifier: Apache-2.0
"""Threads of OpenBLAS, of which the core uses none: its own pool cuts products into pieces."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import numpy  # noqa: F401 NumPy's own OpenBLAS reads the same variable when it is loaded

_VARIABLE = "OPENBLAS_NUM_THREADS"


@contextlib.contextmanager
def loaded_without_threads() -> Iterator[None]:
    """Context in which an OpenBLAS that is loaded starts no threads.

    It starts one a core there and then, and raises a signal when the system has none to give.
    """
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
