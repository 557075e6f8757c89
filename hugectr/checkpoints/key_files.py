# SPDX-License-Identifier: Apache-2.0
"""A look at the keys of a saved table, whatever their number, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_CHUNK = 1 << 20  # rows read at a time
_PART = 1 << 24  # rows sorted at a time

_ROW: Any = np.dtype([("slot", np.uint64), ("key", np.int64)])
_Rows = npt.NDArray[Any]


@dataclass
class KeysSeen:
    """What there is in a table's files of keys.

    Attributes
    ----------
    least, most : int
        Of the keys.
    slots : dict of int to int
        Rows of each slot.
    twice : int
        Rows whose slot and key an earlier row has.
    """

    least: int
    most: int
    slots: dict[int, int] = field(default_factory=dict)
    twice: int = 0


def look_at_keys(key_file: Path, slot_file: Path | None) -> KeysSeen:
    """Look at all rows once, and again at those in no order, a part of them at a time.

    Parameters
    ----------
    key_file : Path
        int64, at least one.
    slot_file : Path or None
        uint64, as many as there are keys.
    """
    slots: Counter[int] = Counter()
    least, most, rows, sorted_twice, in_order = 2**63 - 1, -(2**63), 0, 0, True
    last = np.zeros(0, _ROW)
    for chunk in _chunks(key_file, slot_file):
        least, most = min(least, int(chunk["key"].min())), max(most, int(chunk["key"].max()))
        numbers, counts = np.unique(chunk["slot"], return_counts=True)
        slots.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        rows += len(chunk)
        if in_order:
            whole = np.concatenate([last, chunk])
            slot, key = whole["slot"], whole["key"]
            same = slot[1:] == slot[:-1]
            in_order = bool(((slot[1:] > slot[:-1]) | (same & (key[1:] >= key[:-1]))).all())
            sorted_twice += int((same & (key[1:] == key[:-1])).sum())
            last = chunk[-1:]
    twice = sorted_twice if in_order else _rows_twice(key_file, slot_file, -(-rows // _PART))
    return KeysSeen(least, most, dict(sorted(slots.items())), twice)


def _chunks(key_file: Path, slot_file: Path | None) -> Iterator[_Rows]:
    at = 0
    while True:
        keys = np.fromfile(key_file, "<i8", _CHUNK, offset=8 * at)
        if not len(keys):
            return
        chunk = np.zeros(len(keys), _ROW)
        chunk["key"] = keys
        if slot_file is not None:
            chunk["slot"] = np.fromfile(slot_file, "<u8", len(keys), offset=8 * at)
        yield chunk
        at += len(keys)


def _rows_twice(key_file: Path, slot_file: Path | None, parts: int) -> int:
    """The files are read once a part; equal rows are in one."""
    twice = 0
    for part in range(parts):
        chosen = [chunk[_mixed(chunk) % parts == part] for chunk in _chunks(key_file, slot_file)]
        rows = np.concatenate(chosen)
        slot, key = rows["slot"], rows["key"]
        order = np.argsort(key) if slot_file is None else np.lexsort((key, slot))
        slot, key = slot[order], key[order]
        twice += int(((slot[1:] == slot[:-1]) & (key[1:] == key[:-1])).sum())
    return twice


def _mixed(rows: _Rows) -> npt.NDArray[np.uint64]:
    """A number of each row, so that parts of any keys are about equal."""
    mixed = rows["key"].astype(np.uint64) ^ (rows["slot"] * np.uint64(0xD6E8FEB86659FD93))
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return mixed >> np.uint64(32)
