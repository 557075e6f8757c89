# SPDX-License-Identifier: Apache-2.0
"""A machine's rates of tables, from what the phases of some batches took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hugectr.plan.cost import CostModel
from hugectr.plan.job import Choice, Job
from hugectr.plan.machine import Machine
from hugectr.plan.table_cost import Array
from hugectr.plan.table_load import TableLoad
from hugectr.plan.whole_step import PHASES

#: What is fitted: of some a second, and seconds.
RATES = ("keys", "cached", "accesses", "gradients", "update")
SECONDS = ("chain", "table")
#: A rate that is too fast to be seen.
_FASTEST = 1e18


@dataclass(frozen=True)
class TableTimes:
    """Tables of one device that are alike, have one key a slot and no optimizer state, and what
    the phases of a batch took.

    Attributes
    ----------
    tables, d : int
    samples, slots : int
        Slots are those of one table.
    distinct : float
        Rows of a batch, as a share of its keys.
    number_bytes : int
        Of a number of a gradient.
    plan, gather, update : float
        Seconds.
    """

    tables: int
    d: int
    samples: int
    slots: int
    distinct: float
    number_bytes: int
    plan: float
    gather: float
    update: float

    def predicted(self, machine: Machine) -> Array:
        """Seconds of plan, gather and update by the model of cost."""
        load = TableLoad("", 1 << 40, self.d, self.slots, self.slots, self.distinct, self.distinct)
        loads = [load] * self.tables
        made = "float32" if self.number_bytes == 4 else "bfloat16"
        model = CostModel(Job(1, self.samples, machine, made), loads)
        seconds = model.fixed(False) + self.tables * model.cost(load, Choice("by_key")).seconds
        rows = [PHASES.index(phase) for phase in ("plan", "gather", "update")]
        return np.asarray(seconds[rows, 0])


def fitted(machine: Machine, times: Sequence[TableTimes]) -> Machine:
    """The machine with the rates that explain these times best, relatively.

    The model of cost adds up counts over rates and counts times seconds, so each unknown is a
    column: what it alone makes of every phase. A rate that does not show is as fast as any.

    Parameters
    ----------
    machine : Machine
        Its launches and passes are known.
    times : sequence of TableTimes
        More phases in all than there are unknowns, of unlike batches.
    """
    zero = dict.fromkeys(RATES, _FASTEST) | dict.fromkeys(SECONDS, 0.0)

    def phases(found: dict[str, float]) -> Array:
        # What is found ready by the host is no op, and not among the times.
        one = machine.with_rates({"outcome": 0.0} | zero | found)
        return np.concatenate([entry.predicted(one) for entry in times])

    known = phases({})
    # A rate of one a second and one second each are the units.
    columns = np.stack([phases({name: 1.0}) - known for name in RATES + SECONDS], axis=1)
    measured = np.array([(t.plan, t.gather, t.update) for t in times]).ravel()
    found = nonnegative(columns / measured[:, None], 1.0 - known / measured)
    factors = dict(zip(RATES + SECONDS, map(float, found), strict=True))
    rates = {name: min(_FASTEST, 1.0 / max(factors[name], 1e-30)) for name in RATES}
    return machine.with_rates(rates | {name: factors[name] for name in SECONDS})


def nonnegative(columns: Array, values: Array) -> Array:
    """Factors of the columns, none below 0, with the least squares; by active sets.

    Parameters
    ----------
    columns : array (values, factors)
    values : array (values,)
    """
    scale = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(scale > 0, scale, 1.0)
    factors = np.zeros(columns.shape[1])
    active = np.zeros(columns.shape[1], bool)
    for _ in range(10 * len(factors)):
        gain = np.where(active, -np.inf, scaled.T @ (values - scaled @ factors))
        if gain.max() <= 1e-9:
            break
        active[gain.argmax()] = True
        while True:
            wanted = np.zeros_like(factors)
            wanted[active] = np.linalg.lstsq(scaled[:, active], values, rcond=None)[0]
            below = active & (wanted <= 0)
            if not below.any():
                break
            # As far towards what is wanted as all stay at or above 0; who is at 0 goes.
            steps = factors[below] / np.maximum(factors[below] - wanted[below], 1e-300)
            factors = factors + steps.min() * (wanted - factors)
            active &= factors > 1e-12
            factors[~active] = 0.0
        factors = wanted
    return np.asarray(factors / np.where(scale > 0, scale, 1.0))
