# SPDX-License-Identifier: Apache-2.0
"""Who holds which table, and what a step is predicted to take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.base.arguments import check_float, check_int
from hugectr.base.errors import InvalidArgument, did_you_mean, rejected
from hugectr.base.html_table import html_table
from hugectr.base.places import file_place
from hugectr.base.printable import printable
from hugectr.plan.whole_step import BESIDE, TRAVEL, hidden, whole_step

FORMAT = "hugectr placements"
VERSION = 1
#: Kinds that name a device.
OF_A_DEVICE = ("one_device", "by_column")
#: Of ``Model.stage_seconds()``, those that are predicted.
_STAGES = ("plan", "embedding_forward", "dense", "exchange_update", "embedding_update")


@dataclass(frozen=True)
class TablePlacement:
    """One table of a plan.

    Attributes
    ----------
    name : str
    kind : str
        As ``Placement`` calls it.
    device : int or None
        Of one_device: which, None: the one with the least work. Of by_column: the first, None: 0.
    rows : int
        That were counted on, of the whole job.
    bytes : tuple of int
        Of its rows on each device.
    ms : dict of str to float
        Predicted milliseconds of each phase on the device that is busiest with it.
    host, disk : tuple of int
        Bytes of each device's rows in host memory and on a disk, where the table has a ``Memory``;
        empty: none.
    exchange : {"auto", "pooled", "unique"} or None
        As ``SparseEmbedding`` has it; None: the table's own.
    """

    name: str
    kind: str
    device: int | None = None
    rows: int = 0
    bytes: tuple[int, ...] = ()
    ms: Mapping[str, float] = field(default_factory=dict)
    host: tuple[int, ...] = ()
    disk: tuple[int, ...] = ()
    exchange: str | None = None

    def __str__(self) -> str:
        placed = self.kind if self.device is None else f"{self.kind} {self.device}"
        return placed if self.exchange is None else f"{placed} {self.exchange}"


@dataclass(frozen=True)
class PlacementPlan:
    """Placements of all tables of a model.

    Attributes
    ----------
    tables : tuple of TablePlacement
    devices : int
        That it was made for; 0: a file does not say.
    batchsize : int
        Global.
    machine : str
        What the predictions are made for.
    ms : dict of str to float
        Predicted milliseconds of each phase of the tables' part of a step: those of the device that
        takes longest, because a phase ends on all of them at once.
    uniform_ms : dict of str to float
        Of whole steps (``training_ms``) with one placement for all tables that may have it, the
        others by key; of those that have room, unless the plan itself lacks some. Placements that
        tables have are left aside, so that these may be shorter than the plan.
    measured_ms : dict of str to float
        Of the stages of a step that are predicted (``beside``); empty: not measured.
    dense_ms : float
        Predicted milliseconds of the dense network: forward, backward and its optimizer; 0: not
        predicted.
    hiding_ms : dict of str to float
        Of ``dense_ms``, what lies beside each of the phases "send vectors" and "send gradients",
        for it waits for neither: a step is shorter by as much of them.
    fixed_ms : dict of str to float
        What of ``ms`` is launches and waits, however much is moved: what collectives take at least,
        and what asking for rows does once, where any table's are asked for.
    plan_share : float
        Of the time of planning without what is fixed, what the step beside it is longer by.
    lacking : tuple of str
        Where there is no room for it, and how many bytes lack; empty: nowhere.
    notes : tuple of str
        What was not known, and taken to be something.
    """

    tables: tuple[TablePlacement, ...]
    devices: int
    batchsize: int
    machine: str = ""
    ms: Mapping[str, float] = field(default_factory=dict)
    uniform_ms: Mapping[str, float] = field(default_factory=dict)
    measured_ms: Mapping[str, float] = field(default_factory=dict)
    dense_ms: float = 0.0
    hiding_ms: Mapping[str, float] = field(default_factory=dict)
    fixed_ms: Mapping[str, float] = field(default_factory=dict)
    plan_share: float = 0.0
    lacking: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def beside(self, stage_seconds: Mapping[str, float], steps: int) -> PlacementPlan:
        """The same with what was measured: ``Model.stage_seconds()`` of so many steps.

        Parameters
        ----------
        stage_seconds : mapping of str to float
            ``plan`` is the phase of that name, ``embedding_forward`` gathers and sends vectors,
            ``dense`` is the network with its optimizer,
            ``embedding_update`` sends gradients and updates, as far as nothing of it lies beside
            other work; ``exchange_update`` is what is waited for of the latter.
        steps : int

        Raises
        ------
        InvalidArgument
            When a measured stage is no time, or there was no step.
        """
        check_int("beside: steps", steps, 1)
        given: Any = stage_seconds
        if not isinstance(given, Mapping):
            allowed = "seconds by stage, as Model.stage_seconds() gives them"
            raise rejected("beside: stage_seconds", given, allowed)
        return replace(
            self,
            measured_ms={
                name: round(1e3 * self._seconds(stage_seconds, name) / steps, 6)
                for name in _STAGES
                if name in stage_seconds
            },
        )

    @staticmethod
    def _seconds(stage_seconds: Mapping[str, float], name: str) -> float:
        return check_float(f"beside: stage_seconds[{name!r}]", stage_seconds[name], 0.0)

    @property
    def step_ms(self) -> float:
        """Predicted milliseconds of all phases."""
        return sum(self.ms.values())

    @property
    def hidden_ms(self) -> float:
        """Of what travels, predicted milliseconds that dense work hides."""
        vectors, gradients = (self.ms.get(phase, 0.0) for phase in TRAVEL)
        before, behind = (self.hiding_ms.get(phase, 0.0) for phase in TRAVEL)
        return float(hidden(vectors, gradients, (before, behind)))

    @property
    def training_ms(self) -> float:
        """Predicted milliseconds of a whole step: the next batch is planned beside it and its rows
        are moved, what both use is shared, and what travels hides beside dense work."""
        planned = sum(self.ms.get(phase, 0.0) for phase in BESIDE)
        fixed = sum(self.fixed_ms.get(phase, 0.0) for phase in BESIDE)
        rest = self.step_ms - planned - self.hidden_ms
        return float(whole_step(planned, rest, fixed, self.dense_ms, self.plan_share))

    @property
    def bytes(self) -> tuple[int, ...]:
        """Of all tables' rows on each device."""
        return self._sums([table.bytes for table in self.tables])

    @property
    def host(self) -> tuple[int, ...]:
        """Bytes of each device's rows in host memory."""
        return self._sums([table.host for table in self.tables])

    @property
    def disk(self) -> tuple[int, ...]:
        """Bytes of each device's rows on a disk."""
        return self._sums([table.disk for table in self.tables])

    @property
    def tiers(self) -> dict[str, tuple[int, ...]]:
        """Bytes of each device's rows by where they lie: "device", and "host" and "disk" where
        there are some."""
        found = {"device": self.bytes, "host": self.host, "disk": self.disk}
        return {tier: held for tier, held in found.items() if tier == "device" or any(held)}

    def _sums(self, held: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        sums = np.zeros(self.devices)
        for of_table in held:
            if of_table:
                sums += of_table
        return tuple(int(count) for count in sums)

    def check_tables(self, names: Sequence[str], devices: int) -> None:
        """Refuse a plan that is of other tables, or names devices that there are none.

        Parameters
        ----------
        names : sequence of str
            Of the model's tables.
        devices : int
            Of the job.

        Raises
        ------
        InvalidArgument
            When a table is in one of both alone, or a device is none of the job's.
        """
        own = [table.name for table in self.tables]
        for name in own:
            if name not in names:
                near = did_you_mean(name, names)
                raise rejected("plan: table", name, f"a table of the model: {list(names)}{near}")
        for name in names:
            if name not in own:
                raise InvalidArgument(
                    f"plan: table {name!r} is not in it, it has {own}: name a placement for every "
                    "table"
                )
        for table in self.tables:
            if table.device is not None and table.device >= devices:
                raise InvalidArgument(
                    f"plan: table {table.name!r} is placed on device {table.device}, the job has "
                    f"{devices} (0 to {devices - 1}): change its device in the plan, or leave it "
                    f"out; hugectr model plan --devices {devices} makes another"
                )

    def for_devices(self, devices: int) -> PlacementPlan:
        """The same for a job of so many devices, where it was made for another number: tables on
        devices that there are not have none named."""
        if self.devices in (0, devices):
            return self
        tables = (
            replace(table, device=None) if (table.device or 0) >= devices else table
            for table in self.tables
        )
        return replace(self, tables=tuple(tables))

    def to_json(self) -> dict[str, Any]:
        """All of it, as a file holds it."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "devices": self.devices,
            "batchsize": self.batchsize,
            "machine": self.machine,
            "predicted_ms": dict(self.ms),
            "uniform_ms": dict(self.uniform_ms),
            "measured_ms": dict(self.measured_ms),
            "dense_ms": self.dense_ms,
            **({"hiding_ms": dict(self.hiding_ms)} if self.hiding_ms else {}),
            "fixed_ms": dict(self.fixed_ms),
            "plan_share": self.plan_share,
            **({"lacking": list(self.lacking)} if self.lacking else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
            "tables": [
                {
                    name: list(value) if isinstance(value, tuple) else value
                    for name, value in asdict(table).items()
                    if not (name in ("device", "exchange") and value is None)
                    and not (name in ("host", "disk") and not value)
                }
                for table in self.tables
            ],
        }

    def save(self, path: str | Path) -> None:
        """Write it as JSON, which may be edited and given to ``CreateSolver(plan=...)``. Folders
        that are missing are made.

        Raises
        ------
        InvalidArgument
            When the file can not be written.
        """
        text = json.dumps(self.to_json(), indent=2) + "\n"
        place = file_place("plan: path", path)
        try:
            place.write_text(text, encoding="utf-8")
        except OSError as error:
            why = error.strerror or error
            raise InvalidArgument(f"plan: {str(path)!r} can not be written: {why}") from error

    def __str__(self) -> str:
        """A line a table, then the phases, then what other plans would take."""
        names = [printable(table.name) for table in self.tables]  # of a config from anywhere
        wide = max([len(name) for name in names] + [5])
        kind = max([len(str(table)) for table in self.tables] + [13])
        lines = [
            f"{name.ljust(wide)}  {str(table).ljust(kind)}  {table.rows:>12,} rows"
            f"  {sum(table.ms.values()):8.3f} ms{_tiers_of(table)}"
            for name, table in zip(names, self.tables, strict=True)
        ]
        lines.append(
            f"predicted for {self.devices} devices, batch {self.batchsize}, "
            f"{printable(self.machine)}:"
        )
        if len(self.tiers) > 1:
            lines += [
                f"  {tier.ljust(15)} {max(held) / 1e9:8.3f} GB of the device with the most rows"
                for tier, held in self.tiers.items()
            ]
        lines += [f"  no room: {printable(where)}" for where in self.lacking]
        lines += [f"  note: {printable(said)}" for said in self.notes]
        for phase, ms in self.ms.items():
            fixed = self.fixed_ms.get(phase, 0.0)
            beside = f", {fixed:.3f} of it launches and waits" if fixed else ""
            lines.append(f"  {printable(phase).ljust(15)} {ms:8.3f} ms{beside}")
        lines.append(f"  {'tables in all'.ljust(15)} {self.step_ms:8.3f} ms")
        if self.dense_ms:
            hides = (
                f", which hides {self.hidden_ms:.3f} ms of what travels" if self.hidden_ms else ""
            )
            lines.append(f"  {'dense network'.ljust(15)} {self.dense_ms:8.3f} ms{hides}")
        lines.append(f"  {'whole step'.ljust(15)} {self.training_ms:8.3f} ms, {self.beside_step}")
        uniform = [(printable(name), ms) for name, ms in self.uniform_ms.items()]
        lines += [f"  all {name.ljust(11)} {ms:8.3f} ms" for name, ms in uniform]
        if self.measured_ms:
            lines.append("measured:")
            stages = [(printable(name), ms) for name, ms in self.measured_ms.items()]
            lines += [f"  {name.ljust(15)} {ms:8.3f} ms" for name, ms in stages]
        return "\n".join(lines)

    @property
    def beside_step(self) -> str:
        """What is beside the step, and what that does to it."""
        planned, fixed = (
            sum(ms.get(phase, 0.0) for phase in BESIDE) for ms in (self.ms, self.fixed_ms)
        )
        names = " and ".join(phase for phase in BESIDE if phase in self.ms)
        if planned > 0 and planned >= self.training_ms:
            return f"as long as {names} beside it"
        work = max(0.0, planned - fixed)
        if not self.plan_share:
            return f"{names} beside it"
        without = f"{names} without launches and waits"
        longer = f"{self.plan_share:.0%} of {work:.3f} ms ({without})"
        return f"{names} beside it, which makes it longer by {longer}"

    def _repr_html_(self) -> str:
        below = [tier for tier in self.tiers if tier != "device"]
        rows: list[list[object]] = [
            [
                *(table.name, str(table), f"{table.rows:,}", *(f"{b:,}" for b in table.bytes)),
                *(f"{sum(getattr(table, tier)):,}" for tier in below),
            ]
            for table in self.tables
        ]
        head = ["table", "placement", "rows", *(f"bytes on {r}" for r in range(self.devices))]
        head += [{"host": "bytes in host memory", "disk": "bytes on disk"}[tier] for tier in below]
        step = f"a whole step of {self.training_ms:.3f} ms"
        title = f"Placements of {len(self.tables)} tables, {step} predicted"
        return html_table(title, head, rows)


def _tiers_of(table: TablePlacement) -> str:
    """What of a table does not lie on devices, for a line of it."""
    below = {"in host memory": sum(table.host), "on disk": sum(table.disk)}
    return "".join(f", {held / 1e9:.3f} GB {where}" for where, held in below.items() if held)
