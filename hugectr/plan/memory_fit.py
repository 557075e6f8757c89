# SPDX-License-Identifier: Apache-2.0
"""Whether the bytes of a plan are there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryFit:
    """What came of taking a plan's bytes, all at the same time.

    Attributes
    ----------
    fits : bool
    device : str
        Where they ran out: ``"cuda:0"``, ``"host"``; empty if nowhere.
    bytes : int
        That the plan has there; of all devices if it fits.
    why : str
        What the system said when it had no more; empty if it fits.
    """

    fits: bool
    device: str = ""
    bytes: int = 0
    why: str = ""

    def __str__(self) -> str:
        if self.fits:
            return f"it fits now: all {self.bytes:,} bytes were taken at the same time"
        return (
            f"it does not fit now: of {self.bytes:,} bytes on {self.device}, {self.why}. Give "
            "tables Memory(device=) or fewer rows, train on more devices, or make room there"
        )
