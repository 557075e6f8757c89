# SPDX-License-Identifier: Apache-2.0
"""What a forked child must not do in its parent's name."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable


def at_exit_here(function: Callable[..., object], *arguments: object) -> None:
    """Call a function at the exit of this process, and not at that of a child forked from it.

    A child inherits what is registered and the connections: it would say goodbye for the parent.
    """
    process = os.getpid()

    def call() -> None:
        if os.getpid() == process:
            function(*arguments)

    atexit.register(call)
