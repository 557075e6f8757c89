# SPDX-License-Identifier: Apache-2.0
"""What a model will take, before it is built."""

from hugectr.plan.memory import MemoryEntry, MemoryPlan, TableRows
from hugectr.plan.placements import PlacementPlan, TablePlacement
from hugectr.plan.plan import Plan

__all__ = ["MemoryEntry", "MemoryPlan", "PlacementPlan", "Plan", "TablePlacement", "TableRows"]
