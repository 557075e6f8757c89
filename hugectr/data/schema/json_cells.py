# SPDX-License-Identifier: Apache-2.0
"""Cells of the table that Arrow makes of JSON lines, counted before it makes them.

Every name of a block is a column of all its rows. Of objects whose names are data, such as
``{"<user>": 1}``, that is the square of the lines, most of it nulls.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

#: Cells of a block that are never too many, and those that each value may bring with it.
_FREE = 1 << 23
_PER_VALUE = 64
_NAME = re.compile(rb'"([^"\\]*)"\s*:')
_NAME_WITH_ESCAPES = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"\s*:', re.DOTALL)

#: Names on the way to a value; None: an element of a list.
_Path = tuple[str | None, ...]


@dataclass(frozen=True)
class Cells:
    """What a block is as a table.

    Attributes
    ----------
    columns, cells : int
        Those of objects in objects count too.
    values : int
        Cells that hold something.
    """

    columns: int
    cells: int
    values: int

    @property
    def too_many(self) -> bool:
        """Whether nearly all of very many cells are empty."""
        return self.cells > max(_FREE, _PER_VALUE * self.values)


class _Counting:
    def __init__(self) -> None:
        self._names: dict[_Path, set[str]] = defaultdict(set)
        self._rows: Counter[_Path] = Counter()
        self._values = 0

    def add(self, row: Any) -> None:
        """Count an object."""
        self._rows[()] += 1
        waiting: list[tuple[_Path, Any]] = [((), row)]
        while waiting:
            path, value = waiting.pop()
            if isinstance(value, dict):
                self._names[path].update(value)
                self._values += len(value)
                waiting += [((*path, name), inner) for name, inner in value.items()]
            elif isinstance(value, list):
                self._rows[(*path, None)] += len(value)
                waiting += [((*path, None), inner) for inner in value]

    def _length(self, path: _Path) -> int:
        """Rows of an array; objects in a row are as many as rows are, whether there or not."""
        while path and path[-1] is not None:
            path = path[:-1]
        return self._rows[path]

    def result(self) -> Cells:
        """What was counted."""
        columns = sum(map(len, self._names.values()))
        cells = sum(len(names) * self._length(path) for path, names in self._names.items())
        return Cells(columns, cells, self._values)


def _counted(block: bytes) -> Cells:
    """The cells of a block, as far as it is JSON."""
    text, at, decoder, counting = block.decode(), 0, json.JSONDecoder(), _Counting()
    while at < len(text):
        if text[at].isspace() or text[at] == "\ufeff":
            at += 1
            continue
        try:
            row, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        counting.add(row)
    return counting.result()


def too_many_cells(block: bytes) -> Cells | None:
    """The cells of a block of JSON lines, which is UTF-8, where they are too many; else None."""
    objects, lines = block.count(b"{"), block.count(b"\n") + 1
    if objects * block.count(b":") <= _FREE:
        return None
    names = (_NAME_WITH_ESCAPES if b"\\" in block else _NAME).findall(block)
    # An object in an object may have names of its own under each of the outer ones.
    most = len(set(names)) * (len(names) if objects > lines else objects)
    if most <= max(_FREE, _PER_VALUE * len(names)):
        return None
    cells = _counted(block)
    return cells if cells.too_many else None
