# SPDX-License-Identifier: Apache-2.0
"""What the rest of the package knows of the processes of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ProcessGroup(Protocol):
    """The processes of a job.

    Every method but ``abort`` is collective: all processes call it in the same order. One thread at
    a time may be inside a group; a thread of its own takes a ``duplicate``. ``limit`` is in seconds
    (None: the job's own); who waits longer for another process raises CommError naming it.
    """

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """Number of processes."""
        ...

    def barrier(self, limit: float | None = None) -> None:
        """Wait until all processes are here."""
        ...

    def all_gather(self, data: bytes, limit: float | None = None) -> list[bytes]:
        """Give everybody the data of everybody, by rank; any sizes."""
        ...

    def exchange(self, parts: Sequence[memoryview], limit: float | None = None) -> list[bytearray]:
        """Send ``parts[r]`` to process r; returns what each process sent, by rank."""
        ...

    def duplicate(self, name: str) -> ProcessGroup:
        """Make a group of the same processes with an order of calls of its own."""
        ...

    def abort(self, reason: str) -> None:
        """Make pending and later calls of all processes raise CommError(reason)."""
        ...
