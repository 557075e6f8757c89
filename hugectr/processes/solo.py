# SPDX-License-Identifier: Apache-2.0
"""The group of a job of one process."""

from __future__ import annotations

from collections.abc import Sequence

from hugectr.base.errors import CommError
from hugectr.processes.group import ProcessGroup


class SoloGroup:
    """A ``ProcessGroup`` of one: everything is here already."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._reason: str | None = None

    def barrier(self, limit: float | None = None) -> None:
        """Return at once."""
        self._check()

    def all_gather(self, data: bytes, limit: float | None = None) -> list[bytes]:
        """Return the data."""
        self._check()
        return [bytes(data)]

    def exchange(self, parts: Sequence[memoryview], limit: float | None = None) -> list[bytearray]:
        """Return a copy of the one part."""
        self._check()
        return [bytearray(parts[0])]

    def duplicate(self, name: str) -> ProcessGroup:
        """Return another group of one."""
        return SoloGroup()

    def abort(self, reason: str) -> None:
        """Make later calls raise CommError(reason)."""
        self._reason = self._reason or reason

    def _check(self) -> None:
        if self._reason is not None:
            raise CommError(self._reason)
