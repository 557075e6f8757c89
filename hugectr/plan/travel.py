# SPDX-License-Identifier: Apache-2.0
"""Bytes of vectors on their way between devices, as the core sends them."""

from __future__ import annotations

from dataclasses import dataclass

from hugectr.plan.table_load import TableLoad

#: Rows travel instead of sums where they are at most so much of the bytes (exchange "auto").
_ROWS_WORTH = 0.75
#: Bytes of a message to one device from which on it goes alone, not packed with others.
LEAST_ALONE = 8 << 20
#: Bytes of a number, by the type that layers read vectors in.
NUMBER_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
#: By what a number travels as: its type, its bytes, and those of a scale that a vector has.
_WIRES = {"bf16": ("bfloat16", 2, 0), "fp16": ("float16", 2, 4), "fp8": ("", 1, 4)}


@dataclass(frozen=True)
class Travel:
    """How vectors travel that layers read in a type.

    Attributes
    ----------
    made : {"float32", "float16", "bfloat16"}
    """

    made: str = "float32"

    def vector(self, wire: str | None, width: int) -> int:
        """Bytes of a vector, and of its gradient where sums of slots travel.

        Parameters
        ----------
        wire : str or None
            Of ``hugectr.spec.wire.WIRES``; None: as layers read it.
        width : int
            Numbers, which may be some of a row's columns.
        """
        return _bytes(wire, width, self.made)

    def row_gradient(self, wire: str | None, width: int) -> int:
        """Bytes of a row's gradient, which is the sum of a device's samples.

        A key of every sample would leave the range of float16, and what is rounded for its way is
        not rounded before: such sums are made in float32.
        """
        in_32_bits = self.made == "float16" or wire is not None
        return _bytes(wire, width, "float32" if in_32_bits else self.made)

    def as_rows(self, table: TableLoad, rows: float, sums: float) -> bool:
        """Whether so many rows travel, each once, instead of so many sums of slots."""
        if table.exchange != "auto":
            return table.exchange == "unique"
        vector = self.vector(table.wire, table.vec_size)
        back = self.row_gradient(table.wire, table.vec_size)
        return rows * (vector + back) <= _ROWS_WORTH * sums * 2 * vector

    def each_way(
        self, table: TableLoad, rows: float, sums: float, as_rows: bool | None = None
    ) -> tuple[float, float]:
        """Bytes forward and backward of so many rows, or of so many sums where those are not worth
        it; ``as_rows``: which, where that is known."""
        vector = self.vector(table.wire, table.vec_size)
        if self.as_rows(table, rows, sums) if as_rows is None else as_rows:
            return rows * vector, rows * self.row_gradient(table.wire, table.vec_size)
        return sums * vector, sums * vector

    @property
    def replica_number(self) -> int:
        """Bytes of a number of the list of sums of a replicated table's rows, which have no
        wire."""
        return NUMBER_BYTES["float32" if self.made == "float16" else self.made]


def _bytes(wire: str | None, width: int, made: str) -> int:
    kind, number, scale = _WIRES.get(wire or "", (made, 0, 0))
    if kind == made:
        return NUMBER_BYTES[made] * width
    return scale + -(-width * number // 4) * 4
