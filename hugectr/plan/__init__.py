# SPDX-License-Identifier: Apache-2.0
"""What a model will take, before it is built."""

from hugectr.plan.memory import MemoryEntry, MemoryPlan, TableRows
from hugectr.plan.memory_fit import MemoryFit
from hugectr.plan.placements import PlacementPlan, TablePlacement
from hugectr.plan.plan import Plan

__all__ = [
    "MemoryEntry",
    "MemoryFit",
    "MemoryPlan",
    "PlacementPlan",
    "Plan",
    "TablePlacement",
    "TableRows",
]
