# SPDX-License-Identifier: Apache-2.0
"""Tables that have places on a device for some of their rows: places, and rows that miss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Bytes of a device: of a place beside its row; of a row of the table, where it is on the device
#: and, unless a disk is below, in host memory; of a key of a batch, for staging it (three plans'
#: places of keys and rows and one list of moves, with an eighth of reserve).
PLACE, ROW, ROW_OVER_DISK, STAGED_KEY = 8, 8, 4, 45
#: Bytes of host memory that the index of a disk takes a row.
DISK_INDEX = 12
#: A group of rows on a disk, which is read in one go.
GROUP = 4096
#: Misses beside those of the rows that are best kept for ever: 1.09, 1.13 and 1.20 were measured on
#: one H200 (benchmarks/NOTES.md, "Plans of tables in tiers").
_OF_BEST = 1.1
_PARTS, _ROUNDS = 384, 24
_STEEPEST = 4.0


@dataclass(frozen=True)
class Tiers:
    """Where rows of a table may lie that has a ``Memory``.

    Attributes
    ----------
    device : int
        Bytes of each device for places of rows; 0: none, rows are read and written in host memory.
    host, disk : int or None
        Bytes that rows of a process may take in host memory and on a disk, which its devices that
        have rows share; None: no bound of host memory, and no disk.
    """

    device: int
    host: int | None = None
    disk: int | None = None

    def each_of(self, holders: int) -> Tiers:
        """Those of each device where so many of a process have rows."""
        host = None if self.host is None else self.host // holders
        return Tiers(self.device, host, None if self.disk is None else self.disk // holders)

    def places(self, record: float) -> float:
        """Rows of so many bytes that a device has places for."""
        return self.device // (record + PLACE)


class MissedRows:
    """Distinct rows of a batch that have no place, once those used most have one.

    Keys are taken to follow P(k) ~ k**-alpha over all rows, with the alpha at which a batch has as
    many distinct rows as was counted.

    Parameters
    ----------
    rows : float
        Of the table.
    keys, distinct : float
        Of a batch.
    """

    def __init__(self, rows: float, keys: float, distinct: float) -> None:
        self.distinct = min(distinct, keys, rows)
        edges = np.unique(np.floor(np.geomspace(1, rows + 1, _PARTS))).astype(np.float64)
        edges[-1] = rows + 1
        flat, steep = 0.0, _STEEPEST
        for _ in range(_ROUNDS):
            middle = (flat + steep) / 2
            found = _expected(edges, keys, middle)
            flat, steep = (middle, steep) if found.sum() > self.distinct else (flat, middle)
        self._edges = edges
        self._expected = _expected(edges, keys, (flat + steep) / 2)

    def __call__(self, places: float) -> float:
        """Where so many rows have places; at most all distinct ones."""
        widths = np.diff(self._edges)
        out = np.clip((self._edges[1:] - 1 - places) / widths, 0.0, 1.0)
        return float(min(self.distinct, _OF_BEST * (self._expected * out).sum()))


def _expected(edges: npt.NDArray[np.float64], keys: float, alpha: float) -> npt.NDArray[np.float64]:
    """Distinct rows among so many keys, of each part of the ranks."""
    power = 1.0 - alpha
    masses = np.diff(np.log(edges) if abs(power) < 1e-9 else edges**power / power)
    widths = np.diff(edges)
    share = np.minimum(masses / masses.sum() / widths, 1 - 1e-12)
    return np.asarray(widths * -np.expm1(keys * np.log1p(-share)))
