# SPDX-License-Identifier: Apache-2.0
"""Bytes and predicted time of tables, phase by phase and device by device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hugectr.plan.job import Choice, Job, asks
from hugectr.plan.laid_rows import LaidRows, distinct_rows
from hugectr.plan.table_cost import Array, Cost, Costs, Held, swapped
from hugectr.plan.table_load import TableLoad, column_devices
from hugectr.plan.travel import LEAST_ALONE, Travel
from hugectr.plan.whole_step import BESIDE, PHASES, hidden, whole_step

_PLAN, _GATHER, _FORWARD, _BACKWARD, _UPDATE, _MOVE = range(len(PHASES))
_BESIDE = tuple(PHASES.index(phase) for phase in BESIDE)
#: Kernels of a plan, however many tables it is for, as core/cuda launches them: buckets expanded,
#: keys found, sorted (most are passes of the sort), new rows made.
PLAN_KERNELS = 18
#: An update of tables of one vector size sums short runs of gradients, chunks of long ones, and
#: folds these; a worker's reads wait for each other in chains as long as a few of a lookup's.
_UPDATE_KERNELS, _UPDATE_CHAINS = 3, 5
#: So many tables go into one of these kernels, and so many of them run at once (branches.hpp).
_TABLES_OF_KERNEL, _KERNELS_AT_ONCE = 19, 4
#: Kernels of a phase that walk over a list of tables, each of which adds to them.
_PLAN_WALKS, _GATHER_WALKS, _UPDATE_WALKS = 12, 1, 6
#: Kernels and events of a plan that bring rows to their places, however many tables have some.
_STAGING = 35
#: A replicated table's keys are told to all devices and looked up again, which takes so many times
#: what asking owners does (two H200).
_TOLD_TO_ALL = 3.6

#: Forward, and backward of the same vectors.
Bytes = tuple[float, float]


def _on_first(choice: Choice) -> Choice:
    """The same on the first device, where devices are alike. Columns end with a process."""
    if choice.kind != "one_device" or choice.device == 0:
        return choice
    return Choice(choice.kind, 0, choice.exchange)


class CostModel:
    """Costs of tables in a job.

    Rates of collectives depend on how much travels at once: they are those of all tables placed by
    key, which is about what any plan moves.

    Parameters
    ----------
    job : Job
    tables : list of TableLoad
    """

    def __init__(self, job: Job, tables: list[TableLoad]) -> None:
        self.job = job
        self._travel = Travel(job.made)
        way, share = self._travel, (job.devices - 1) / job.devices
        vectors = [(job.batch * t.slots, t.wire, t.vec_size) for t in tables]
        there = sum(count * way.vector(wire, d) for count, wire, d in vectors)
        back = sum(count * way.row_gradient(wire, d) for count, wire, d in vectors)
        # Bytes a second forward and backward.
        self._link, self._link_back = (
            job.machine.link(max(1.0, share * size / job.devices)) for size in (there, back)
        )
        self._tables = len(tables)
        several = len(tables) > 1
        self._walk = job.machine.table if several else 0.0
        self._sizes = len({table.vec_size for table in tables})
        machine = job.machine
        # An update's kernels one after the other, beside what they move, and a table's share.
        self._round = _UPDATE_KERNELS * machine.launch + _UPDATE_CHAINS * machine.chain
        of_kernels = self._round / (_TABLES_OF_KERNEL * _KERNELS_AT_ONCE)
        self._share = of_kernels + _UPDATE_WALKS * self._walk if several else 0.0
        self._staged = any(table.tiers is not None and table.tiers.device for table in tables)
        self._fixed = self.fixed(False)[:, 0]
        self._asking = self.fixed(True)[_PLAN, 0] - self._fixed[_PLAN]
        beside = np.isin(np.arange(len(PHASES)), _BESIDE)
        self._split = np.stack([beside, ~beside], axis=1).astype(np.float64)
        self._fixed_beside = float(self._fixed @ self._split[:, 0])
        self._rows = LaidRows(job)
        self._costs: dict[tuple[int, Choice], tuple[TableLoad, Cost]] = {}
        self._orders = np.array([swapped(job.devices, r) for r in range(job.devices)])

    def fixed(self, asks: bool) -> Array:
        """Seconds of each phase on each device wherever tables lie: kernels, what a collective
        takes at least, and where devices ask each other for rows of any table, their waits."""
        job, machine = self.job, self.job.machine
        seconds = np.zeros((len(PHASES), 2 * job.devices))
        if not self._sizes:
            return seconds
        seconds[_PLAN] = PLAN_KERNELS * machine.launch + self._tables * machine.outcome
        seconds[_MOVE] = _STAGING * machine.launch if self._staged else 0.0
        # Tables of one vector size are read by one kernel.
        seconds[_GATHER] = self._sizes * (machine.launch + machine.chain)
        rounds = -(-self._sizes // _KERNELS_AT_ONCE)
        seconds[_UPDATE] = machine.launch + rounds * self._round
        if job.devices > 1:
            seconds[_PLAN] += machine.asking if asks else 0.0
            seconds[_FORWARD] = seconds[_BACKWARD] = machine.latency
        return seconds

    def whole_step(self, longest: Array, asks: npt.NDArray[np.bool_] | bool) -> Array:
        """Seconds of steps whose tables take so long in each phase on the device that takes
        longest, (..., phases), beside what is fixed; ``asks``: whether rows of some are asked
        for."""
        phases = longest + self._fixed
        beside_and_rest = phases @ self._split
        asking = self._asking * np.asarray(asks, np.float64)
        beside, rest = beside_and_rest[..., 0] + asking, beside_and_rest[..., 1]
        rest = rest - hidden(phases[..., _FORWARD], phases[..., _BACKWARD], self.job.hiding)
        fixed = self._fixed_beside + asking
        return whole_step(beside, rest, fixed, self.job.dense.whole, self.job.machine.beside)

    def costs(self, table: TableLoad, choices: Sequence[Choice]) -> Costs:
        """Of one table at several places."""
        found: dict[Choice, Cost] = {}
        alike = [_on_first(choice) for choice in choices]
        for choice in alike:
            if choice not in found:
                found[choice] = self._cost_on_first(table, choice)
        on = [choice.device if choice.kind == "one_device" else 0 for choice in choices]
        return Costs.at([found[choice] for choice in alike], self._orders[on])

    def cost(self, table: TableLoad, choice: Choice) -> Cost:
        """Of one table at one place; each is worked out once, and devices are alike."""
        on_first = _on_first(choice)
        found = self._cost_on_first(table, on_first)
        return found if on_first is choice else found.elsewhere(self._orders[choice.device])

    def _cost_on_first(self, table: TableLoad, choice: Choice) -> Cost:
        key = id(table), choice
        if key not in self._costs:
            self._costs[key] = table, self._cost(table, choice)  # keeps what has the id
        return self._costs[key][1]

    def _cost(self, table: TableLoad, choice: Choice) -> Cost:
        devices = self.job.devices
        seconds, held = np.zeros((len(PHASES), 2 * devices)), Held(devices)
        if choice.exchange is not None:
            table = replace(table, exchange=choice.exchange)
        getattr(self, f"_{choice.kind}")(table, choice, seconds, held)
        # Every device plans every table, whoever has its rows.
        seconds[_PLAN] += _PLAN_WALKS * self._walk
        cost = Cost(seconds, held)
        if choice.kind == "by_column" and choice.device > 0:  # the first of those that have columns
            return cost.elsewhere(np.roll(np.arange(devices), choice.device))
        return cost

    def _work(
        self,
        t: TableLoad,
        out: Array,
        part: float,
        width: float,
        rows: float,
        of_own_samples: bool = False,
    ) -> None:
        """Of devices that have `part` of a batch's keys, so many columns, and update `rows`."""
        self._find(t, out, part, of_own_samples)
        self._pool(t, out, part, width, rows)
        self._update(t, out, width, rows)

    def _find(self, t: TableLoad, out: Array, part: float, of_own_samples: bool = False) -> None:
        """Rows of `part` of a batch's keys."""
        keys, machine = self.job.batch * t.keys, self.job.machine
        seen = part * keys if of_own_samples else keys
        out[_PLAN] += 8 * seen / machine.copy + part * keys / machine.keys

    def _pool(self, t: TableLoad, out: Array, part: float, width: float, rows: float) -> None:
        """Sums of so many rows in buckets, and of gradients by row."""
        job, machine, d = self.job, self.job.machine, width * t.vec_size
        keys, vectors = part * job.batch * t.keys, part * job.batch * t.slots
        # A row comes from memory once, and for its other keys from a cache.
        first = min(rows, keys) * d * t.vector_bytes + vectors * d * job.number_bytes
        again = max(0.0, keys - rows) * d * t.vector_bytes
        rate = machine.passes or machine.copy
        out[_GATHER] += first / rate + again / (machine.cached or rate) + _GATHER_WALKS * self._walk
        gradients = keys * d * job.number_bytes / (machine.gradients or machine.copy)
        out[_UPDATE] += gradients + (keys / machine.accesses if machine.accesses else 0.0)

    def _update(self, t: TableLoad, out: Array, width: float, rows: float) -> None:
        """Of so many rows, whose sums are there."""
        machine, d = self.job.machine, width * t.vec_size
        states = t.state_numbers / max(1, t.vec_size)
        updated = rows * d * 2 * (t.vector_bytes + 4 * states) / (machine.update or machine.copy)
        out[_UPDATE] += updated + self._share

    def _own_work(
        self, t: TableLoad, out: Array, at: slice, part: float, rows: float, as_rows: bool
    ) -> None:
        """Of devices that own `part` of a table, and update `rows`. Where rows travel, who asked
        pools them (`_asked_work`)."""
        self._find(t, out[:, at], part)
        if not as_rows:
            self._pool(t, out[:, at], part, 1.0, rows)
        self._update(t, out[:, at], 1.0, rows)

    def _asked_work(self, t: TableLoad, out: Array, rows: float) -> None:
        """Of all devices, with rows that came: each pools its samples, of whose keys it sorts the
        places, and sums their gradients. Rows that several ask for count once, as where each has
        its share of a table."""
        n = self.job.devices
        self._pool(t, out[:, :n], 1 / n, 1.0, rows / n)
        out[_PLAN] += self.job.batch * t.keys / n / self.job.machine.keys

    def _send(
        self,
        out: Array,
        at: slice,
        sent: Bytes,
        came: Bytes,
        peers: float = 0.0,
        as_rows: bool = True,
    ) -> None:
        """Bytes that each of these devices sends in forward, to or from so many others (0: all),
        and those that come; in backward it is the other way round."""
        n = self.job.devices
        lanes = at, slice(n + at.start, n + at.stop)
        others = peers or max(1, n - 1)
        for lane, there, back in zip(lanes, (sent, came), (came, sent), strict=True):
            out[_FORWARD, lane] += self._seconds(there[0], self._link, others, as_rows)
            out[_BACKWARD, lane] += self._seconds(back[1], self._link_back, others, as_rows)

    def _seconds(self, size: float, link: float, peers: float, as_rows: bool) -> float:
        """Of so many bytes to or from so many others."""
        machine = self.job.machine
        seconds = size / link + (machine.message if size >= LEAST_ALONE * peers else 0.0)
        return seconds if as_rows or not machine.sums else seconds + size / machine.sums

    def _ask(self, t: TableLoad, out: Array, times: float = 1.0) -> None:
        """Keys go to the devices that have their rows, when a batch is planned."""
        job, machine = self.job, self.job.machine
        if job.devices == 1:
            return
        keys = job.batch * t.keys / job.devices
        asked = times * keys / machine.asked_keys if machine.asked_keys else 0.0
        out[_PLAN] += machine.asking_table + asked

    def _by_key(self, t: TableLoad, choice: Choice, out: Array, held: Held) -> None:
        n = self.job.devices
        if asks(t, choice):
            self._ask(t, out)
        self._rows.lay(t, out, held, slice(None), n, 1 / n, keys=1 / n)
        rows, own = distinct_rows(t, self.job)
        # Every device has a sum of every bucket.
        sums = self.job.batch * t.slots * (n - 1) / n
        travel = own * (n - 1) / n
        as_rows = self._travel.as_rows(t, travel, sums)
        self._own_work(t, out, slice(0, n), 1 / n, rows / n, as_rows)
        self._rows_go(t, out, slice(0, n), own if as_rows else sums)
        if as_rows:
            self._asked_work(t, out, rows)
        both = self._travel.each_way(t, travel, sums, as_rows)
        self._send(out, slice(0, n), both, both, as_rows=as_rows)

    def _rows_go(self, t: TableLoad, out: Array, at: int | slice, rows: float) -> None:
        """So many rows, or sums, of a device are gathered to be sent."""
        size = rows * t.vec_size * self.job.number_bytes
        out[_GATHER, at] += size / self.job.machine.copy

    def _by_slot(self, t: TableLoad, choice: Choice, out: Array, held: Held) -> None:
        n = self.job.devices
        if asks(t, choice):
            self._ask(t, out)
        rows, own = distinct_rows(t, self.job)
        more, fewest = t.slots % n, t.slots // n  # devices that have a slot more
        most = fewest + (more > 0)
        # Of the device that moves most, as the core chooses for all of them.
        as_rows = self._travel.as_rows(
            t,
            own * max((n - 1) * most, t.slots - fewest) / t.slots,
            self.job.batch / n * max((n - 1) * most, t.slots - fewest),
        )
        for at, slots in ((slice(0, more), most), (slice(more, n), fewest)):
            if at.start == at.stop:
                continue
            part = slots / t.slots
            if part:
                self._rows.lay(t, out, held, at, min(n, t.slots), part, keys=part)
            sent = self.job.batch * (n - 1) / n * slots
            come = self.job.batch / n * (t.slots - slots)
            rows_sent, rows_come = own * (n - 1) * part, own * (1 - part)
            self._own_work(t, out, at, part, rows * part, as_rows)
            if as_rows:
                self._rows_go(t, out, at, own * n * part)
            self._send(
                out,
                at,
                self._travel.each_way(t, rows_sent, sent, as_rows),
                self._travel.each_way(t, rows_come, come, as_rows),
                as_rows=as_rows,
            )
        if as_rows:
            self._asked_work(t, out, rows)

    def _one_device(self, t: TableLoad, choice: Choice, out: Array, held: Held) -> None:
        n, r = self.job.devices, choice.device
        rows, own = distinct_rows(t, self.job)
        self._rows.lay(t, out, held, r, 1)
        if n == 1:
            self._work(t, out[:, r], 1.0, 1.0, rows)
            return
        if asks(t, choice):
            self._ask(t, out)
        sums = self.job.batch / n * t.slots
        as_rows = self._travel.as_rows(t, own, sums)
        self._own_work(t, out, slice(r, r + 1), 1.0, rows, as_rows)
        if as_rows:
            self._rows_go(t, out, r, own * n)
            self._asked_work(t, out, rows)
        there, back = self._travel.each_way(t, own, sums, as_rows)
        others = self._orders[r, 1:]
        out[_FORWARD, n + others] += self._seconds(there, self._link, 1.0, as_rows)
        out[_BACKWARD, others] += self._seconds(back, self._link_back, 1.0, as_rows)
        all_of_them = (n - 1) * there, (n - 1) * back
        self._send(out, slice(r, r + 1), all_of_them, (0.0, 0.0), as_rows=as_rows)

    def _replicated(self, t: TableLoad, _: Choice, out: Array, held: Held) -> None:
        n, machine = self.job.devices, self.job.machine
        rows, own = distinct_rows(t, self.job)
        self._rows.lay(t, out, held, slice(None), n, keys=1 / n)
        self._work(t, out, 1 / n, 1.0, rows, of_own_samples=True)
        if n == 1:
            return
        self._ask(t, out, _TOLD_TO_ALL)
        # A row that is new on one device is new on all: they tell each other their distinct keys,
        # which are looked up and sorted again.
        out[_PLAN] += n * own / machine.keys + (n - 1) * own * 12 / self._link
        # Sums are added up on their way, there and back in float32, or come as they are.
        number = t.vec_size * self._travel.replica_number
        added_up = 2 * (n - 1) / n * rows * t.vec_size * 4
        apart = (n - 1) * own * number
        size = (0.0, min(added_up, apart))
        self._send(out, slice(0, n), size, size)
        at_once = rows * t.vec_size * 4 if added_up < apart else n * own * number
        out[_UPDATE] += (3 * own * t.vec_size * 4 + at_once) / machine.copy

    def _hybrid(self, t: TableLoad, choice: Choice, out: Array, held: Held) -> None:
        found = t.frequent
        if found is None:
            return self._by_key(t, choice, out, held)
        keys = max(self.job.batch * t.keys * found.share, 1e-9)
        distinct = min(1.0, found.rows / keys)
        own = min(1.0, found.rows / (keys / self.job.devices))
        share = max(found.share, 1e-9)
        common = replace(
            t, rows=found.rows, keys=t.keys * share, distinct=distinct, distinct_of_device=own
        )
        rare = replace(
            t,
            rows=max(1, t.rows - found.rows),
            keys=t.keys * max(1 - share, 1e-9),
            distinct=found.distinct,
            distinct_of_device=found.distinct_of_device,
        )
        self._replicated(common, choice, out, held)
        self._by_key(rare, choice, out, held)
        # Vectors of both parts are added up, and keys looked for among the frequent ones.
        vectors = self.job.batch / self.job.devices * t.slots * t.vec_size * self.job.number_bytes
        out[_GATHER] += 3 * vectors / self.job.machine.copy
        out[_PLAN] += 2 * self.job.batch * t.keys * 12 / self.job.machine.copy
        return None

    def _by_column(self, t: TableLoad, choice: Choice, out: Array, held: Held) -> None:
        n = self.job.devices
        holders = column_devices(t.vec_size, self.job.columns_from(choice.device))
        rows, _own = distinct_rows(t, self.job)
        block = self.job.batch / n * t.slots * holders
        block *= self._travel.vector(t.wire, t.vec_size // holders)
        have, others = slice(0, holders), slice(holders, n)
        for at, of in ((have, holders - 1), (others, holders)):
            come = block * of / holders
            sent = block / holders * (n - 1) if at is have else 0.0
            peers = max(come, sent) / (block / holders)
            self._send(out, at, (sent, sent), (come, come), peers, as_rows=False)
        self._rows.lay(t, out, held, have, holders, width=1 / holders)
        self._work(t, out[:, have], 1.0, 1 / holders, rows)
