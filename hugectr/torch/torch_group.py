# SPDX-License-Identifier: Apache-2.0
"""The processes of torch.distributed, as the rest of the package knows processes."""

from __future__ import annotations

import atexit
import struct
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from hugectr.base import log
from hugectr.base.errors import CommError
from hugectr.processes import values
from hugectr.processes.agreement import describe, first_cause
from hugectr.torch.links import LONGEST, connect
from hugectr.torch.own_groups import new_group

#: What a message begins with: the name of the call that its sender is in, and its bytes.
_HEAD = struct.Struct("<64sQ")
#: Bytes of a head and of what travels with it, so that a short message is one exchange.
_SHORTEST = 1024
#: The name under which a process says that it can not go on.
_ABORTED = "aborted"
_ABORTED_NAME = _ABORTED.encode().ljust(64, b"\0")
#: Seconds that a process which can not go on tries to say so.
_FAREWELL = 5


#: What has groups of torch.distributed, and under which names.
_holders: list[tuple[weakref.ref[object], tuple[str, ...]]] = []


def let_go_at_exit(holder: object, *names: str) -> None:
    """Has a holder of groups give them back before the interpreter ends.

    A group whose last holder goes with the interpreter has threads until then: one that lets go of
    a tensor asks for Python's lock, for which an interpreter that ends aborts the program
    ("terminate called without an active exception"), or is joined by who has the lock.
    """
    _holders[:] = [each for each in _holders if each[0]() is not None]
    _holders.append((weakref.ref(holder), names))


@atexit.register
def _let_go() -> None:
    for holder_of, names in _holders:
        holder = holder_of()
        for name in names if holder is not None else ():
            setattr(holder, name, None)


#: What gloo's threads have done last. They let go of it some time after they have said that it is
#: done, and must not be the last to have its tensors: for those they ask for Python's lock, which
#: who ends their group has while it waits for them (seen with torch 2.4).
_recent: deque[Any] = deque(maxlen=4)


@cache
def _in_order() -> Any:
    """That a collective is in the order of the stream that it is called on."""
    options = dist.AllToAllOptions()
    if hasattr(options, "asyncOp"):
        options.asyncOp = False
    return options


def time_limit(parent: Any = None) -> timedelta:
    """How long the processes of a group wait for each other, as ``init_process_group`` was told.

    Parameters
    ----------
    parent : torch.distributed.ProcessGroup, optional
        None: that of all processes of the job.
    """
    group = parent or dist.distributed_c10d._get_default_group()
    for device in ("cpu", "cuda"):
        try:
            limit = group._get_backend(torch.device(device)).options._timeout
        except (AttributeError, RuntimeError):  # no backend of this device, or none that says it
            continue
        if isinstance(limit, timedelta):
            return limit
    return default_pg_timeout


def carry(
    group: Any, message: torch.Tensor, came: torch.Tensor, sent: list[int], taken: list[int]
) -> None:
    """``dist.all_to_all_single``, without what that does around it: so much to and from each."""
    work = group.alltoall_base(came, message, taken, sent, _in_order())
    if work is not None:
        work.wait()
        if message.device.type == "cpu":
            _recent.append(work)


