# SPDX-License-Identifier: Apache-2.0
"""The plan of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hugectr.plan.dense_work import OpWork
from hugectr.plan.memory import MemoryPlan
from hugectr.plan.memory_fit import MemoryFit
from hugectr.plan.placements import PlacementPlan


@dataclass(frozen=True)
class Plan:
    """How a model will lie on its devices.

    Attributes
    ----------
    memory : MemoryPlan
        Bytes by table, network and batches, of each device.
    placement : PlacementPlan or None
        Which devices hold which rows, and what a step is predicted to take; None: not asked for.
    work : tuple of OpWork
        What each op of a device's step asks of it, without the tables.
    fits : MemoryFit or None
        Whether this process's devices have the bytes; None: not asked for.
    memory_of : str
        Whose placements the memory is of, where others are proposed beside it.
    """

    memory: MemoryPlan
    placement: PlacementPlan | None = None
    work: tuple[OpWork, ...] = ()
    fits: MemoryFit | None = None
    memory_of: str = ""

    def __str__(self) -> str:
        memory = self.memory
        if self.fits:  # it says what is lacking
            memory = replace(memory, lacking=())
        whose = f"memory of {self.memory_of}:\n" if self.memory_of else ""
        parts = [f"{whose}{memory}" + (f"\n{self.fits}" if self.fits else "")]
        return "\n\n".join(parts + ([str(self.placement)] if self.placement else []))
