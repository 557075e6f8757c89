# SPDX-License-Identifier: Apache-2.0
"""Says that somebody who is not of the job has called, not more often than can be read."""

from __future__ import annotations

import time

from hugectr.base import log

_SECONDS = 60.0


class StrangerLog:
    """A warning for the first stranger at a port, then at most one a minute, with their number.

    Parameters
    ----------
    where : str
        The port, as host:port.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._count = 0
        self._next = 0.0

    def refused(self, caller: str, why: str) -> None:
        """Note one that was turned away.

        Parameters
        ----------
        caller : str
            Its address.
        why : str
            In words of ours: nothing that a stranger sent goes into a log.
        """
        self._count += 1
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _SECONDS
        more = f" ({self._count} since the last such line)" if self._count > 1 else ""
        self._count = 0
        log.warning(
            f"a connection from {caller} to {self._where} was refused: {why}; the job goes on{more}"
        )
