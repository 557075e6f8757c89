# SPDX-License-Identifier: Apache-2.0
"""A table in memory as a source of samples.

Who asks whether a source is one must not load pyarrow for that: a table comes with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hugectr.base.errors import InvalidArgument
from hugectr.data.columns import Columns

if TYPE_CHECKING:
    import pyarrow as pa

IN_MEMORY = "table in memory"  # what stands for the path
BLOCK_ROWS = 65536  # rows of a block: what is shuffled, and handed to a worker, in one piece


@dataclass(frozen=True)
class TableDataset:
    """A table in memory as a source, made by ``from_frame`` or ``from_arrow``.

    Parameters
    ----------
    table : pyarrow.Table
        Its columns are read where they lie.
    columns : Columns
        Which column is what.
    """

    table: pa.Table
    columns: Columns

    @property
    def samples(self) -> int:
        """Number of samples."""
        return int(self.table.num_rows)


class TableBlocks:
    """Hands the record batches of a table to the core, uncopied."""

    def __init__(self, dataset: TableDataset) -> None:
        table = dataset.table.select(dataset.columns.all)
        self._batches = [b for b in table.to_batches(max_chunksize=BLOCK_ROWS) if b.num_rows]

    def open(self, source: str) -> tuple[list[str], list[tuple[int, int, int]]]:
        """All batches, which take no memory of their own; no other source to change to."""
        if source not in ("", IN_MEMORY):
            raise InvalidArgument(f"a table in memory has no source to change to ({source!r})")
        return [IN_MEMORY], [(0, batch.num_rows, 0) for batch in self._batches]

    def read(self, block: int) -> pa.RecordBatch:
        """A batch."""
        from hugectr.data.plain_numbers import plain_numbers

        return plain_numbers(self._batches[block], IN_MEMORY)

    def decode(self, block: int, schema: int, array: int) -> None:
        """Export a batch to the addresses of an ArrowSchema and an ArrowArray."""
        self.read(block)._export_to_c(array, schema)
