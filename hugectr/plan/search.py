# SPDX-License-Identifier: Apache-2.0
"""Finds a placement of every table that makes a step short."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.plan.cost import PHASES, Array, CostModel, Held
from hugectr.plan.job import Choice, Job, choices_of
from hugectr.plan.table_load import TableLoad
from hugectr.plan.whole_step import BESIDE

#: Seconds that a byte without room costs: more than any plan that has room for all.
_NO_ROOM = 1e-3
#: What a second of work counts that makes a step no longer, because it is beside it.
_HIDDEN = 1e-6
_ROUNDS = 40
#: Tables that are few enough for several starts.
_FEW = 64
#: Pairs of tables are moved together only where there are so few ways to do so.
_PAIRS = 60_000


@dataclass(frozen=True)
class _Options:
    """The choices of one table and what each costs."""

    choices: list[Choice]
    seconds: Array  # (choices, phases, devices)
    bytes: Array  # (choices, rooms)


class Search:
    """Greedy in the order of cost, then changes of one table, and of two where there are few.

    Every table has a placement in what comes out. What a plan costs is its predicted whole step,
    beside which the next batch is planned, and far more for bytes that have no room.

    Parameters
    ----------
    model : CostModel
    tables : list of TableLoad
    fixed : dict of str to Choice
        Tables whose placement is given.
    """

    def __init__(
        self, model: CostModel, tables: list[TableLoad], fixed: dict[str, Choice] | None = None
    ) -> None:
        self._model, self._fixed = model, model.fixed()
        self._limits = limits_of(model.job)
        self._options = []
        for table in tables:
            given = (fixed or {}).get(table.name)
            choices = [given] if given else choices_of(table, model.job)
            if not choices:
                raise InvalidArgument(
                    f"plan: table {table.name!r} may be placed {list(table.kinds)}, none of which "
                    f"is possible on {model.job.devices} devices"
                )
            costs = [model.cost(table, choice) for choice in choices]
            self._options.append(
                _Options(
                    choices,
                    np.stack([cost.seconds for cost in costs]),
                    np.stack([rooms_of(cost.held, model.job) for cost in costs]),
                )
            )

    def best(self) -> list[Choice]:
        """A choice for each table."""
        starts = self._starts()
        if len(self._options) > _FEW:
            starts = [min(starts, key=self.value)]
        found = min((self._improved(start) for start in starts), key=self.value)
        return [options.choices[c] for options, c in zip(self._options, found, strict=True)]

    def value(self, chosen: list[int]) -> float:
        """What the search makes small, of numbers of choices."""
        seconds, memory = self._sums(chosen)
        return float(self._values(seconds[None], memory[None])[0])

    def _sums(self, chosen: list[int]) -> tuple[Array, Array]:
        pairs = list(zip(self._options, chosen, strict=True))
        return (
            np.sum([options.seconds[c] for options, c in pairs], axis=0),
            np.sum([options.bytes[c] for options, c in pairs], axis=0),
        )

    def _values(self, seconds: Array, memory: Array) -> Array:
        seconds = seconds + self._fixed
        value = self._model.whole_step(seconds) + _HIDDEN * seconds.max(axis=-1).sum(axis=-1)
        without = np.maximum(memory - self._limits, 0).sum(axis=-1)
        return np.asarray(value + _NO_ROOM * without)

    def _starts(self) -> list[list[int]]:
        """Greedy in two orders, by work, and every kind for all tables that may have it."""
        cheapest = [float(o.seconds.max(axis=-1).sum(axis=-1).min()) for o in self._options]
        largest = [float(o.bytes.sum(axis=1).min()) for o in self._options]
        orders = (cheapest, largest) if len(self._options) <= _FEW else (cheapest,)
        starts = [self._greedy(list(np.argsort(order)[::-1])) for order in orders]
        order = list(np.argsort(cheapest)[::-1])
        starts += [self._greedy(order, self._least_work(beside)) for beside in (False, True)]
        kinds = {choice.kind for options in self._options for choice in options.choices}
        if len(self._options) <= _FEW:
            for kind in sorted(kinds):
                starts.append([self._first(options, kind) for options in self._options])
        return starts

    @staticmethod
    def _first(options: _Options, kind: str) -> int:
        kinds = [choice.kind for choice in options.choices]
        return kinds.index(kind) if kind in kinds else 0

    def _least_work(self, beside: bool) -> list[list[int]]:
        """Of each table the choices of the kind that is least work for all devices together: what
        is best where there are enough tables to give every device as much. Work beside the step
        counts by what it takes from it, or as all other, which is best where it is longer."""
        weights = np.ones(len(PHASES))
        if beside:
            weights[[PHASES.index(phase) for phase in BESIDE]] = self._model.job.machine.beside
        found = []
        for options in self._options:
            work = options.seconds.sum(axis=2) @ weights
            kind = options.choices[int(work.argmin())].kind
            found.append([c for c, choice in enumerate(options.choices) if choice.kind == kind])
        return found

    def _greedy(self, order: list[int], allowed: list[list[int]] | None = None) -> list[int]:
        """Table after table what costs least with those before it."""
        chosen = [0] * len(self._options)
        seconds = np.zeros_like(self._options[0].seconds[0])
        memory = np.zeros_like(self._options[0].bytes[0])
        for t in order:
            options = self._options[t]
            some = allowed[t] if allowed else slice(None)
            values = self._values(seconds + options.seconds[some], memory + options.bytes[some])
            best = int(values.argmin()) if allowed is None else allowed[t][int(values.argmin())]
            chosen[t] = best
            seconds = seconds + options.seconds[best]
            memory = memory + options.bytes[best]
        return chosen

    def _improved(self, start: list[int]) -> list[int]:
        """Until no change of a table, and of two where there are few, makes it less."""
        chosen = list(start)
        for _ in range(_ROUNDS):
            changed = self._change_one(chosen)
            if not changed and not self._change_two(chosen):
                break
        return chosen

    def _change_one(self, chosen: list[int]) -> bool:
        seconds, memory = self._sums(chosen)
        value = float(self._values(seconds[None], memory[None])[0])
        changed = False
        for t, options in enumerate(self._options):
            if len(options.choices) == 1:
                continue
            rest = seconds - options.seconds[chosen[t]]
            room = memory - options.bytes[chosen[t]]
            values = self._values(rest + options.seconds, room + options.bytes)
            best = int(values.argmin())
            if values[best] < value * (1 - 1e-9):
                chosen[t], value, changed = best, float(values[best]), True
                seconds, memory = rest + options.seconds[best], room + options.bytes[best]
        return changed

    def _change_two(self, chosen: list[int]) -> bool:
        sizes = [len(options.choices) for options in self._options]
        if sum(sizes) ** 2 > _PAIRS:
            return False
        value = self.value(chosen)
        seconds, memory = self._sums(chosen)
        for a, first in enumerate(self._options):
            for b in range(a + 1, len(self._options)):
                second = self._options[b]
                rest = seconds - first.seconds[chosen[a]] - second.seconds[chosen[b]]
                room = memory - first.bytes[chosen[a]] - second.bytes[chosen[b]]
                values = self._values(
                    rest + first.seconds[:, None] + second.seconds[None],
                    room + first.bytes[:, None] + second.bytes[None],
                )
                best = np.unravel_index(int(values.argmin()), values.shape)
                if values[best] < value * (1 - 1e-9):
                    chosen[a], chosen[b] = int(best[0]), int(best[1])
                    return True
        return False


def rooms_of(held: Held, job: Job) -> Array:
    """Bytes of each device, in the host memory of each process, and that a table's own budgets
    lack."""
    processes = range(0, job.devices, job.column_devices)
    host = np.add.reduceat(held.host, list(processes))
    return np.concatenate([held.device, host, [held.lacking]])


def limits_of(job: Job) -> Array:
    """Most bytes of the same; infinite where that is not known."""
    device, host = float(job.machine.memory) or np.inf, job.machine.host_memory or np.inf
    processes = len(range(0, job.devices, job.column_devices))
    return np.array([device] * job.devices + [host] * processes + [0.0])
