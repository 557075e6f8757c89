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
        Whether the bytes were there, and no budget is too small.
    device : str
        Where they ran out: ``"cuda:0"``, ``"host"``; empty if nowhere.
    bytes : int
        That the plan has there; of all devices if it fits.
    why : str
        What the system said when it had no more; empty if it fits.
    lacking : tuple of str
        Budgets that are too small, whatever there is (``MemoryPlan.lacking``).
    """

    fits: bool
    device: str = ""
    bytes: int = 0
    why: str = ""
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.fits:
            return f"it fits now: all {self.bytes:,} bytes were taken at the same time"
        if not self.why:
            return "\n".join(
                (
                    f"it does not fit: all {self.bytes:,} bytes are there now, and budgets are "
                    "too small",
                    *self.lacking,
                )
            )
        return (
            f"it does not fit now: of {self.bytes:,} bytes on {self.device}, {self.why}. Give "
            "tables Memory(device=) or fewer rows, train on more devices, or make room there"
        )
