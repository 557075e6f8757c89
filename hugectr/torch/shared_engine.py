# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are spread over the processes of a job, each with one device.

A lookup sends every owner the distinct keys of this process's batch that it owns; owners look them
up as bags of one key in tables of their own, and rows come back to be pooled here. Backward goes
the other way with the sum of each row's gradients. So batches may be of unlike size, or empty.

Before anything travels that could be waited for, the processes tell each other that they are in the
same call and that nothing went wrong so far: the error of one is raised by all.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from hugectr.base.errors import CommError, InvalidArgument
from hugectr.processes.agreement import from_root, jointly, together
from hugectr.torch.engine import Batch, Engine, vectors_of
from hugectr.torch.requests import Request, TableRequest, owners_of_keys, request_of, turned
from hugectr.torch.torch_group import TorchGroup

if TYPE_CHECKING:
    from hugectr._core_collection import TableParams

T = TypeVar("T")

#: The exchange that begins a lookup of any kind.
_KEYS = "the keys of a batch"


@dataclass
class _Asked:
    """A batch that was looked up, or is about to be.

    Parameters
    ----------
    tables : list of TableRequest
        What this process needs to pool.
    own : list of list of int
        Rows that it asks for, of each table and owner.
    others : list of list of int
        Rows that it is asked for, of each table and process.
    token : int
        Of the core's batch: the keys that it is asked for.
    """

    tables: list[TableRequest]
    own: list[list[int]]
    others: list[list[int]]
    token: int = 0

    def elements(self, counts: list[list[int]], dims: Sequence[int]) -> list[list[int]]:
        """Numbers that so many rows of each table and process are."""
        return [[n * d for n in row] for row, d in zip(counts, dims, strict=True)]


