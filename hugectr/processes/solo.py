# SPDX-License-Identifier: Apache-2.0
"""The group of a job that is one process."""

from __future__ import annotations

from collections.abc import Sequence

from hugectr.processes.group import ProcessGroup


class SoloGroup:
    """One process: there is nobody to wait for."""

    @property
    def rank(self) -> int:
        """Always 0."""
        return 0

    @property
    def size(self) -> int:
        """Always 1."""
        return 1

    def barrier(self, limit: float | None = None) -> None:
        """Return at once."""

    def all_gather(self, data: bytes, limit: float | None = None) -> list[bytes]:
        """Own bytes."""
        return [data]

    def exchange(self, parts: Sequence[memoryview], limit: float | None = None) -> list[bytearray]:
        """Own part."""
        return [bytearray(parts[0])]

    def duplicate(self, name: str) -> ProcessGroup:
        """Itself: it has no state."""
        return self

    def abort(self, reason: str) -> None:
        """There is nobody to tell."""
