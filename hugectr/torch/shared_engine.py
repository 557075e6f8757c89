# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are spread over the processes of a job, each with one device.

A lookup sends every owner the distinct keys of this process's batch that it owns; owners look them
up as bags of one key in tables of their own, and rows come back to be pooled here. Backward goes
the other way with the sum of each row's gradients. So batches may be of unlike size, or empty.

What is done for all tables is one call of the core (``TableSharing``), and what travels one message
for all tables of one vector size. Before anything travels that could be waited for, the processes
tell each other that they are in the same call and that nothing went wrong so far: the error of one
is raised by all.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from hugectr import _core
from hugectr.base.errors import CommError, InvalidArgument
from hugectr.processes.agreement import from_root
from hugectr.torch.engine import Engine
from hugectr.torch.table_memory import TableKeys, TableVectors, memory_of
from hugectr.torch.torch_group import TorchGroup

if TYPE_CHECKING:
    from hugectr._core_collection import Memory, SharedBatch, TableParams

T = TypeVar("T")

#: The exchange that begins a lookup of any kind.
_KEYS = "the keys of a batch"
#: How a batch may be looked up, as processes tell each other.
_WAYS = ("plan", "look up")


@dataclass
class _Asked:
    """A batch that was looked up, or is about to be.

    Parameters
    ----------
    shared : SharedBatch
        What the core knows of it.
    held : list of Tensor
        What it reads meanwhile.
    keys : Tensor
        Those that this process is asked for.
    failure : Exception, optional
        Why this process can not give what it is asked for: told to the others in forward.
    """

    shared: SharedBatch
    held: list[torch.Tensor]
    keys: torch.Tensor
    failure: Exception | None = None


