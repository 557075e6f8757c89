# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are spread over the processes of a job, each with one device.

A lookup sends every owner the distinct keys of this process's batch that it owns; owners look them
up as bags of one key in tables of their own, and rows come back to be pooled here. Backward goes
the other way with the sum of each row's gradients. So batches may be of unlike size, or empty.

What is done for all tables is one call of the core (``TableSharing``), and what travels one message
for all tables of one vector size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from hugectr.base.errors import InvalidArgument
from hugectr.torch.asked import Asked, another
from hugectr.torch.asking_engine import AskingEngine
from hugectr.torch.table_memory import TableKeys, TableVectors, memory_of
from hugectr.torch.torch_group import carry

if TYPE_CHECKING:
    from hugectr._core_collection import Memory

#: Below it are numbers of what happened in the backwards of a step.
_PRIME = 2**31 - 1


class SharedEngine(AskingEngine):
    """The engine of one of several processes; see ``AskingEngine``."""

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
            carry(
                self._exchange,
                message.view(-1).view(torch.uint8),
                rows.view(-1).view(torch.uint8),
                [n * width for n in sent],
                [n * width for n in taken],
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
        self.heard(token)
        number = int(token.item())

        def give() -> tuple[Asked, list[torch.Tensor]]:
            asked = self._batch(number)
            if asked.failure is not None:
                raise another(asked.failure)
            self.used(number)
            rows = self._messages(self._sharing.vectors(asked.shared), *outputs.dtypes())
            self._sharing.give(asked.shared, _memories(rows), self.stream())
            return asked, rows

        asked, rows = self._agreed(f"forward of batch {self._known(number)}", give)
        self._pool(asked, rows, outputs)

    def _pool(self, asked: Asked, rows: Sequence[torch.Tensor], outputs: TableVectors) -> None:
        """Sends rows to who asked for them, and pools those that come."""
        came = self._travel(rows, self._sharing.vectors(asked.shared))
        self._sharing.pool(asked.shared, _memories(came), outputs.memory(), self.stream())

    def look_up(self, batch: Callable[[], TableKeys], outputs: TableVectors) -> None:
        """Vectors (m, d) of a batch that does not train. Collective."""
        self.hear_ahead()
        self.release_ended()
        asked = self._hear("look up", lambda: self._request(batch()))

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

        def sums() -> tuple[Asked, list[torch.Tensor], bytes]:
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
            return asked, rows, self._said_ahead()

        with self.call(f"backward of batch {self._known(number)}"):
            (asked, rows, _), every = self._jointly(sums, lambda result: result[2])
        came = self._travel(rows, self._sharing.gradients(asked.shared))
        try:
            self._sharing.accumulate(asked.shared, _memories(came), self.stream())
        finally:
            # The others go on with it whatever happens here. Behind what this backward has sent, so
            # that both go in one order everywhere.
            self._heard_along(every)
        both = zip(self._trained, self.trainable, strict=True)  # the core forgets those of frozen
        self._trained = [(2 * before + 1 + trained) % _PRIME for before, trained in both]
        self.end_backward()

    def squares(self) -> torch.Tensor:
        """(tables) float64: sums of squares of the gradients of all processes. Collective."""
        own = self._agreed("the norms of gradients", super().squares)
        if self._rank > 0:  # others count rows that all have
            own = own * own.new_tensor([not self.everywhere(t) for t in range(len(self.dims))])
        dist.all_reduce(own, group=self._exchange)
        return own

    def step(self, rates: Sequence[float], unscale: torch.Tensor | None) -> None:
        """One update, on all processes or on none; all have the same rates and frozen tables."""
        both = zip(self._trained, self.trainable, strict=True)
        trained = [float(1 + of_backwards) * now for of_backwards, now in both]
        own = np.array([*rates, *trained], np.float64)
        has_any = b"\1" if self.core.has_gradients() else b"\0"
        with self.call(f"step {self.core.steps() + 1}"):
            told = self._processes.agree(has_any + own.tobytes())
        if not _all_or_none([each[0] for each in told]):
            return
        every = [each[1:] for each in told]
        for rank, other in enumerate(every):
            if other != every[0]:
                pair = [np.frombuffer(each).reshape(2, -1) for each in (every[0], other)]
                _check_frozen(rank, *(trained for _, trained in pair))
                found = [each.tolist() for each, _ in pair]
                raise InvalidArgument(
                    f"the processes of a collection disagree on learning rates: process 0 has "
                    f"{found[0]}, process {rank} {found[1]}, a number a table; step their "
                    "schedulers alike"
                )
        super().step(rates, unscale)
        self._trained = [0] * len(self.dims)
        # Where not all had begun it by the backward. The device has a whole step before it, so that
        # waiting for others costs it nothing.
        self.hear_ahead()

    def is_due(self) -> bool:
        """Always: whether others have gradients is known by asking them."""
        return True

    def clear_gradients(self) -> None:
        """Forgets the gradients since the last step."""
        super().clear_gradients()
        self._trained = [0] * len(self.dims)


def _all_or_none(has_gradients: list[int]) -> bool:
    """Whether all processes have gradients that wait for a step; refuses that some have."""
    if all(has_gradients) or not any(has_gradients):
        return bool(has_gradients[0])
    without = [rank for rank, has in enumerate(has_gradients) if not has]
    raise InvalidArgument(
        f"step() of a collection: processes {without} have no gradients, and others do: all call "
        "backward() and zero_grad() alike; who has no samples goes on with empty batches "
        "(hugectr.torch.until_all_end)"
    )


def _check_frozen(rank: int, first: Any, other: Any) -> None:
    """Whether process 0 and another have the same tables frozen, now and in each backward."""
    frozen = [np.flatnonzero(each == 0).tolist() for each in (first, other)]
    if frozen[0] != frozen[1]:
        raise InvalidArgument(
            "the processes of a collection disagree on which tables are frozen: process 0 has "
            f"{frozen[0]}, process {rank} {frozen[1]}, by their numbers; freeze() and unfreeze() "
            "the same ones on all of them"
        )
    unlike = np.flatnonzero(first != other).tolist()
    if unlike:
        raise InvalidArgument(
            "the processes of a collection disagree on which tables were frozen in backward: "
            f"{unlike}, by their numbers, on process 0 or {rank} alone, which lacks gradients; "
            "zero_grad(), and freeze() and unfreeze() the same ones on all processes"
        )


def _memories(tensors: Sequence[torch.Tensor]) -> list[Memory]:
    return [memory_of(each) for each in tensors]
