# SPDX-License-Identifier: Apache-2.0
"""What a model will take, before it is built."""

from hugectr.plan.memory import MemoryEntry, MemoryPlan, TableRows
from hugectr.plan.plan import Plan

__all__ = ["MemoryEntry", "MemoryPlan", "Plan", "TableRows"]