class SharedEngine(Engine):
    """The engine of one of several processes.

    Parameters
    ----------
    tables, device, seed
        As of ``Engine``; a seed of 0 is drawn by process 0.
    placements : list of str
        Of each table, as ``TableConfig`` has it.
    group : TorchGroup
    parent : torch.distributed.ProcessGroup, optional
        Whose processes they are; None: all of the job.
    """

    def __init__(
        self,
        tables: list[TableParams],
        device: torch.device,
        seed: int,
        placements: list[str],
        group: TorchGroup,
        parent: Any = None,
    ) -> None:
        super().__init__(tables, device, seed or from_root(group, lambda: secrets.randbits(63) | 1))
        self.group = self._processes = group
        self._rank, self._size = group.rank, group.size
        self._sharing = _core.TableSharing(self.core, placements, self._rank, self._size)
        self._mean = [table["combiner"] == "mean" for table in tables]
        self._asked: dict[int, _Asked] = {}
        self._batches = 0
        self._counted = struct.Struct(f"<B{self._size * len(tables)}q")
        group.make_room(self._counted.size + 1)
        # Vectors between CUDA devices go by NCCL, with a communicator of their own; keys with
        # another, so that those of the next batch need not wait for vectors.
        self._exchange = self._ahead = group.torch_group
        if device.type == "cuda":
            ranks = None if parent is None else dist.get_process_group_ranks(parent)
            self._exchange = dist.new_group(ranks, backend="nccl")
            self._ahead = dist.new_group(ranks, backend="nccl")

    def call(self, name: str) -> AbstractContextManager[None]:
        """All that is said to others meanwhile belongs to a call of this name."""
        return self._processes.call(name)

    def owners(self, table: int, keys: Any) -> Any:
        """The process of each key (n) int64 on the host; this one where all have all rows."""
        return self._sharing.owners(table, keys)

    def everywhere(self, table: int) -> bool:
        """Whether each process has all rows of a table."""
        return self._sharing.on_every_process(table)

    # --- batches --------------------------------------------------------------------------------

    def refuse(self, error: Exception) -> None:
        """Tells the others that this process has no batch; raises the error."""
        with self.call(_KEYS):
            self._processes.agree(failure=error)

    checks_bags = False

    def plan(self, batch: Callable[[], TableKeys], *, ahead: bool = False) -> torch.Tensor:
        """A batch that may train; see ``Engine.plan``. Collective, and owners are waited for.

        What goes wrong with the rows that others ask for is raised by all in forward.
        """
        self.release_ended()
        asked = self._ask("plan", batch)
        try:
            self._sharing.plan(asked.shared, memory_of(asked.keys), self.stream())
        except Exception as error:
            asked.failure = error
        self._batches += 1
        self._asked[self._batches] = asked
        return self.begin(self._batches, asked)

    def _release(self, token: int) -> None:
        if token in self._alive:
            del self._alive[token]
            self._streams.pop(token, None)
            planned = self._asked.pop(token).shared.token
            if planned:
                self.core.release(planned)

    def held(self, batch: Any) -> list[torch.Tensor]:
        """What forward and backward read of a batch."""
        return list(batch.held)

    def _ask(self, way: str, batch: Callable[[], TableKeys]) -> _Asked:
        """Asks owners for the rows of a batch, and hears what this process is asked for."""
        with self.call(_KEYS):
            asked, every = self._jointly(
                lambda: self._request(batch()),
                lambda asked: self._counted.pack(_WAYS.index(way), *asked.shared.wanted),
            )
        found = [self._counted.unpack(each) for each in every]
        if any(_WAYS[each[0]] != way for each in found):
            raise CommError(
                "the processes of a collection look up unlike batches: "
                + ", ".join(f"process {r} to {_WAYS[each[0]]}" for r, each in enumerate(found))
                + ". All must be in training, with gradients, or none"
            )
        self._sharing.answer(asked.shared, [n for each in found for n in each[1:]])
        sent, taken = self._sharing.keys(asked.shared)
        keys = asked.keys[: sum(sent)]
        if self._sharing.copies_to_all:
            keys = asked.keys.new_empty(sum(sent))
            self._sharing.copy_to_all(
                asked.shared, memory_of(asked.keys), memory_of(keys), self.stream()
            )
        asked.keys = asked.keys.new_empty(sum(taken))
        dist.all_to_all_single(asked.keys, keys, taken, sent, group=self._ahead)
        return asked

    def _request(self, batch: TableKeys) -> _Asked:
        """What this process asks for."""
        bags = sum(n for n, mean in zip(batch.bags(), self._mean, strict=True) if mean)
        keys = batch.keys()
        distinct = torch.empty(keys, dtype=torch.int64, device=self.device)
        room = torch.empty(self._sharing.room(keys, bags), dtype=torch.int32, device=self.device)
        shared = self._sharing.ask(
            batch.memory(), memory_of(distinct), memory_of(room), self.stream()
        )
        self.resolve()
        return _Asked(shared, [room, *batch.offsets()], distinct)

    def _travel(
        self,
        messages: Sequence[torch.Tensor],
        sizes: Sequence[tuple[list[int], list[int]]],
    ) -> list[torch.Tensor]:
        """Rows (n, d) of each group, so many to each process and from each; what comes likewise."""
        came = []
        for message, (sent, taken) in zip(messages, sizes, strict=True):
            width = message.shape[1] * message.element_size()
            rows = message.new_empty((sum(taken), message.shape[1]))
            dist.all_to_all_single(
                rows.view(-1).view(torch.uint8),
                message.view(-1).view(torch.uint8),
                [n * width for n in taken],
                [n * width for n in sent],
                group=self._exchange,
            )
            came.append(rows)
        return came

    def _messages(
        self, sizes: Sequence[tuple[list[int], list[int]]], dtype: torch.dtype
    ) -> list[torch.Tensor]:
        """Memory for what goes out, rows (n, d) of each group."""
        return [
            torch.empty((sum(sent), d), dtype=dtype, device=self.device)
            for (sent, _), d in zip(sizes, self._sharing.groups, strict=True)
        ]

    def forward(self, token: torch.Tensor, outputs: TableVectors) -> None:
        """Vectors (m, d) of a planned batch. Collective."""
        number = int(token.item())

        def give() -> tuple[_Asked, list[torch.Tensor]]:
            asked = self._batch(number)
            if asked.failure is not None:
                raise asked.failure
            self.used(number)
            rows = self._messages(self._sharing.vectors(asked.shared), *outputs.dtypes())
            self._sharing.give(asked.shared, _memories(rows), self.stream())
            return asked, rows

        asked, rows = self._agreed(f"forward of batch {number}", give)
        self._pool(asked, rows, outputs)

    def _pool(self, asked: _Asked, rows: Sequence[torch.Tensor], outputs: TableVectors) -> None:
        """Sends rows to who asked for them, and pools those that come."""
        came = self._travel(rows, self._sharing.vectors(asked.shared))
        self._sharing.pool(asked.shared, _memories(came), outputs.memory(), self.stream())

    def look_up(self, batch: Callable[[], TableKeys], outputs: TableVectors) -> None:
        """Vectors (m, d) of a batch that does not train. Collective."""
        self.release_ended()
        asked = self._ask("look up", batch)

        def give() -> list[torch.Tensor]:
            rows = self._messages(self._sharing.vectors(asked.shared), *outputs.dtypes())
            self._sharing.look_up(
                asked.shared, memory_of(asked.keys), _memories(rows), self.stream()
            )
            return rows

        self._pool(asked, self._agreed("the rows of a batch", give), outputs)

    def accumulate(self, token: torch.Tensor, gradients: TableVectors) -> None:
        """Gradients (m, d) of a batch's vectors, kept for the next step. Collective.

        They count a share of 1 / processes, as DDP's do.
        """
        number = int(token.item())

        def sums() -> tuple[_Asked, list[torch.Tensor]]:
            asked = self._batch(number)
            self.used(number)
            # A key of every sample would leave the range of float16.
            narrow = torch.bfloat16 in gradients.dtypes()
            rows = self._messages(
                self._sharing.gradients(asked.shared), torch.bfloat16 if narrow else torch.float32
            )
            self._sharing.sum_gradients(
                asked.shared,
                gradients.memory(),
                1.0 / self._size,
                _memories(rows),
                self.stream(),
            )
            return asked, rows

        asked, rows = self._agreed(f"backward of batch {number}", sums)
        came = self._travel(rows, self._sharing.gradients(asked.shared))
        self._sharing.accumulate(asked.shared, _memories(came), self.stream())
        if self.after_backward is not None:
            self.after_backward()

    def squares(self) -> torch.Tensor:
        """(tables) float64: sums of squares of the gradients of all processes. Collective."""
        own = self._agreed("the norms of gradients", super().squares)
        if self._rank > 0:  # others count rows that all have
            own = own * own.new_tensor([not self.everywhere(t) for t in range(len(self.dims))])
        dist.all_reduce(own, group=self._exchange)
        return own

    def step(self, rates: Sequence[float], unscale: torch.Tensor | None) -> None:
        """One update, on all processes or on none; rates must be the same everywhere."""
        own = np.array(rates, np.float64)
        with self.call(f"step {self.core.steps() + 1}"):
            every = self._processes.agree(own.tobytes())
        for rank, other in enumerate(every):
            if other != every[0]:
                found = [np.frombuffer(each).tolist() for each in (every[0], other)]
                raise InvalidArgument(
                    f"the processes of a collection disagree on learning rates: process 0 has "
                    f"{found[0]}, process {rank} {found[1]}, a number a table; step their "
                    "schedulers alike"
                )
        super().step(rates, unscale)

    def _jointly(
        self, work: Callable[[], T], say: Callable[[T], bytes] = lambda _: b""
    ) -> tuple[T, list[bytes]]:
        """The result of this process, and what all say of theirs; its failure, on all."""
        failure: Exception | None = None
        said = b""
        results: list[T] = []
        try:
            results.append(work())
            said = say(results[0])
        except Exception as error:
            failure = error
        except BaseException:  # interrupted: the others must not wait
            self._processes.abort(f"process {self._rank} was interrupted")
            raise
        every = self._processes.agree(said, failure)  # raises the failure
        return results[0], every

    def _agreed(self, name: str, work: Callable[[], T]) -> T:
        with self.call(name):
            return self._jointly(work)[0]

    def _batch(self, number: int) -> _Asked:
        found = self._asked.get(number)
        if found is None:
            raise InvalidArgument(
                f"a collection has no batch {number}: it was released, as all are when rows are "
                "written from outside, or is of another collection"
            )
        return found


def _memories(tensors: Sequence[torch.Tensor]) -> list[Memory]:
    return [memory_of(each) for each in tensors]
