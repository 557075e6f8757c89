# SPDX-License-Identifier: Apache-2.0
"""Bytes of a model, by device and by what they are for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from hugectr.base.printable import printable


@dataclass(frozen=True)
class MemoryEntry:
    """Bytes of one part on one device.

    Attributes
    ----------
    process : int
        Of the job, whose device it is.
    device : str
        As it is called there: ``"cuda:0"``. ``"host"``: host memory of the process, where rows of
        tables with ``memory=`` lie.
    owner : str
        A table's name, ``"network"`` or ``"batches"``.
    part : str
        Of it: ``"index"``, ``"vectors"``, ``"optimizer states"``, ``"dense weights"``, ...
    bytes : int
    """

    process: int
    device: str
    owner: str
    part: str
    bytes: int


@dataclass(frozen=True)
class TableRows:
    """The rows of a table that are counted.

    Attributes
    ----------
    name : str
    rows : int
        Counted, all devices together.
    max_rows : int or None
        That it may have, all devices together; None: as many as memory takes.
    row_bytes : int
        Of each: key, vector, optimizer states; its place in the index is 16 to 43 bytes more.
    """

    name: str
    rows: int
    max_rows: int | None
    row_bytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes that a model takes for itself on its devices.

    Counted by the code that takes them. Not in it: what a GPU's driver and libraries take for
    themselves (some hundred MiB a device), what kernels of a GPU borrow while they run (some MiB a
    stream; on several GPUs up to 64 MiB for each other one, where small messages go as one), memory
    of the host that reading needs, and copies while a checkpoint is written. Nor what training does
    without where there is no room: of a GPU with tables that have ``memory=`` up to 128 MiB, and 32
    MiB of the host, for rows that the host's threads move. A table that grows may
    hold an eighth more than its rows need, but never more than its budget.

    Attributes
    ----------
    entries : tuple of MemoryEntry
    tables : tuple of TableRows
    lacking : tuple of str
        Budgets that are too small for what is asked of their tables: for the rows, or for those of
        two batches on a device.
    warnings : tuple of str
        What may be missing later, such as space on a disk.
    """

    entries: tuple[MemoryEntry, ...]
    tables: tuple[TableRows, ...]
    lacking: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        entries: Iterable[tuple[int, str, str, str, int]],
        tables: Iterable[tuple[str, int, int, int]],
        lacking: Iterable[str] = (),
        warnings: Iterable[str] = (),
    ) -> MemoryPlan:
        """From what the core has counted."""
        return cls(
            tuple(MemoryEntry(*entry) for entry in entries),
            tuple(TableRows(name, rows, most or None, size) for name, rows, most, size in tables),
            tuple(lacking),
            tuple(warnings),
        )

    @property
    def bytes(self) -> int:
        """All of them, on all devices."""
        return sum(entry.bytes for entry in self.entries)

    @property
    def by_device(self) -> dict[str, int]:
        """Bytes of each device; in a job of several processes ``"0/cuda:1"`` is of process 0."""
        several = any(entry.process > 0 for entry in self.entries)
        return self._sums(lambda e: f"{e.process}/{e.device}" if several else str(e.device))

    @property
    def by_owner(self) -> dict[str, int]:
        """Bytes of each table, of the network and of batches, on all devices."""
        return self._sums(lambda entry: entry.owner)

    def by_part(self, owner: str) -> dict[str, int]:
        """Bytes of the parts of one owner, on all devices."""
        own = [entry for entry in self.entries if entry.owner == owner]
        return _sums(own, lambda entry: entry.part)

    def _sums(self, name: Any) -> dict[str, int]:
        return _sums(self.entries, name)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "bytes": self.bytes,
            "by_device": self.by_device,
            "entries": [asdict(entry) for entry in self.entries],
            "tables": [asdict(table) for table in self.tables],
            "lacking": list(self.lacking),
            "warnings": list(self.warnings),
        }

    def __str__(self) -> str:
        """A table of owners and parts, then the devices, then rows, then what is missing."""
        lines = []
        own: dict[str, list[MemoryEntry]] = {}
        for entry in self.entries:
            own.setdefault(entry.owner, []).append(entry)
        for owner, entries in own.items():
            lines.append((printable(owner), sum(entry.bytes for entry in entries)))
            parts = _sums(entries, lambda entry: entry.part)
            lines += [(f"  {part}", size) for part, size in parts.items()]
        devices = self.by_device
        everywhere = "all" if any(e.device == "host" for e in self.entries) else "all devices"
        lines.append((everywhere if len(devices) > 1 else next(iter(devices)), self.bytes))
        if len(devices) > 1:
            lines += [(f"  {device}", size) for device, size in devices.items()]
        wide = max(len(name) for name, _ in lines)
        text = [f"{name.ljust(wide)}  {_size(size):>10}" for name, size in lines]
        for table in self.tables:
            known = f"table {table.name!r}: {table.rows:,} rows of {table.row_bytes} bytes counted"
            most = "no bound" if table.max_rows is None else f"at most {table.max_rows:,}"
            text.append(f"{known}, {most}")
        text += [f"too small: {printable(said)}" for said in self.lacking]
        text += [f"warning: {printable(said)}" for said in self.warnings]
        return "\n".join(text)


def _sums(entries: Iterable[MemoryEntry], name: Any) -> dict[str, int]:
    sums: dict[str, int] = {}
    for entry in entries:
        of = name(entry)
        sums[of] = sums.get(of, 0) + entry.bytes
    return sums


def size_for_people(count: float) -> str:
    """Bytes that are missing: never so few digits that they are none."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3f} {unit}"
    return f"{math.ceil(count)} bytes"


def _size(count: int) -> str:
    """Bytes for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} TiB"
