# SPDX-License-Identifier: Apache-2.0
"""Tables and the inputs they read, as an export sees them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.export.program import Array, Shape
from hugectr.vectors.vectors import TableSnapshot

#: Key of an element that is not there, where samples have less than the most keys.
PADDING = -1


@dataclass(frozen=True)
class KeyInput:
    """A sparse input: int64 (batch, slots), or (batch, slots, any number) padded with ``PADDING``.

    Attributes
    ----------
    name : str
    slots : int
        Of a sample.
    several : bool
        Whether a slot may have several keys, or none.
    """

    name: str
    slots: int
    several: bool

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Without the batch; a name of the input's own for what may be of any size.

        Sizes of one name are one size to onnxruntime, which plans its memory by them.
        """
        return (self.slots, f"most {self.name}") if self.several else (self.slots,)


@dataclass(frozen=True)
class TablePart:
    """One input of a table.

    Attributes
    ----------
    keys : KeyInput
    first_slot : int
        Of the table's slots that which is the input's first.
    positions : tuple of int
        Of its slots, where the table does not pool; else empty.
    """

    keys: KeyInput
    first_slot: int
    positions: tuple[int, ...]


@dataclass(frozen=True)
class TableImage:
    """A table: its rows sorted by (slot, key), and how a sample's vectors are combined.

    Attributes
    ----------
    name : str
        Also of its output, (batch, slots, d).
    inputs : tuple of KeyInput
        What it is asked for: their slots are side by side, in this order.
    size : int
        Of a vector: d.
    mean : bool
        Whether the vectors of a slot are averaged, else added up.
    rows : TableSnapshot
    positions : tuple of int
        Of a table that does not pool: how many places each slot has in its output, which is then
        (batch, all of them, d); else empty.
    """

    name: str
    inputs: tuple[KeyInput, ...]
    size: int
    mean: bool
    rows: TableSnapshot
    positions: tuple[int, ...] = ()

    @property
    def shape(self) -> Shape:
        """Of its output, without the batch."""
        return (sum(self.positions) if self.positions else self.slots, self.size)

    @property
    def slots(self) -> int:
        """Of all inputs together."""
        return sum(one.slots for one in self.inputs)

    def parts(self) -> list[TablePart]:
        """What each input is to the table."""
        parts, first = [], 0
        for keys in self.inputs:
            end = first + keys.slots
            parts.append(TablePart(keys, first, self.positions[first:end]))
            first = end
        return parts

    @property
    def has_slots(self) -> bool:
        """Whether a row is of a slot and a key."""
        return "slot" in self.rows.parts

    def arrays(self) -> dict[str, Array]:
        """All rows in memory: ``key``, ``vector`` and, where there is one, ``slot``."""
        blocks = list(self.rows.blocks())
        parts = self.rows.parts
        whole = {
            part: np.concatenate(
                [np.empty((0, *shape), dtype), *(block[part] for block in blocks)]
            ).astype(dtype)
            for part, (dtype, shape) in parts.items()
        }
        if (whole["key"] == PADDING).any():
            raise InvalidArgument(
                f"export: table {self.name!r} has the key {PADDING}, which stands for no key in an "
                "export; give it another number"
            )
        return whole

    def vector_bytes(self) -> int:
        """Of all of its vectors."""
        return 4 * self.size * self.rows.count()
