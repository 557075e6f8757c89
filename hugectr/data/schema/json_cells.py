# SPDX-License-Identifier: Apache-2.0
"""Cells of the table that Arrow makes of JSON lines, counted before it makes them.

Every name of a block is a column of all its rows. Of objects whose names are data, such as
``{"<user>": 1}``, that is the square of the lines, most of it nulls.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

#: Cells of a block that are never too many, and those that each value may bring with it.
_FREE = 1 << 23
_PER_VALUE = 64
_NAME = re.compile(rb'"([^"\\]*)"\s*:')
_NAME_WITH_ESCAPES = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"\s*:', re.DOTALL)

#: Bytes of lines that are looked at before all are, and those that are taken together.
_SAMPLE_BYTES, _WINDOW_BYTES = 1 << 17, 1 << 12
#: A block of so many rows is looked at as a whole. Of some hundred million cells of names that come
#: once, five of these names are so among the lines that are looked at.
_ROWS_OF_ALL = 20_000_000
_random = random.SystemRandom()

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


def _sample(block: bytes, rows: int) -> bytes:
    """Lines from anywhere in a block: few, and more of short ones, of which more rows are hit."""
    wanted = max(_SAMPLE_BYTES, len(block) * rows // _ROWS_OF_ALL)
    if 2 * wanted >= len(block):
        return block
    windows = []
    for _ in range(-(-wanted // _WINDOW_BYTES)):
        at = block.find(b"\n", _random.randrange(len(block) - _WINDOW_BYTES)) + 1
        windows.append(block[at : at + _WINDOW_BYTES])
    return b"\n".join(windows)


def _may_be_too_many(block: bytes) -> bool:
    """Whether names that come once are among some of the lines, or very many names.

    Looking at all of them takes longer than Arrow takes for the table.
    """
    rows = block.count(b"\n") + 1
    sample = _sample(block, rows)
    found = Counter(_names_of(sample))
    if not found:
        return False
    values = found.total() * len(block) // len(sample)
    return min(found.values()) == 1 or len(found) * rows > max(_FREE, _PER_VALUE * values)


def _names_of(text: bytes) -> list[bytes]:
    return (_NAME_WITH_ESCAPES if b"\\" in text else _NAME).findall(text)


def too_many_cells(block: bytes) -> Cells | None:
    """The cells of a block of JSON lines, which is UTF-8, where they are too many; else None."""
    if not _may_be_too_many(block):
        return None
    objects, lines = block.count(b"{"), block.count(b"\n") + 1
    if objects * block.count(b":") <= _FREE:
        return None
    names = _names_of(block)
    # An object in an object may have names of its own under each of the outer ones.
    most = len(set(names)) * (len(names) if objects > lines else objects)
    if most <= max(_FREE, _PER_VALUE * len(names)):
        return None
    cells = _counted(block)
    return cells if cells.too_many else None
