# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of an export of hugectr: keys in, vectors out. Needs NumPy and nothing else.

>>> tables = Tables("folder")                                                  # doctest: +SKIP
>>> tables.vectors({"keys": keys})       # table -> float32 (batch, slots, d)  # doctest: +SKIP
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


class Tables:
    """The tables of a folder; keys in memory, vectors mapped.

    Parameters
    ----------
    folder : path
        With ``tables.json`` and, for each table, ``<file>.key.npy`` and ``<file>.vector.npy``.
    """

    def __init__(self, folder: Any) -> None:
        folder = Path(folder)
        described = json.loads((folder / "tables.json").read_text())
        if described["version"] != 2:
            raise ValueError(f"{folder}: tables of version {described['version']}, known is 2")
        self.padding = described["padding"]
        self.tables = described["tables"]
        self.lengths = described["lengths"]
        self._rows: dict[str, dict[str, Any]] = {}
        for name, table in self.tables.items():
            parts = ["key", "slot"] if table["rows_of_slots"] else ["key"]
            stem = table["file"]
            arrays = {p: np.load(folder / f"{stem}.{p}.npy", allow_pickle=False) for p in parts}
            # An empty file can not be mapped.
            file = folder / f"{stem}.vector.npy"
            mapped: Any = "r" if table["rows"] else None
            arrays["vector"] = np.load(file, mmap_mode=mapped, allow_pickle=False)
            self._rows[name] = arrays

    def vectors(self, keys: dict[str, Any]) -> dict[str, Any]:
        """What each table gives for a batch.

        Parameters
        ----------
        keys : dict
            Name of a sparse input -> ints (batch, slots), or (batch, slots, most) padded with -1.

        Returns
        -------
        dict
            Table -> float32 (batch, slots, d): sum or mean of each slot's vectors, zeros for keys
            without a row; (batch, positions, d) of a table that does not pool. And where the
            network reads them, how many keys slots have: float32 (batch, slots).
        """
        found = {
            name: self.lookup(name, *(keys[one["name"]] for one in table["inputs"]))
            for name, table in self.tables.items()
        }
        for name, source in self.lengths.items():
            asked = np.asarray(keys[source])
            there = asked.reshape(*asked.shape[:2], -1) != self.padding
            found[name] = there.sum(axis=2).astype(np.float32)
        return found

    def lookup(self, name: str, *keys: Any) -> Any:
        """What one table gives for the keys of each of its inputs, as ``vectors``."""
        table = self.tables[name]
        parts, first = [], 0
        for described, own in zip(table["inputs"], keys, strict=True):
            asked = np.asarray(own, np.int64)
            slots = described["slots"]
            if asked.ndim not in (2, 3) or asked.shape[1] != slots:
                raise ValueError(
                    f"table {name!r}: keys of {described['name']!r} must have shape "
                    f"(batch, {slots}) or (batch, {slots}, most), found {asked.shape}"
                )
            parts.append(self._combined(name, asked.reshape(*asked.shape[:2], -1), first))
            first += slots
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _combined(self, name: str, asked: Any, first_slot: int) -> Any:
        """What one table gives for keys (batch, slots, most) of the slots from one on."""
        table = self.tables[name]
        rows, found = self.rows(name, asked, first_slot)
        vectors = np.zeros((*asked.shape, table["size"]), np.float32)
        vectors[found] = self._rows[name]["vector"][rows[found]]
        if table["positions"]:
            own = table["positions"][first_slot : first_slot + asked.shape[1]]
            padded = np.pad(vectors, [(0, 0), (0, 0), (0, max(own)), (0, 0)])
            parts = [padded[:, i, :n] for i, n in enumerate(own)]
            return np.concatenate(parts, axis=1)
        total = vectors.sum(axis=2, dtype=np.float32)
        if table["combiner"] == "mean":
            total /= np.maximum((asked != self.padding).sum(axis=2), 1)[..., None]
        return total.astype(np.float32)

    def rows(self, name: str, keys: Any, first_slot: int = 0) -> tuple[Any, Any]:
        """Row numbers of keys (batch, slots, most), and which of them have a row."""
        own = self._rows[name]
        rows, found = np.zeros(keys.shape, np.int64), np.zeros(keys.shape, bool)
        count = keys.shape[1]
        ranges = [(slice(None), 0, len(own["key"]))]
        if "slot" in own:
            slots = np.arange(first_slot, first_slot + count + 1, dtype=np.uint64)
            bounds = np.searchsorted(own["slot"], slots)
            ranges = [(slice(i, i + 1), int(bounds[i]), int(bounds[i + 1])) for i in range(count)]
        for place, first, last in ranges:
            if first == last:
                continue
            part, asked = own["key"][first:last], keys[:, place]
            at = np.minimum(np.searchsorted(part, asked), last - first - 1)
            rows[:, place], found[:, place] = first + at, part[at] == asked
        return rows, found
