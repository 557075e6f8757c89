# SPDX-License-Identifier: Apache-2.0
"""Makes a plan: the best that is found, and what it is predicted to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hugectr.plan.balance import spread
from hugectr.plan.cost import CostModel
from hugectr.plan.job import Choice, Job, asks, choices_of
from hugectr.plan.memory import size_for_people
from hugectr.plan.placements import PlacementPlan, TablePlacement
from hugectr.plan.search import Search, limits_of, rooms_of
from hugectr.plan.table_cost import Array, Cost
from hugectr.plan.table_load import KINDS, TableLoad
from hugectr.plan.whole_step import PHASES, TRAVEL


def plan_placements(
    job: Job, tables: list[TableLoad], fixed: dict[str, Choice] | None = None
) -> PlacementPlan:
    """The plan whose step is predicted to be shortest.

    Parameters
    ----------
    job : Job
    tables : list of TableLoad
    fixed : dict of str to Choice, optional
        Tables whose placement is given.
    """
    model = CostModel(job, tables)
    return describe(model, tables, Search(model, tables, fixed).best())


def describe(model: CostModel, tables: list[TableLoad], chosen: Sequence[Choice]) -> PlacementPlan:
    """What these choices cost."""
    job = model.job
    asked = any(asks(table, choice) for table, choice in zip(tables, chosen, strict=True))
    fixed = model.fixed(asked and job.devices > 1)
    total = fixed.copy()
    placed, lacking = [], []
    rooms = np.zeros(len(limits_of(job)))
    for table, choice in zip(tables, chosen, strict=True):
        cost = model.cost(table, choice)
        total += cost.seconds
        rooms += rooms_of(cost.held, job)
        if cost.held.lacking:
            size = size_for_people(cost.held.lacking)
            lacking.append(
                f"table {table.name!r} lacks {size} in its Memory, for its rows or for those of "
                "two batches on a device"
            )
        placed.append(
            TablePlacement(
                table.name,
                choice.kind,
                choice.device if choice.kind == "one_device" or choice.device else None,
                table.rows,
                tuple(int(count) for count in cost.held.device),
                _milliseconds(cost.seconds),
                _if_any(cost.held.host),
                _if_any(cost.held.disk),
                choice.exchange,
            )
        )
    uniform = {}
    may_be = [{choice.kind for choice in choices_of(table, job)} for table in tables]
    for kind in KINDS:
        if kind == "hybrid":
            continue
        alike = _uniform(model, tables, [kind if kind in may else "by_key" for may in may_be])
        costs = [cost for _, cost in alike]
        held = np.sum([rooms_of(cost.held, job) for cost in costs], axis=0) if costs else rooms
        if lacking or not (held > limits_of(job)).any():
            seconds = np.sum([cost.seconds for cost in costs], axis=0) if costs else 0.0 * fixed
            longest = seconds.max(axis=-1)
            asked = any(asks(t, choice) for t, (choice, _) in zip(tables, alike, strict=True))
            uniform[kind] = round(1e3 * float(model.whole_step(longest, asked)), 6)
    over = rooms - limits_of(job)
    for r in np.flatnonzero(over[:-1] > 0):
        where = f"device {r}" if r < job.devices else f"process {r - job.devices}'s host memory"
        lacking.append(f"{where} lacks {size_for_people(over[r])} for rows")
    return PlacementPlan(
        tuple(placed),
        job.devices,
        job.batch,
        job.machine.name,
        _milliseconds(total),
        uniform,
        dense_ms=round(1e3 * job.dense.whole, 6),
        hiding_ms={
            phase: round(1e3 * seconds, 6)
            for phase, seconds in zip(TRAVEL, job.hiding, strict=True)
            if seconds
        },
        fixed_ms=_milliseconds(fixed),
        plan_share=job.machine.beside,
        lacking=tuple(lacking),
        notes=_not_known(job, tables),
    )


def _not_known(job: Job, tables: Sequence[TableLoad]) -> tuple[str, ...]:
    """What the machine's file lacks of what these tables' step goes by."""
    on_disk = any(table.tiers is not None and table.tiers.disk is not None for table in tables)
    unused = {"table": len(tables) < 2, "disk_rate": not on_disk}
    if job.devices == 1:
        unused |= dict.fromkeys(("asking", "asking_table", "asked_keys", "message", "sums"), True)
    names = [name for name in job.machine.taken_as_0 if not unused.get(name, False)]
    return (f"not in this machine's file, taken as 0: {', '.join(names)}",) if names else ()


def _uniform(
    model: CostModel, tables: list[TableLoad], kinds: Sequence[str]
) -> list[tuple[Choice, Cost]]:
    """Of tables placed so; on one device each they are spread by their work."""
    placed = [Choice(kind) for kind in kinds]
    costs = [model.cost(table, choice) for table, choice in zip(tables, placed, strict=True)]
    if "one_device" in kinds:
        work = {t.name: float(c.seconds.sum()) for t, c in zip(tables, costs, strict=True)}
        on = spread(work, {}, model.job.devices)
        placed = [
            replace(choice, device=on[table.name]) if choice.kind == "one_device" else choice
            for table, choice in zip(tables, placed, strict=True)
        ]
        costs = [model.cost(table, choice) for table, choice in zip(tables, placed, strict=True)]
    return list(zip(placed, costs, strict=True))


def _if_any(held: Array) -> tuple[int, ...]:
    return tuple(int(count) for count in held) if held.any() else ()


def _milliseconds(seconds: Any) -> dict[str, float]:
    return {
        phase: round(1e3 * float(of_phase.max()), 6)
        for phase, of_phase in zip(PHASES, seconds, strict=True)
        if phase != "move rows" or of_phase.any()
    }
