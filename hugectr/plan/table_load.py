# SPDX-License-Identifier: Apache-2.0
"""What a batch asks of a table, which its cost follows from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hugectr.plan.tiers import Tiers

#: Placements that a planner chooses among, as the core calls them.
KINDS = ("by_key", "by_slot", "one_device", "replicated", "by_column", "hybrid")
#: How vectors travel: by the bytes of a batch, as sums of slots, or as distinct rows.
EXCHANGES = ("auto", "pooled", "unique")
#: Columns are dealt in packs of so many.
PACK = 4
#: Bytes of a row's key and of its places in the index.
INDEX = 40
#: Tables that a line names, of many.
_NAMED = 4


@dataclass(frozen=True)
class FrequentLoad:
    """What a hybrid makes of a table.

    Attributes
    ----------
    rows : int
        Of frequent keys.
    share : float
        Of all keys that they are.
    distinct, distinct_of_device : float
        Of the other keys, as of a :class:`TableLoad`.
    """

    rows: int
    share: float
    distinct: float = 1.0
    distinct_of_device: float = 1.0


@dataclass(frozen=True)
class TableLoad:
    """One table of a model.

    Attributes
    ----------
    name : str
    rows : int
        It will have, all of the job together.
    vec_size : int
    slots : int
        Vectors of a sample.
    keys : float
        Mean keys of a sample.
    distinct : float
        Distinct rows of a global batch, as a share of its keys, above 0 and at most 1.
    distinct_of_device : float
        The same of one device's samples.
    state_numbers : int
        Numbers of optimizer state a row.
    kinds : tuple of str
        Placements that it may have; a hybrid only where there are frequent keys.
    frequent : FrequentLoad or None
        None: no keys are.
    vector_bytes : int
        Of a number of a vector: 4 of float32, 2 of bfloat16.
    tiers : Tiers or None
        None: all rows are in the devices' memory.
    wire : str or None
        What its vectors travel as (``hugectr.spec.wire.WIRES``); None: as layers read them.
    exchange : {"auto", "pooled", "unique"}
        As ``SparseEmbedding`` has it: whether sums of slots travel, or rows; by their bytes.
    rows_from : {"given", "samples", "batch"}
        What ``rows`` comes from: a number that somebody gave, or distinct rows of samples, or where
        there are none the keys of a batch.
    """

    name: str
    rows: int
    vec_size: int
    slots: int = 1
    keys: float = 1.0
    distinct: float = 1.0
    distinct_of_device: float = 1.0
    state_numbers: int = 0
    kinds: tuple[str, ...] = KINDS
    frequent: FrequentLoad | None = None
    vector_bytes: int = 4
    tiers: Tiers | None = None
    wire: str | None = None
    exchange: str = "auto"
    rows_from: str = "given"

    @property
    def row_bytes(self) -> int:
        """Of a row in memory: vector, states, key and its places in the index."""
        return self.record_bytes + INDEX

    @property
    def record_bytes(self) -> int:
        """Of its vector and states alone."""
        return self.vector_bytes * self.vec_size + 4 * self.state_numbers


def column_devices(vec_size: int, devices: int) -> int:
    """How many devices share the columns of a row (placement by_column)."""
    for count in range(devices, 1, -1):
        if vec_size % (PACK * count) == 0:
            return count
    return 1


def guessed_rows(tables: Sequence[TableLoad]) -> list[str]:
    """Lines that say whose rows nobody gave, and what they are taken to be."""
    taken = {
        "samples": "many times the distinct ones of the samples",
        "batch": "the keys of a batch, each a row of its own",
    }
    lines = []
    for source, said in taken.items():
        names = [table.name for table in tables if table.rows_from == source]
        if names:
            some = ", ".join(map(repr, names[:_NAMED]))
            others = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
            lines.append(
                f"rows of {some}{others} are not known, and taken to be {said}: "
                "--rows NAME=N, or Model.plan(rows={NAME: N}), gives them"
            )
    return lines
