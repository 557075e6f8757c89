# SPDX-License-Identifier: Apache-2.0
"""How long a process waits for others while they connect."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """A time to give up at, and whatever ends the waiting sooner.

    Parameters
    ----------
    limit : float
        Seconds from now.
    check : callable, optional
        Called again and again while something waits; raises what should end that.
    """

    #: Seconds of a wait after which ``check`` is called again.
    SLICE = 0.05

    def __init__(self, limit: float, check: Callable[[], None] = lambda: None) -> None:
        self.limit = limit
        self.check = check
        self.at = time.monotonic() + limit

    def left(self) -> float:
        """Seconds until then; below 0 when it is over."""
        return self.at - time.monotonic()

    def pause(self) -> bool:
        """Wait a little; False when the time is over."""
        self.check()
        left = self.left()
        time.sleep(min(self.SLICE, max(0.0, left)))
        return left > 0