class SharedEngine(Engine):
    """The engine of one of several processes.

    Parameters
    ----------
    tables, device, seed
        As of ``Engine``; a seed of 0 is drawn by process 0.
    by_key : list of bool
        Whether a table's rows are spread by their keys; else all are with process
        ``table % processes``.
    group : TorchGroup
    parent : torch.distributed.ProcessGroup, optional
        Whose processes they are; None: all of the job.
    """

    def __init__(
        self,
        tables: list[TableParams],
        device: torch.device,
        seed: int,
        by_key: list[bool],
        group: TorchGroup,
        parent: Any = None,
    ) -> None:
        super().__init__(tables, device, seed or from_root(group, lambda: secrets.randbits(63) | 1))
        self.group = self._processes = group
        self._rank, self._size = group.rank, group.size
        self._by_key = by_key
        self._mean = [table["combiner"] == "mean" for table in tables]
        self._asked: dict[int, _Asked] = {}
        self._batches = 0
        # Vectors between CUDA devices go by NCCL, with a communicator of their own.
        self._exchange = group.torch_group
        if device.type == "cuda":
            ranks = None if parent is None else dist.get_process_group_ranks(parent)
            self._exchange = dist.new_group(ranks, backend="nccl")

    def call(self, name: str) -> AbstractContextManager[None]:
        """All that is said to others meanwhile belongs to a call of this name."""
        return self._processes.call(name)

    def owners(self, table: int, keys: Any) -> Any:
        """The process of each key (n) int64 on the host."""
        if not self._by_key[table]:
            return np.full(len(keys), table % self._size)
        return owners_of_keys(torch.from_numpy(keys), self._size).numpy()

    # --- batches --------------------------------------------------------------------------------

    def refuse(self, error: Exception) -> None:
        """Tells the others that this process has no batch; raises the error."""
        with self.call(_KEYS):
            jointly(self.group, lambda: _throw(error))

    def plan(self, batch: Callable[[], Batch]) -> torch.Tensor:
        """A batch that may train; see ``Engine.plan``. Collective."""
        self.release_ended()
        asked, keys = self._ask("plan", batch)
        held: list[Batch] = []

        def number() -> None:
            held.append(self._bags(keys, asked))
            asked.token = super(SharedEngine, self).plan_keys(held[0])

        with self.call("the rows of a batch"):
            try:
                jointly(self.group, number)
            except Exception:
                if asked.token:
                    self.core.release(asked.token)
                raise
        self._batches += 1
        self._asked[self._batches] = asked
        return self.begin(self._batches, held[0])

    def _release(self, token: int) -> None:
        if token in self._alive:
            del self._alive[token]
            self.core.release(self._asked.pop(token).token)

    def _ask(self, what: str, batch: Callable[[], Batch]) -> tuple[_Asked, torch.Tensor]:
        """Asks owners for the rows of a batch; the keys that this process is asked for."""
        asked: list[Request] = []

        def ask() -> dict[str, Any]:
            asked.append(request_of(batch(), self._by_key, self._mean, self._size))
            self.resolve()
            return {"what": what, "counts": asked[0].counts}

        with self.call(_KEYS):
            every = together(self.group, ask)
        if any(each["what"] != what for each in every):
            raise CommError(
                "the processes of a collection look up unlike batches: "
                + ", ".join(f"process {r} to {each['what']}" for r, each in enumerate(every))
                + ". All must be in training, with gradients, or none"
            )
        own = asked[0].counts
        others = [[each["counts"][t][self._rank] for each in every] for t in range(len(own))]
        keys = self._travel(asked[0].keys, own, others)
        return _Asked(asked[0].tables, own, others), keys

    def _bags(self, keys: torch.Tensor, asked: _Asked) -> Batch:
        """Keys by table -> a bag a key; the core takes no table without a bag."""
        counts = [sum(row) for row in asked.others]
        ends = torch.arange(max([*counts, 1]) + 1, dtype=torch.int32, device=self.device)
        none = ends.new_zeros(2)
        return [(own, ends[: len(own) + 1] if len(own) else none) for own in keys.split(counts)]

    def _travel(
        self, flat: torch.Tensor, sent: list[list[int]], taken: list[list[int]]
    ) -> torch.Tensor:
        """Blocks [table][process], of these sizes, to their processes; what comes likewise."""
        by_process = list(zip(*sent, strict=True))
        given = list(zip(*taken, strict=True))
        out = turned(flat, sent).contiguous().view(torch.uint8)
        width = flat.element_size()
        arrived = torch.empty(sum(map(sum, taken)) * width, dtype=torch.uint8, device=self.device)
        dist.all_to_all_single(
            arrived,
            out,
            [sum(column) * width for column in given],
            [sum(column) * width for column in by_process],
            group=self._exchange,
        )
        return turned(arrived.view(flat.dtype), given)

    def _room(self, asked: _Asked, dtype: torch.dtype) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Memory for the rows that others ask for, (n), and its parts (m, d) by table."""
        rows = [sum(row) for row in asked.others]
        flat = torch.empty(
            sum(n * d for n, d in zip(rows, self.dims, strict=True)),
            dtype=dtype,
            device=self.device,
        )
        parts = flat.split([n * d for n, d in zip(rows, self.dims, strict=True)])
        return flat, [
            part.view(-1, d) if n else part.new_empty((1, d))
            for part, n, d in zip(parts, rows, self.dims, strict=True)
        ]

    def _pool(self, asked: _Asked, rows: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Sends rows to who asked for them, and pools those that come."""
        came = self._travel(
            rows, asked.elements(asked.others, self.dims), asked.elements(asked.own, self.dims)
        )
        sizes = [table.rows * d for table, d in zip(asked.tables, self.dims, strict=True)]
        for table, own, d, output in zip(
            asked.tables, came.split(sizes), self.dims, outputs, strict=True
        ):
            table.pool(own.view(-1, d), output)

    def forward(self, token: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Vectors (m, d) of a planned batch. Collective."""
        number = int(token.item())
        rows: list[torch.Tensor] = []

        def gather() -> _Asked:
            asked = self._batch(number)
            flat, parts = self._room(asked, outputs[0].dtype)
            self.core.forward(asked.token, [vectors_of(part) for part in parts], self.stream())
            rows.append(flat)
            return asked

        asked = self._agreed(f"forward of batch {number}", gather)
        self._pool(asked, rows[0], outputs)

    def look_up(self, batch: Callable[[], Batch], outputs: Sequence[torch.Tensor]) -> None:
        """Vectors (m, d) of a batch that does not train. Collective."""
        self.release_ended()
        asked, keys = self._ask("look up", batch)

        def gather() -> torch.Tensor:
            flat, parts = self._room(asked, outputs[0].dtype)
            super(SharedEngine, self).look_up_keys(self._bags(keys, asked), parts)
            return flat

        self._pool(asked, self._agreed("the rows of a batch", gather), outputs)

    def accumulate(self, token: torch.Tensor, gradients: Sequence[torch.Tensor | None]) -> None:
        """Gradients (m, d) of a batch's vectors, kept for the next step. Collective.

        They count a share of 1 / processes, as DDP's do.
        """
        number = int(token.item())
        held: list[_Asked] = []

        def sums() -> torch.Tensor:
            asked = self._batch(number)
            held.append(asked)
            parts = [
                torch.zeros(table.rows * d, device=self.device)
                if gradient is None
                else table.sum_gradients(gradient, 1.0 / self._size).reshape(-1)
                for table, d, gradient in zip(asked.tables, self.dims, gradients, strict=True)
            ]
            whole = torch.cat(parts)
            # A key of every sample would leave the range of float16.
            narrow = any(g is not None and g.dtype == torch.bfloat16 for g in gradients)
            return whole.to(torch.bfloat16) if narrow else whole

        own = self._agreed(f"backward of batch {number}", sums)
        asked = held[0]
        came = self._travel(
            own, asked.elements(asked.own, self.dims), asked.elements(asked.others, self.dims)
        )
        sizes = [sum(row) * d for row, d in zip(asked.others, self.dims, strict=True)]
        parts = [
            vectors_of(part.view(-1, d)) if len(part) else None
            for part, d in zip(came.split(sizes), self.dims, strict=True)
        ]
        self.core.accumulate(asked.token, parts, self.stream())
        if self.after_backward is not None:
            self.after_backward()

    def squares(self) -> torch.Tensor:
        """(tables) float64: sums of squares of the gradients of all processes. Collective."""
        own = self._agreed("the norms of gradients", super().squares)
        dist.all_reduce(own, group=self._exchange)
        return own

    def step(self, rates: Sequence[float], unscale: torch.Tensor | None) -> None:
        """One update, on all processes or on none; rates must be the same everywhere."""
        with self.call(f"step {self.core.steps() + 1}"):
            every = together(self.group, lambda: list(map(float, rates)))
        for rank, other in enumerate(every):
            if other != every[0]:
                raise InvalidArgument(
                    f"the processes of a collection disagree on learning rates: process 0 has "
                    f"{every[0]}, process {rank} {other}, a number a table; step their schedulers "
                    "alike"
                )
        super().step(rates, unscale)

    def _agreed(self, name: str, work: Callable[[], T]) -> T:
        with self.call(name):
            return jointly(self.group, work)

    def _batch(self, number: int) -> _Asked:
        found = self._asked.get(number)
        if found is None:
            raise InvalidArgument(
                f"a collection has no batch {number}: it was released, as all are when rows are "
                "written from outside, or is of another collection"
            )
        return found


def _throw(error: Exception) -> None:
    raise error
