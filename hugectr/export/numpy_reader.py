# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of an export of hugectr: keys in, vectors out. Needs NumPy and nothing else.

>>> tables = Tables("folder")                                                  # doctest: +SKIP
>>> tables.vectors({"keys": keys})       # table -> float32 (batch, slots, d)  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import json
import tokenize
import zlib
from pathlib import Path
from typing import Any

import numpy as np


class Tables:
    """The tables of a folder; keys in memory, vectors mapped.

    Parameters
    ----------
    folder : path
        With ``tables.json`` and, for each table, ``<file>.key.npy`` and ``<file>.vector.npy``.
    check : bool
        Whether vectors are read once now, to see that they are as they were written; keys are.
    """

    def __init__(self, folder: Any, check: bool = True) -> None:
        folder = Path(folder)
        described = _described(folder / "tables.json")
        self.padding = described["padding"]
        self.tables = described["tables"]
        self.lengths = described["lengths"]
        self._rows: dict[str, dict[str, Any]] = {}
        for name, table in self.tables.items():
            stem, rows = table["file"], table["rows"]
            wanted: dict[str, tuple[str, tuple[int, ...]]] = {"key": ("iu", (rows,))}
            if table["rows_of_slots"]:
                wanted["slot"] = ("iu", (rows,))
            wanted["vector"] = ("f", (rows, table["size"]))
            sums = table.get("crc32", {})
            self._rows[name] = own = {}
            for part, (kinds, shape) in wanted.items():
                file = folder / f"{stem}.{part}.npy"
                own[part] = _array(file, kinds, shape)
                if part in sums and (check or part != "vector") and crc32_of(file) != sums[part]:
                    raise ValueError(f"{file} is not as it was written: {_AGAIN}")
            if not _ascend(own["key"], own.get("slot")):
                files = " and ".join(
                    f"{folder / stem}.{part}.npy" for part in own if part != "vector"
                )
                raise ValueError(f"rows of {files} do not ascend: {_AGAIN}")

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

    def arrays(self, name: str) -> dict[str, Any]:
        """``key`` (rows,), ``vector`` (rows, d); where rows are of slots, ``slot`` (rows,)."""
        return dict(self._rows[name])

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


#: What exports say of a table, and of one of its inputs.
_TABLE = {"file": str, "rows": int, "size": int, "rows_of_slots": bool, "inputs": list}
_INPUT = {"name": str, "slots": int}
_AGAIN = "copy the export again, or export the model again"


def checksum(described: dict[str, Any]) -> str:
    """SHA-256, in hex, of all that a description says but for its checksum itself."""
    rest = {name: value for name, value in described.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def crc32_of(file: Path) -> int:
    """CRC-32 of all that is in a file."""
    found = 0
    with open(file, "rb") as opened:
        while piece := opened.read(1 << 20):
            found = zlib.crc32(piece, found)
    return found


def _ascend(keys: Any, slots: Any = None) -> bool:
    """Whether rows are in the order that they are looked for in: of slots, then of keys."""
    up = keys[1:] > keys[:-1]
    if slots is not None:
        up = (slots[1:] > slots[:-1]) | ((slots[1:] == slots[:-1]) & up)
    return bool(np.all(up))


def _described(file: Path) -> dict[str, Any]:
    """What ``tables.json`` says, as far as anything here relies on it."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        right = checksum(found) if type(found) is dict else None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{file} can not be read ({error}): {_AGAIN}") from None
    if type(found) is dict and found.get("version") not in (None, 2, 3, 4):
        raise ValueError(f"{file}: tables of version {found['version']!r}, known are 2 to 4")
    _fields(file, "it", found, {"version": int, "padding": int, "tables": dict, "lengths": dict})
    # Version 2 had none.
    if (found["version"] > 2 or "sha256" in found) and found.get("sha256") != right:
        raise ValueError(f"{file} is not as it was written, its checksum differs: {_AGAIN}")
    for name, table in found["tables"].items():
        where = f"table {name!r}"
        _fields(file, where, table, _TABLE)
        if table["rows"] < 0 or table["size"] < 1 or Path(table["file"]).name != table["file"]:
            raise ValueError(f"{file}: rows, size or file of {where} can not be: {_AGAIN}")
        for one in table["inputs"]:
            _fields(file, f"an input of {where}", one, _INPUT)
        if found["version"] > 3:  # files of earlier ones have no checksums
            parts = ["key", "vector", *(["slot"] if table["rows_of_slots"] else [])]
            _fields(file, where, table, {"crc32": dict})
            _fields(file, f"crc32 of {where}", table["crc32"], dict.fromkeys(parts, int))
        if not table["inputs"] or min(one["slots"] for one in table["inputs"]) < 1:
            raise ValueError(f"{file}: inputs of {where} can not be: {_AGAIN}")
        own, slots = table.get("positions"), sum(one["slots"] for one in table["inputs"])
        listed = type(own) is list and all(type(n) is int and 0 < n < 1 << 20 for n in own)
        if own and not (listed and len(own) == slots):
            raise ValueError(f"{file}: positions of {where} can not be: {_AGAIN}")
        if not own and table.get("combiner") not in ("sum", "mean"):
            raise ValueError(f"{file}: combiner of {where} is neither sum nor mean: {_AGAIN}")
        table["positions"] = own
    if not all(type(source) is str for source in found["lengths"].values()):
        raise ValueError(f"{file}: lengths are not of names of inputs: {_AGAIN}")
    return found


def _fields(file: Path, where: str, found: Any, kinds: dict[str, type]) -> None:
    """Whether there is an object with these fields of these types."""
    if type(found) is not dict:
        raise ValueError(f"{file}: {where} is no object: {_AGAIN}")
    for name, kind in kinds.items():
        if type(found.get(name)) is not kind:
            raise ValueError(f"{file}: {where} has no {name!r} of type {kind.__name__}: {_AGAIN}")


def _array(file: Path, kinds: str, shape: tuple[int, ...]) -> Any:
    """An array of such a kind of numbers; vectors are mapped."""
    try:
        # An empty file can not be mapped.
        mapped: Any = "r" if len(shape) > 1 and shape[0] else None
        found = np.load(file, mmap_mode=mapped, allow_pickle=False)
    except (
        *(OSError, ValueError, TypeError, EOFError, OverflowError),
        *(SyntaxError, tokenize.TokenError),  # NumPy reads a header as Python does literals
    ) as error:
        raise ValueError(f"{file} can not be read ({error}): {_AGAIN}") from None
    except (RecursionError, MemoryError) as error:
        raise ValueError(f"{file} is no array that fits memory ({error!r}): {_AGAIN}") from None
    if not isinstance(found, np.ndarray) or found.dtype.kind not in kinds or found.shape != shape:
        what = f"{found.dtype} {found.shape}" if isinstance(found, np.ndarray) else "an archive"
        raise ValueError(f"{file} is {what}, tables.json says {shape}: {_AGAIN}")
    return found
