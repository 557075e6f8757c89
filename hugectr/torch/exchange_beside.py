# SPDX-License-Identifier: Apache-2.0
"""What shared tables send in a step, submitted by a thread of the core's while Python goes on.

Sums of gradients leave in backward and are kept by their owners while the dense part's optimizer
steps, the keys of a batch ahead along with them; the vectors of the batch ahead leave as soon as
rows have been updated, while the next batch is fetched. They go by a communicator of the core's
own: torch's takes three times as long to be called. A collection has a thread, and all of the same
processes have one communicator. What reads tensors of others is not among it: those may change once
a call has returned.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from hugectr import _core
from hugectr.base.errors import InvalidArgument
from hugectr.torch.asked import Along, Asked
from hugectr.torch.channels import is_registered
from hugectr.torch.failure_watch import FailureWatch
from hugectr.torch.table_memory import memory_of
from hugectr.torch.torch_group import TorchGroup, let_go_at_exit

if TYPE_CHECKING:
    from hugectr._core_collection import Memory

#: Whether there is such a thread: 0 nowhere, 1 everywhere.
SETTING = "HUGECTR_EXCHANGE_BESIDE"


def is_beside(device: torch.device) -> bool:
    """Whether a thread submits what tables on a device send: on GPUs, if the core finds NCCL."""
    said = os.environ.get(SETTING, "")
    if said not in ("", "0", "1"):
        raise InvalidArgument(f"{SETTING} is 0 or 1, found {said!r}")
    if said or device.type != "cuda":
        return said == "1"
    return _core.device_libraries("cuda")["NCCL"][:1].isdigit()  # its version; else why not


class CoreGroup:
    """The processes of a channel as the core calls them back: by threads, in an order of its own.

    Parameters
    ----------
    own : TorchGroup
        For these calls alone.
    """

    def __init__(self, own: TorchGroup) -> None:
        self._own = own
        #: Of the collections, who are told when one can not go on.
        self._told: weakref.WeakSet[TorchGroup] = weakref.WeakSet()
        let_go_at_exit(self, "_own")  # the core's communicator has this until then
        self.rank, self.size = own.rank, own.size
        self.failure = SimpleNamespace(limit=own.limit.total_seconds())
        self.is_over = False
        #: By which processes hear it that wait in NCCL, once there is what they could wait in.
        self.watch: FailureWatch | None = None

    def tells(self, group: TorchGroup) -> None:
        """Has a collection's group told when one can not go on."""
        self._told.add(group)

    def is_open(self) -> bool:
        """Whether nothing went wrong, and torch.distributed has not ended meanwhile."""
        return not self.is_over and is_registered(getattr(self._own, "torch_group", None))

    def exchange_into(
        self,
        send: memoryview,
        send_bytes: Sequence[int],
        receive: memoryview,
        receive_bytes: Sequence[int],
        limit: float | None = None,
    ) -> None:
        """Send each process its bytes and fill ``receive`` by rank; the group's limit counts."""
        parts, begin = [], 0
        for size in send_bytes:
            parts.append(send[begin : begin + size])
            begin += size
        begin = 0
        with self._own.call("what a collection's thread sends"):
            every = self._own.exchange(parts)
        for size, part in zip(receive_bytes, every, strict=True):
            receive[begin : begin + size] = part
            begin += size

    def duplicate(self, name: str) -> CoreGroup:
        """The same processes with an order of calls of their own."""
        copy = CoreGroup(self._own.duplicate(name))
        copy._told = self._told
        return copy

    def abort(self, reason: str) -> None:
        """Make the calls that the others are in, and their next, raise CommError(reason)."""
        self.is_over = True
        if self.watch is not None:
            self.watch.tell(reason)
        for group in (self._own, *self._told):
            if group is not None:  # else the interpreter is about to end
                group.abort(reason)


class ThreadChannel:
    """The communicator of the core's that threads of collections send by. Collective.

    Parameters
    ----------
    group : TorchGroup
        Of any of the collections.
    sharing : TableSharing
        Of that collection.
    """

    def __init__(self, group: TorchGroup, sharing: _core.TableSharing) -> None:
        self.group = CoreGroup(group.duplicate("exchange"))
        self.communicator: Any = _core.SharedCommunicator(sharing, self.group)
        self.group.watch = FailureWatch(group, self._hear)
        let_go_at_exit(self, "communicator")

    def _hear(self, reason: str) -> None:
        """Another process can not go on: what waits for it here ends."""
        communicator = self.communicator
        if communicator is not None:  # else the interpreter is about to end
            communicator.abort(reason)

    def is_open(self) -> bool:
        """Whether nothing has gone wrong in it."""
        return self.group.is_open()


class ExchangeBeside:
    """The thread of one collection; one call at a time, and ``settle`` before all others.

    Parameters
    ----------
    sharing : TableSharing
    channel : ThreadChannel
        Of its processes.
    group : TorchGroup
        Of the collection.
    """

    def __init__(
        self, sharing: _core.TableSharing, channel: ThreadChannel, group: TorchGroup
    ) -> None:
        channel.group.tells(group)
        #: Makes the calls of all processes end with the reason.
        self.abort: Callable[[str], None] = channel.communicator.abort
        self._core = _core.TableExchange(sharing, channel.communicator)
        self.is_under_way = self._core.is_under_way
        self._by = 0  #: the stream of the last call
        self._gives = False  #: whether that was give()

    def settle(self) -> None:
        """Until the call before has been submitted, if there is one; raises what went wrong."""
        if self.is_under_way():
            # Memory of the call goes back to the stream that it came by, which may be another now.
            self._core.settle(self._by)

    def is_giving(self) -> bool:
        """Whether vectors are being sent: then nothing of the tables has changed since a step."""
        return self._gives and self.is_under_way()

    def give(
        self, asked: Asked, out: list[torch.Tensor], came: list[torch.Tensor], stream: int
    ) -> None:
        """Vectors to who asked for them, and those asked for come; ``stream``: the caller's."""
        held = asked, out, came
        self._by, self._gives = stream, True
        self._core.give(asked.shared, _all(out), _all(came), self._by, held)

    def accumulate(
        self,
        asked: Asked,
        out: list[torch.Tensor],
        came: list[torch.Tensor],
        stream: int,
        along: Along | None,
    ) -> None:
        """Sums of gradients to the owners of rows, and those that come are kept.

        ``along``: a batch ahead, whose keys travel with them and are planned.
        """
        held = asked, out, came
        self._by, self._gives = stream, False
        ahead = None
        if along is not None:
            found = along.ahead.result()
            # Until the plan has been made, when the stream that it came by is behind it too.
            found.held.append(along.out)
            memory = memory_of(along.out), memory_of(found.keys)
            ahead = found.shared, *memory, along.stream, found
        self._core.accumulate(asked.shared, _all(out), _all(came), self._by, held, ahead)


def _all(tensors: Sequence[torch.Tensor]) -> list[Memory]:
    return [memory_of(each) for each in tensors]
