# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are spread over the processes of a job, each with one device.

A lookup sends every owner the distinct keys of this process's batch that it owns; owners look them
up as bags of one key in tables of their own, and rows come back to be pooled here. Backward goes
the other way with the sum of each row's gradients. So batches may be of unlike size, or empty.

What is done for all tables is one call of the core (``TableSharing``), and what travels one message
for all tables of one vector size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from hugectr.base.errors import InvalidArgument
from hugectr.torch.asked import Asked
from hugectr.torch.asking_engine import AskingEngine
from hugectr.torch.exchange_beside import ExchangeBeside
from hugectr.torch.table_memory import NAMES, TableKeys, TableVectors, memory_of
from hugectr.torch.torch_group import carry

if TYPE_CHECKING:
    from hugectr._core_collection import Memory

#: Below it are numbers of what happened in the backwards of a step.
_PRIME = 2**31 - 1


#: What a process says at a step first: whether it has gradients, and the batch that is prepared.
_BEGIN = struct.Struct("<?q")

#: Rows of each group of tables that go out, and those that come.
Messages = tuple[list[torch.Tensor], list[torch.Tensor]]


class SharedEngine(AskingEngine):
    """The engine of one of several processes; see ``AskingEngine``."""

    #: What the vectors of the last forward travelled as.
    _sent_as: torch.dtype | None = None
    _given_by = 0  #: stream

    def _travel(
        self, messages: Messages, sizes: Sequence[tuple[list[int], list[int]]]
    ) -> list[torch.Tensor]:
        """Rows (n, d) of each group, so many to each process and from each; those that come."""
        for out, came, (sent, taken) in zip(*messages, sizes, strict=True):
            width = out.shape[1] * out.element_size()
            carry(
                self._exchange,
                out.view(-1).view(torch.uint8),
                came.view(-1).view(torch.uint8),
                [n * width for n in sent],
                [n * width for n in taken],
            )
        return messages[1]

    def _messages(
        self, sizes: Sequence[tuple[list[int], list[int]]], dtype: torch.dtype
    ) -> Messages:
        """Memory for what goes out and for what comes, rows (n, d) of each group."""
        out, came = (
            [
                torch.empty((sum(pair[way]), d), dtype=dtype, device=self.device)
                for pair, d in zip(sizes, self._sharing.groups, strict=True)
            ]
            for way in (0, 1)
        )
        return out, came

    def forward(self, token: torch.Tensor, outputs: TableVectors) -> None:
        """Vectors (m, d) of a planned batch. Collective."""
        self.heard(token)
        number = int(token.item())
        if number in self._due:
            self._due.remove(number)
        came = self._came(number, outputs)
        if came is not None:
            asked = self._batch(number)
            self.used(number)
            self._sharing.pool(asked.shared, _memories(came), outputs.memory(), self.stream())
            return
        self._settle()

        def give() -> tuple[Asked, Messages]:
            asked = self._batch(number)
            self.used(number)
            (self._sent_as,) = outputs.dtypes()
            messages = self._messages(self._sharing.vectors(asked.shared), self._sent_as)
            self._sharing.give(asked.shared, _memories(messages[0]), self.stream())
            return asked, messages

        self._pool(*self._agreed(f"forward of batch {self._known(number)}", give), outputs)

    def _came(self, number: int, outputs: TableVectors) -> list[torch.Tensor] | None:
        """The vectors that came with the last step, where those of this batch did."""
        asked = self._asked.get(number)
        if asked is None or asked.came is None or outputs.dtypes() != {asked.came[0].dtype}:
            return None
        self._settle()
        self.release_ended()
        if self._given_by != self.stream():
            for each in asked.came:
                each.record_stream(torch.cuda.current_stream(self.index))
        return asked.came

    def _pool(self, asked: Asked, messages: Messages, outputs: TableVectors) -> None:
        """Sends rows to who asked for them, and pools those that come."""
        came = self._travel(messages, self._sharing.vectors(asked.shared))
        self._sharing.pool(asked.shared, _memories(came), outputs.memory(), self.stream())

    def look_up(self, batch: Callable[[], TableKeys], outputs: TableVectors) -> None:
        """Vectors (m, d) of a batch that does not train. Collective."""
        self.hear_ahead()
        self.release_ended()
        asked = self._hear("look up", lambda: self._request(batch()))

        def give() -> Messages:
            messages = self._messages(self._sharing.vectors(asked.shared), *outputs.dtypes())
            self._sharing.look_up(
                asked.shared, memory_of(asked.keys), _memories(messages[0]), self.stream()
            )
            return messages

        self._pool(asked, self._agreed("the rows of a batch", give), outputs)

    def accumulate(self, token: torch.Tensor, gradients: TableVectors) -> None:
        """Gradients (m, d) of a batch's vectors, kept for the next step. Collective.

        They count a share of 1 / processes, as DDP's do.
        """
        number = int(token.item())

        def sums() -> tuple[Asked, Messages, bytes]:
            self._settle()
            asked = self._batch(number)
            self.used(number)
            dtype, share = _of_sums(gradients), 1.0 / self._size
            self._sharing.make_room(asked.shared, NAMES[dtype], gradients=True)
            messages = self._messages(self._sharing.gradients(asked.shared), dtype)
            out = _memories(messages[0])
            self._sharing.sum_gradients(asked.shared, gradients.memory(), share, out, self.stream())
            return asked, messages, self._said_ahead()

        with self.call(f"backward of batch {self._known(number)}"):
            (asked, messages, _), every = self._jointly(sums, lambda result: result[2])
        if self._thread is None:
            # What the others wait for is done whatever happens here: this batch's gradients, and
            # the batch ahead, in one order everywhere.
            came = self._travel(messages, self._sharing.gradients(asked.shared))
            try:
                self._sharing.accumulate(asked.shared, _memories(came), self.stream())
            finally:
                self._plan_answered(self._answers(every))
        else:
            self._leave(self._thread, asked, messages, every)
        both = zip(self._trained, self.trainable, strict=True)  # the core forgets those of frozen
        self._trained = [(2 * before + 1 + trained) % _PRIME for before, trained in both]
        self.end_backward()

    def _leave(
        self, thread: ExchangeBeside, asked: Asked, messages: Messages, every: list[bytes]
    ) -> None:
        """Has a thread send sums of gradients, and the keys of the batch ahead along with them."""
        try:
            along = self._answers(every)
            thread.accumulate(asked, *messages, self.stream(), along)
        except BaseException as error:  # the others wait for what does not come
            thread.abort(f"process {self._rank} can not send gradients: {error!r}")
            raise
        if along is not None:
            self._count(along.ahead.result())
            self._is_planned(along.ahead)
            self._end_if_over(along.ahead)

    def squares(self) -> torch.Tensor:
        """(tables) float64: sums of squares of the gradients of all processes. Collective."""
        own = self._agreed("the norms of gradients", super().squares)
        if self._rank > 0:  # others count rows that all have
            own = own * own.new_tensor([not self.everywhere(t) for t in range(len(self.dims))])
        dist.all_reduce(own, group=self._exchange)
        return own

    def step(self, rates: Callable[[], Sequence[float]], unscale: torch.Tensor | None) -> None:
        """One update, on all processes or on none; all have the same rates and frozen tables."""
        both = zip(self._trained, self.trainable, strict=True)
        trained = [float(1 + of_backwards) * now for of_backwards, now in both]
        with self.call(f"step {self._core.steps() + 1}"):
            (_, ahead, own), told = self._jointly(
                lambda: (self.core.has_gradients(), self._prepare(), rates()),
                lambda found: (
                    _BEGIN.pack(found[0], _number(found[1]))
                    + np.array([*found[2], *trained], np.float64).tobytes()
                    + self._factors(unscale).tobytes()
                ),
            )
        begins = [_BEGIN.unpack_from(each) for each in told]
        if not _all_or_none([has_any for has_any, _ in begins]):
            return
        every = [each[_BEGIN.size :] for each in told]
        for rank, other in enumerate(every):
            if other != every[0]:
                _check_alike(rank, every[0], other, len(self.dims))
        for asked in self._asked.values():
            asked.came = None
        if any(number != begins[0][1] for _, number in begins):
            ahead = None
        try:
            # No batch is released meanwhile: others may count on the one that is prepared.
            self.core.step(own, None if unscale is None else memory_of(unscale), self.stream())
        except BaseException:
            self._give(ahead)  # the others wait for it
            raise
        self._trained = [0] * len(self.dims)
        # Where not all had begun it by the backward. The device has a whole step before it, so that
        # waiting for others costs it nothing.
        self.hear_ahead()
        self._give(ahead)

    def _factors(self, unscale: torch.Tensor | None) -> Any:
        """What the gradients of each table are multiplied by, float32; none: nobody has."""
        if unscale is None:
            return np.zeros(0, np.float32)
        if unscale.device.type == "cpu":
            return unscale.numpy()
        # The host would wait for the device in each step. What was dropped is known to it.
        factors = np.ones(len(self.dims), np.float32)
        factors[self.waiting.left_out() if self.waiting is not None else []] = 0
        return factors

    def _prepare(self) -> tuple[Asked, Messages] | None:
        """The batch ahead whose vectors may leave with this step, with memory for them.

        None where it is not planned, or there is no memory: forward says why.
        """
        self.release_ended()
        if self._thread is None or self._sent_as is None or not self._due:
            return None
        asked = self._asked[self._due[0]]
        try:
            self._sharing.check(asked.shared)
            self._sharing.make_room(asked.shared, NAMES[self._sent_as])
            return asked, self._messages(self._sharing.vectors(asked.shared), self._sent_as)
        except Exception:
            return None

    def _give(self, ahead: tuple[Asked, Messages] | None) -> None:
        """Has a thread send the vectors of the batch ahead, if all have it, to who asked."""
        if ahead is None or self._thread is None:
            return
        self._given_by = self.stream()
        asked, (out, came) = ahead
        asked.came = came
        self._thread.give(asked, out, came, self._given_by)

    def is_due(self) -> bool:
        """Always: whether others have gradients is known by asking them."""
        return True

    def clear_gradients(self) -> None:
        """Forgets the gradients since the last step."""
        # None have come since a thread began to send vectors, which need not be waited for.
        if self._thread is None or not self._thread.is_giving():
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


