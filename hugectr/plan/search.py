# SPDX-License-Identifier: Apache-2.0
"""Finds a placement of every table that makes a step short."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.plan.cost import CostModel
from hugectr.plan.job import Choice, Job, asks, choices_of
from hugectr.plan.table_cost import Array, Costs, Held
from hugectr.plan.table_load import TableLoad
from hugectr.plan.whole_step import BESIDE, PHASES

#: Seconds that a byte without room costs: more than any plan that has room for all.
_NO_ROOM = 1e-3
#: What a second of work counts that makes a step no longer, because it is beside it.
_HIDDEN = 1e-6
_ROUNDS = 40
#: Tables that are few enough for several starts.
_FEW = 64
#: Of what single changes have come to, so many go on in pairs.
_BEST = 3
#: Pairs of tables are moved together only where there are so few ways to do so.
_PAIRS = 350_000


@dataclass(frozen=True)
class _Options:
    """The choices of one table and what each adds to a plan."""

    choices: list[Choice]
    parts: Array  #: (choices, parts): seconds of phases, bytes of rooms, whether rows are asked for
    seconds: Array  #: (choices, phases, 2 * devices): the same as parts begin with
    bytes: Array  #: (choices, rooms)
    asks: Array  #: (choices)


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
        self._model = model
        self._limits = limits_of(model.job)
        self._shape = len(PHASES), 2 * model.job.devices
        self._options = []
        for table in tables:
            given = (fixed or {}).get(table.name)
            choices = choices_of(table, model.job, given)
            if not choices:
                raise InvalidArgument(
                    f"plan: table {table.name!r} may be placed {list(table.kinds)}, none of which "
                    f"is possible on {model.job.devices} devices"
                )
            costs = model.costs(table, choices)
            held = rooms_of(costs, model.job)
            asked = np.array([asks(table, choice) for choice in choices], np.float64)
            seconds = costs.seconds.reshape(len(choices), -1)
            parts = np.concatenate([seconds, held, asked[:, None]], axis=1)
            self._options.append(_Options(choices, parts, costs.seconds, held, asked))

    def best(self) -> list[Choice]:
        """A choice for each table."""
        starts = self._starts()
        if len(self._options) > _FEW:
            starts = [min(starts, key=self.value)]
        alone = sorted((self._improved(start, pairs=False) for start in starts), key=self.value)
        found = min((self._improved(start) for start in alone[:_BEST]), key=self.value)
        return [options.choices[c] for options, c in zip(self._options, found, strict=True)]

    def value(self, chosen: list[int]) -> float:
        """What the search makes small, of numbers of choices."""
        return float(self._values(self._sum(chosen)[None])[0])

    def _sum(self, chosen: list[int]) -> Array:
        pairs = zip(self._options, chosen, strict=True)
        return np.asarray(np.sum([options.parts[c] for options, c in pairs], axis=0))

    def _values(self, parts: Array) -> Array:
        """Of sums of parts, (..., parts)."""
        end = self._shape[0] * self._shape[1]
        seconds = parts[..., :end].reshape(*parts.shape[:-1], *self._shape)
        longest = seconds.max(axis=-1)
        step = self._model.whole_step(longest, parts[..., -1] > 0)
        without = np.maximum(parts[..., end:-1] - self._limits, 0).sum(axis=-1)
        hidden = _HIDDEN * longest.sum(axis=-1)
        return np.asarray(step + hidden + _NO_ROOM * without)

    def _starts(self) -> list[list[int]]:
        """Greedy in two orders, by work, with nobody asking for rows, and every kind for all tables
        that may have it."""
        cheapest = [float(o.seconds.max(axis=-1).sum(axis=-1).min()) for o in self._options]
        largest = [float(o.bytes.sum(axis=1).min()) for o in self._options]
        orders = (cheapest, largest) if len(self._options) <= _FEW else (cheapest,)
        starts = [self._greedy(list(np.argsort(order)[::-1])) for order in orders]
        order = list(np.argsort(cheapest)[::-1])
        starts += [self._greedy(order, self._least_work(beside)) for beside in (False, True)]
        silent = [np.flatnonzero(options.asks == 0).tolist() for options in self._options]
        if all(silent):  # what asking takes once, no change of a table or two would save
            starts.append(self._greedy(order, silent))
        kinds = {choice.kind for options in self._options for choice in options.choices}
        if len(self._options) <= _FEW:
            for kind in sorted(kinds):
                alike = [self._of_kind(options, kind) for options in self._options]
                starts.append(self._greedy(order, alike))
        return starts

    @staticmethod
    def _of_kind(options: _Options, kind: str) -> list[int]:
        """Choices of a table that are of the kind and leave its exchange; else its first."""
        found = [
            c
            for c, choice in enumerate(options.choices)
            if choice.kind == kind and choice.exchange is None
        ]
        return found or [0]

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
        total = np.zeros_like(self._options[0].parts[0])
        for t in order:
            options = self._options[t]
            some = allowed[t] if allowed else slice(None)
            values = self._values(total + options.parts[some])
            best = int(values.argmin()) if allowed is None else allowed[t][int(values.argmin())]
            chosen[t] = best
            total = total + options.parts[best]
        return chosen

    def _improved(self, start: list[int], *, pairs: bool = True) -> list[int]:
        """Until no change of a table, and of two where there are few, makes it less."""
        chosen = list(start)
        for _ in range(_ROUNDS):
            changed = self._change_one(chosen)
            if not changed and not (pairs and self._change_two(chosen)):
                break
        return chosen

    def _change_one(self, chosen: list[int]) -> bool:
        total = self._sum(chosen)
        value = float(self._values(total[None])[0])
        changed = False
        for t, options in enumerate(self._options):
            if len(options.choices) == 1:
                continue
            rest = total - options.parts[chosen[t]]
            values = self._values(rest + options.parts)
            best = int(values.argmin())
            if values[best] < value * (1 - 1e-9):
                chosen[t], value, changed = best, float(values[best]), True
                total = rest + options.parts[best]
        return changed

    def _change_two(self, chosen: list[int]) -> bool:
        sizes = [len(options.choices) for options in self._options]
        if sum(sizes) ** 2 > _PAIRS:
            return False
        value = self.value(chosen)
        total = self._sum(chosen)
        for a, first in enumerate(self._options):
            for b in range(a + 1, len(self._options)):
                second = self._options[b]
                rest = total - first.parts[chosen[a]] - second.parts[chosen[b]]
                values = self._values(rest + first.parts[:, None] + second.parts[None])
                best = np.unravel_index(int(values.argmin()), values.shape)
                if values[best] < value * (1 - 1e-9):
                    chosen[a], chosen[b] = int(best[0]), int(best[1])
                    return True
        return False


def rooms_of(held: Held | Costs, job: Job) -> Array:
    """Bytes of each device, in the host memory of each process, and that a table's own budgets
    lack: (rooms), or (choices, rooms)."""
    processes = range(0, job.devices, job.column_devices)
    host = np.add.reduceat(held.host, list(processes), axis=-1)
    return np.concatenate([held.device, host, np.asarray(held.lacking)[..., None]], axis=-1)


def limits_of(job: Job) -> Array:
    """Most bytes of the same; infinite where that is not known."""
    device, host = float(job.machine.memory) or np.inf, job.machine.host_memory or np.inf
    processes = len(range(0, job.devices, job.column_devices))
    return np.array([device] * job.devices + [host] * processes + [0.0])
