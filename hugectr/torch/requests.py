# SPDX-License-Identifier: Apache-2.0
"""What a process asks the owners of rows for: the distinct keys of its batch.

Vectors travel a row each, however many bags of the batch have it; who asked pools them, and sums
gradients by row before they go back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from hugectr.base.errors import InvalidArgument

#: The key that no row may have.
_RESERVED = 2**63 - 1

#: Keys (n) int64 and offsets (m + 1) int32 of a table.
Bags = tuple[torch.Tensor, torch.Tensor]


def owners_of_keys(keys: torch.Tensor, processes: int) -> torch.Tensor:
    """The process of each key, as the core's by_key: key % processes, the key taken as uint64."""
    owners = keys.remainder(processes)
    beyond = 2**64 % processes
    if beyond:
        owners = torch.where(keys < 0, (owners + beyond).remainder(processes), owners)
    return owners


@dataclass
class TableRequest:
    """One table's part of a request.

    Parameters
    ----------
    rows : int
        U: distinct keys.
    numbers : Tensor, (n,) int32
        Of each key the number of its row among those asked for.
    offsets : Tensor, (m + 1,) int32
        Where bags begin.
    order : Tensor, (n,) int64
        The keys by number.
    runs : Tensor, (U + 1,) int32
        Where the keys of each number begin in that order.
    mean : bool
        How the vectors of a bag become one; else by their sum.
    """

    rows: int
    numbers: torch.Tensor
    offsets: torch.Tensor
    order: torch.Tensor
    runs: torch.Tensor
    mean: bool

    def pool(self, rows: torch.Tensor, output: torch.Tensor) -> None:
        """Vectors of rows (U, d) -> vectors of bags (m, d)."""
        if self.rows == 0:
            output.zero_()
        elif len(output):
            output.copy_(
                functional.embedding_bag(
                    self.numbers,
                    rows,
                    self.offsets,
                    mode="mean" if self.mean else "sum",
                    include_last_offset=True,
                )
            )

    def sum_gradients(self, gradient: torch.Tensor, share: float) -> torch.Tensor:
        """Gradients of bags (m, d) -> share times those of rows (U, d), float32.

        A row's gradients are added in the order of its keys in the batch.
        """
        if self.rows == 0:
            return gradient.new_empty((0, gradient.shape[1]), dtype=torch.float32)
        lengths = self.offsets.diff()
        bags = torch.arange(len(lengths), dtype=torch.int32, device=gradient.device)
        bag_of_key = bags.repeat_interleave(lengths, output_size=len(self.numbers))
        factors = torch.full((len(lengths), 1), share, device=gradient.device)
        if self.mean:
            factors = factors / lengths.clamp(min=1)[:, None]
        return functional.embedding_bag(
            bag_of_key[self.order],
            gradient.to(torch.float32) * factors,
            self.runs,
            mode="sum",
            include_last_offset=True,
        )


@dataclass
class Request:
    """What a process asks for.

    Parameters
    ----------
    keys : Tensor, (sum of U,) int64
        Each once, by table, then by owner, then ascending.
    counts : list of list of int
        How many of them are of each table and owner.
    tables : list of TableRequest
    """

    keys: torch.Tensor
    counts: list[list[int]]
    tables: list[TableRequest]


def request_of(
    batch: Sequence[Bags], by_key: Sequence[bool], mean: Sequence[bool], processes: int
) -> Request:
    """The request of a batch.

    Parameters
    ----------
    batch : sequence of (keys, offsets)
        Of each table.
    by_key : sequence of bool
        Whether a table's rows are spread by their keys; else all are with process
        ``table % processes``.
    mean : sequence of bool
        Whether a table's combiner is mean.
    processes : int

    Raises
    ------
    InvalidArgument
        When a key is the one that no row may have.
    """
    sizes = [len(keys) for keys, _ in batch]
    keys = torch.cat([keys for keys, _ in batch])
    device = keys.device
    table = torch.arange(len(batch), device=device).repeat_interleave(
        torch.tensor(sizes, device=device), output_size=len(keys)
    )
    owners = owners_of_keys(keys, processes)
    if not all(by_key):
        spread = torch.tensor(by_key, device=device)
        owners = torch.where(spread[table], owners, table % processes)
    sections = (table * processes + owners).to(torch.int32)
    # By table, owner, key; equal ones in the order of the batch.
    order = torch.argsort(keys, stable=True)
    order = order[torch.argsort(sections[order], stable=True)]
    ordered, sections = keys[order], sections[order]
    begins = torch.ones(len(keys), dtype=torch.bool, device=device)
    begins[1:] = (ordered.diff() != 0) | (sections.diff() != 0)
    starts = begins.nonzero()[:, 0]  # on a GPU the host waits for it
    distinct = ordered[starts]
    counts = torch.bincount(sections[starts], minlength=len(batch) * processes)
    largest = distinct.max()[None] if len(keys) else counts[:0]
    *found, top = torch.cat([counts, largest]).tolist() + ([] if len(keys) else [0])
    if top == _RESERVED:
        raise InvalidArgument(
            f"a batch: key {_RESERVED} means 'no row' in a table and can not be looked up"
        )
    numbers = torch.empty(len(keys), dtype=torch.int32, device=device)
    numbers[order] = (begins.cumsum(0) - 1).to(torch.int32)
    by_table = [found[t * processes : (t + 1) * processes] for t in range(len(batch))]
    tables, key, row = [], 0, 0
    for (_, offsets), size, count, table_mean in zip(batch, sizes, by_table, mean, strict=True):
        rows = sum(count)
        runs = torch.cat([starts[row : row + rows] - key, starts.new_full((1,), size)])
        tables.append(
            TableRequest(
                rows,
                numbers[key : key + size] - row,
                offsets,
                order[key : key + size] - key,
                runs.to(torch.int32),
                table_mean,
            )
        )
        key, row = key + size, row + rows
    return Request(distinct, by_table, tables)


def turned(flat: torch.Tensor, sizes: Sequence[Sequence[int]]) -> torch.Tensor:
    """Blocks [a][b] of a tensor (n), of these sizes, in the order [b][a]."""
    blocks: list[list[torch.Tensor]] = []
    begin = 0
    for row in sizes:
        blocks.append([])
        for size in row:
            blocks[-1].append(flat[begin : begin + size])
            begin += size
    return torch.cat([block for column in zip(*blocks, strict=True) for block in column])
