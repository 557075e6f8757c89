# SPDX-License-Identifier: Apache-2.0
"""The plan of a model."""

from __future__ import annotations

from dataclasses import dataclass

from hugectr.plan.memory import MemoryPlan


@dataclass(frozen=True)
class Plan:
    """How a model will lie on its devices.

    Attributes
    ----------
    memory : MemoryPlan
        Bytes by table, network and batches, of each device.
    """

    memory: MemoryPlan

    def __str__(self) -> str:
        return str(self.memory)
