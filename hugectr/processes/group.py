# SPDX-License-Identifier: Apache-2.0
"""What the processes of a job can do together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ProcessGroup(Protocol):
    """The processes of a job.

    Every method but abort is collective: all processes call it in the same order.
    """

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""

    @property
    def size(self) -> int:
        """Processes of the job."""

    def barrier(self, limit: float | None = None) -> None:
        """Wait for the others; limit: seconds to wait for them, None: the job's default."""

    def all_gather(self, data: bytes, limit: float | None = None) -> list[bytes]:
        """Everybody's bytes, of any sizes, by rank."""

    def exchange(self, parts: Sequence[memoryview], limit: float | None = None) -> list[bytearray]:
        """Send parts[r] to rank r; result[r] came from rank r."""

    def duplicate(self, name: str) -> ProcessGroup:
        """A channel of its own, usable from another thread."""

    def abort(self, reason: str) -> None:
        """End pending and later calls of all processes with CommError."""