class TorchGroup:
    """A ``hugectr.processes.group.ProcessGroup`` over torch.distributed, on the host.

    Each message names the call it belongs to: processes that are in unlike calls are all told so,
    where otherwise they would wait for one another. Collective.

    Parameters
    ----------
    parent : torch.distributed.ProcessGroup, optional
        Whose processes; None: all of the job. The group has connections of its own (gloo), so that
        its calls and those of DDP have no common order.
    awake : bool
        Whether who waits for others stays awake at first: where their work is on GPUs, so that
        processors have little to do.
    """

    def __init__(self, parent: Any = None, *, awake: bool = False) -> None:
        #: The group of torch.distributed whose processes they are; None: all of the job.
        self.parent: Any = parent
        self._awake = awake
        #: How long processes wait for each other.
        self.limit = time_limit(parent)
        #: The torch.distributed group itself.
        self.torch_group: Any = new_group(parent, "gloo", self.limit)
        let_go_at_exit(self, "torch_group", "parent")
        self.rank: int = dist.get_rank(self.torch_group)
        self.size: int = dist.get_world_size(self.torch_group)
        self._call = ""
        self._reason: str | None = None
        #: How often processes have made unlike calls; all have counted alike.
        self.mismatches = 0
        self._links = None
        self._widen(_SHORTEST)
        with self.call("a new group"):
            limit = self.limit.total_seconds()
            self._links = connect(self.rank, self.size, self.all_gather, limit, awake=awake)

    def _widen(self, size: int) -> None:
        self._short = size - _HEAD.size
        self._own = torch.zeros(size, dtype=torch.uint8, device="cpu")
        self._every = [torch.zeros(size, dtype=torch.uint8, device="cpu") for _ in range(self.size)]

    def make_room(self, size: int) -> None:
        """From now on messages of so many bytes are one exchange. All processes say the same."""
        if size > self._short:
            if _HEAD.size + size > LONGEST:
                self._links = None
            self._widen(_HEAD.size + (size + 1023) // 1024 * 1024)

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """All that is said meanwhile belongs to a call of this name."""
        before, self._call = self._call, name
        try:
            yield
        finally:
            self._call = before

    def barrier(self, limit: float | None = None) -> None:
        """Wait until all processes are here."""
        self.all_gather(b"")

    def all_gather(self, data: bytes, limit: float | None = None) -> list[bytes]:
        """Give everybody the data of everybody, by rank. ``limit`` is torch.distributed's own."""
        if self._reason is not None:
            raise CommError(self._reason)
        first = self._gather(self._message(self._call, data))
        heads = [_HEAD.unpack_from(message) for message in first]
        whole = [message[_HEAD.size :] for message in first]
        if any(name != heads[0][0] or name == _ABORTED_NAME for name, _ in heads):
            self.mismatches += 1
            self._refuse(
                [name.rstrip(b"\0").decode("utf-8", "replace") for name, _ in heads],
                [text[:size] for text, (_, size) in zip(whole, heads, strict=True)],
            )
        sizes = [size for _, size in heads]
        if max(sizes) > self._short:
            whole = self._gather_long(data, max(sizes))
        return [message[:size] for message, size in zip(whole, sizes, strict=True)]

    def agree(self, data: bytes = b"", failure: Exception | None = None) -> list[bytes]:
        """As ``all_gather`` where nothing went wrong; else all raise the failure.

        What ``processes.agreement`` does for plain values, for the calls of every step.
        """
        said = b"\0" + data if failure is None else b"\1" + values.encode(describe(failure))
        every = self.all_gather(said)
        if any(each[0] for each in every):
            told: list[dict[str, Any] | None] = []
            for each in every:
                found = values.decode(each[1:]) if each[0] else None
                told.append(found if isinstance(found, dict) else None)
            unknown = "a process failed and did not say why"
            # Under no name: the error's traceback has this frame.
            raise first_cause(told) or CommError(unknown) from failure
        return [each[1:] for each in every]

    def _message(self, call: str, data: bytes) -> bytes:
        head = _HEAD.pack(call.encode()[:64], len(data))
        return head + data[: self._short]

    def _gather(self, data: bytes) -> list[bytes]:
        """Of a message that is not longer than the memory for them."""
        if self._links is not None:
            try:
                self._links.send(data)
                return self._links.receive(data, len(self._own), self._late)
            except OSError as error:
                raise self._lost(error) from error
            except BaseException:  # what comes next is not what is waited for next
                self.abort(f"process {self.rank} was interrupted in {self._call!r}")
                raise
        own = self._own.numpy()
        own[: len(data)] = bytearray(data)
        try:
            # Not through torch.distributed: what that does around it takes longer than this does.
            self.torch_group.allgather([self._every], [self._own]).wait()
        except RuntimeError as error:
            raise self._lost(error) from error
        return [each.numpy().tobytes() for each in self._every]

    def _gather_long(self, data: bytes, size: int) -> list[bytes]:
        own = torch.frombuffer(bytearray(data.ljust(size, b"\0")), dtype=torch.uint8)
        every = [torch.empty_like(own) for _ in range(self.size)]
        try:
            dist.all_gather(every, own, group=self.torch_group)
        except RuntimeError as error:
            raise self._lost(error) from error
        return [each.numpy().tobytes() for each in every]

    def _late(self, rank: int) -> None:
        """Says what is waited for, before the time limit ends it."""
        log.warning(
            f"process {self.rank} waits for process {rank} in {self._call!r} of a collection, "
            f"until {self.limit.total_seconds():g} s are over: all make the same calls "
            "in the same order, those of several collections among them"
        )

    def _lost(self, error: Exception) -> CommError:
        self._reason = (
            f"process {self.rank} of {self.size} lost the others in {self._call!r}: "
            f"{str(error).splitlines()[0]}"
        )
        return CommError(self._reason)

    def _refuse(self, names: list[str], texts: list[bytes]) -> None:
        """Raises, on all processes alike: they are in unlike calls, or one can not go on."""
        for rank, name in enumerate(names):
            if name == _ABORTED:
                said = texts[rank].decode("utf-8", "replace")
                self._reason = f"process {rank} can not go on: {said}"
                raise CommError(self._reason)
        every = ", ".join(f"process {rank} in {name!r}" for rank, name in enumerate(names))
        raise CommError(
            f"the processes of a collection make unlike calls: {every}. All must make the "
            "same lookups, backwards, steps and readings of rows in the same order; who has no "
            "samples left goes on with empty batches (hugectr.torch.until_all_end)"
        )

    def exchange(self, parts: Sequence[memoryview], limit: float | None = None) -> list[bytearray]:
        """Send ``parts[r]`` to process r; returns what each process sent, by rank."""
        sizes = [len(part) for part in parts]
        every = self.all_gather(struct.pack(f"<{self.size}Q", *sizes))
        mine = [struct.unpack(f"<{self.size}Q", each)[self.rank] for each in every]
        sent = torch.frombuffer(bytearray(b"".join(parts)) or bytearray(1), dtype=torch.uint8)
        received = torch.empty(sum(mine), dtype=torch.uint8, device="cpu")
        try:
            dist.all_to_all_single(
                received, sent[: sum(sizes)], mine, sizes, group=self.torch_group
            )
        except RuntimeError as error:
            raise self._lost(error) from error
        return [bytearray(part.numpy().tobytes()) for part in received.split(mine)]

    def duplicate(self, name: str) -> TorchGroup:
        """Make a group of the same processes with an order of calls of its own."""
        return TorchGroup(self.parent, awake=self._awake)

    def abort(self, reason: str) -> None:
        """Make the call that the others are in, or their next, raise CommError(reason)."""
        if self._reason is not None:
            return
        self._reason = reason
        said = self._message(_ABORTED, reason.encode()[: self._short])
        if self._links is not None:
            with suppress(OSError):  # nobody is there to hear it
                self._links.send(said)
            return
        self._own.numpy()[: len(said)] = bytearray(said)
        try:
            work = dist.all_gather(self._every, self._own, group=self.torch_group, async_op=True)
            work.wait(timedelta(seconds=_FAREWELL))
        except RuntimeError:  # nobody is there to hear it
            return