def _check_alike(rank: int, first: bytes, other: bytes, tables: int) -> None:
    """Whether a process steps as process 0 does: rates, frozen tables, factors of gradients."""
    size = 2 * tables * np.float64().nbytes
    pair = [np.frombuffer(each[:size]).reshape(2, tables) for each in (first, other)]
    _check_frozen(rank, *(trained for _, trained in pair))
    rates = [each.tolist() for each, _ in pair]
    if rates[0] != rates[1]:
        raise InvalidArgument(
            f"the processes of a collection disagree on learning rates: process 0 has {rates[0]}, "
            f"process {rank} {rates[1]}, a number a table; step their schedulers alike"
        )
    mine, theirs = (
        np.frombuffer(each[size:], np.float32) if len(each) > size else np.ones(tables, np.float32)
        for each in (first, other)
    )
    # Norms of dense gradients are alike but for rounding.
    if not np.allclose(mine, theirs, rtol=1e-4, atol=0, equal_nan=True):
        raise InvalidArgument(
            "the processes of a collection disagree on what gradients were multiplied by since "
            f"backward: process 0 has {mine.tolist()}, process {rank} {theirs.tolist()}, "
            "a number a table (0: dropped); unscale, clip and drop them alike, by norms that are "
            "those of all processes; zero_grad() forgets them"
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


def _number(ahead: tuple[Asked, Messages] | None) -> int:
    """What all processes know a prepared batch by; 0: there is none."""
    return 0 if ahead is None else ahead[0].number


def _of_sums(gradients: TableVectors) -> torch.dtype:
    """What sums of gradients travel as."""
    # A key of every sample would leave the range of float16.
    return torch.bfloat16 if torch.bfloat16 in gradients.dtypes() else torch.float32


def _memories(tensors: Sequence[torch.Tensor]) -> list[Memory]:
    return [memory_of(each) for each in tensors]
