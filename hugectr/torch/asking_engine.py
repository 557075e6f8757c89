# SPDX-License-Identifier: Apache-2.0
"""How processes that share tables ask each other for the rows of a batch.

A lookup sends every owner the distinct keys of this process's batch that it owns. How many they are
is known when the device has found them, and each process hears it of all: a batch that is looked up
ahead begins with the first and hears of others in the backward that comes next, or at the end of
its step. So nobody waits for a device that has nothing to do meanwhile.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import torch

from hugectr import _core
from hugectr.base.errors import CommError, InvalidArgument
from hugectr.torch.agreeing_engine import AgreeingEngine
from hugectr.torch.asked import Ahead, Along, Asked, another, kept
from hugectr.torch.channels import DeviceChannels, channel_of
from hugectr.torch.engine import OVER
from hugectr.torch.exchange_beside import ExchangeBeside, ThreadChannel, is_beside
from hugectr.torch.table_memory import TableKeys, memory_of
from hugectr.torch.torch_group import TorchGroup, carry, let_go_at_exit

if TYPE_CHECKING:
    from hugectr._core_collection import TableParams

#: The exchange that begins a lookup of any kind.
_KEYS = "the keys of a batch"
#: How a batch may be looked up, as processes tell each other.
_WAYS = ("plan", "look up")


class AskingEngine(AgreeingEngine):
    """The engine of one of several processes.

    Parameters
    ----------
    tables, device, seed
        As of ``Engine``; a seed of 0 is drawn by process 0.
    placements : list of str
        Of each table, as ``TableConfig`` has it.
    group : TorchGroup
    """

    #: What submits the exchange of a step beside Python, where there is one.
    _thread: ExchangeBeside | None = None

    def __init__(
        self,
        tables: list[TableParams],
        device: torch.device,
        seed: int,
        placements: list[str],
        group: TorchGroup,
    ) -> None:
        super().__init__(tables, device, seed, group)
        self._sharing = _core.TableSharing(self.core, placements, self._rank, self._size)
        self._mean = [table["combiner"] == "mean" for table in tables]
        self._asked: dict[int, Asked] = {}
        #: Of each table in which backwards since the last step it was trained, as a number.
        self._trained = [0] * len(tables)
        self._last = 0  #: token
        self._due: list[int] = []  #: of batches ahead that all know of, which no forward has had
        #: Batches that all processes know of.
        self._batches = 0
        #: The batch that was asked for ahead, while the others have not been heard of it.
        self._begun: Ahead | None = None
        self._stream_ahead = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._counted = struct.Struct(f"<B{self._size * len(tables)}q")
        group.make_room(self._counted.size + 1)
        # What goes between CUDA devices goes by NCCL.
        self._exchange: Any = group.torch_group
        self._ahead: Any = group.torch_group
        if device.type == "cuda":
            channels = channel_of(DeviceChannels, group, device)
            self._exchange, self._ahead = channels.exchange, channels.ahead
        if is_beside(device):
            channel = channel_of(ThreadChannel, group, device, self._sharing)
            self._thread = ExchangeBeside(self._sharing, channel, group)
            weakref.finalize(self, _end_thread, self._thread)  # before what the core then ends
            # So nobody waits for a plan: it begins a step before its vectors leave with a step. Of
            # tables over tiers the device has the rows of each batch ahead.
            if not any("memory_device" in table for table in tables):
                self.batches_ahead = 2
        let_go_at_exit(self, "_exchange", "_ahead", "_thread")

    @property
    def core(self) -> _core.TableCollection:
        """The tables; what a thread does with them is submitted first."""
        self._settle()
        return self._core

    @core.setter
    def core(self, core: _core.TableCollection) -> None:
        self._core = core

    def _settle(self) -> None:
        """Until what was left to a thread has been submitted; raises what went wrong there."""
        if self._thread is not None:
            self._thread.settle()

    def owners(self, table: int, keys: Any) -> Any:
        """The process of each key (n) int64 on the host; this one where all have all rows."""
        return self._sharing.owners(table, keys)

    def everywhere(self, table: int) -> bool:
        """Whether each process has all rows of a table."""
        return self._sharing.on_every_process(table)

    # --- batches --------------------------------------------------------------------------------

    def refuse(self, error: Exception, *, ahead: bool = False) -> torch.Tensor:
        """Tells the others that this process has no batch; raises the error, or ``forward`` does.

        Returns
        -------
        Tensor, (1,)
            The token of a batch ahead.
        """

        def none() -> TableKeys:
            raise error

        return self.plan(none, ahead=ahead)

    def plan(
        self, batch: Callable[[], TableKeys], *, ahead: bool = False, beside: bool = False
    ) -> torch.Tensor:
        """A batch that may train; see ``Engine.plan``. Collective.

        What goes wrong with the rows that others ask for is raised by all in forward. Of a batch
        ahead everything is: the others are heard in the next backward, at the end of the next
        step, or by the next lookup of any kind.
        """
        self.hear_ahead()
        if self._thread is None or not self._thread.is_giving():  # else the next call does
            self.release_ended()
        self._last += 1
        number = self._last
        if not ahead:
            self._asked[number] = asked = self._planned(lambda: self._request(batch()))
            return self.begin(number, asked)
        with self._beside():
            begun = Ahead(number, self._processes.mismatches)
            try:
                begun.asked = self._request(batch(), beside=beside)
            except Exception as error:
                begun.failure = kept(error)
            except BaseException:
                self._interrupted()
                raise
            self._begun = begun
            return self.begin(number, begun)

    def _planned(self, asked: Callable[[], Asked]) -> Asked:
        """A batch that may train, with the keys that this process is asked for on their way."""
        return self._plan_of(self._hear("plan", asked))

    def _plan_of(self, found: Asked, *, beside: bool = False) -> Asked:
        """The same of a batch whose keys have come or are about to; ``beside``: see ``plan``."""
        self._count(found)
        self._sharing.plan(found.shared, memory_of(found.keys), self.stream(), found, beside)
        return found

    def _count(self, found: Asked) -> None:
        """From now on all processes know the batch by a number."""
        self._batches += 1
        found.number = self._batches

    def hear_ahead(self) -> None:
        """Hears what others ask of the batch ahead, if there is one. Collective."""
        ahead, self._begun = self._begun, None
        if ahead is None:
            return
        if ahead.mismatches != self._processes.mismatches:
            ahead.refused = CommError(
                "a batch was looked up ahead, and then the processes made unlike calls: look it up "
                "again"
            )
            self._forget(ahead)
            return
        with self._beside(after=False):
            try:
                self._planned(ahead.result)
                self._is_planned(ahead)
            except Exception as error:  # on all processes
                ahead.refused = kept(error)
        self._end_if_over(ahead)

    def _is_planned(self, ahead: Ahead) -> None:
        """From now on the batch ahead is one of those that all processes know of."""
        self._asked[ahead.number] = self._alive[ahead.number] = ahead.result()
        self._due.append(ahead.number)

    def _said_ahead(self) -> bytes:
        """What this process asks of the others for the batch ahead; empty where it does not know.

        It is said along with another call, which so takes no call more. Where it can not be, or not
        all have such a batch, ``hear_ahead`` has its own.
        """
        ahead = self._begun
        if ahead is None or ahead.mismatches != self._processes.mismatches or ahead.failure:
            return b""
        try:
            return self._counts_of(ahead.result())
        except Exception as error:
            ahead.failure = kept(error)
            return b""

    def _answers(self, every: list[bytes]) -> Along | None:
        """The batch ahead with what owners are asked for, where all have said that along."""
        if not all(every):
            return None
        ahead, self._begun = self._begun, None
        assert ahead is not None
        with self._beside(after=False):
            found = [self._counted.unpack(each) for each in every]
            return Along(ahead, self._answered(ahead.result(), found), self.stream())

    def _plan_answered(self, along: Along | None) -> None:
        """Begins the plan of a batch ahead that all have answered, by calls of its own."""
        if along is None:
            return
        with self._beside(after=False):
            asked = along.ahead.result()
            self._exchange_keys(along.out, asked)
            self._plan_of(asked, beside=True)
            self._is_planned(along.ahead)
        self._end_if_over(along.ahead)

    def _end_if_over(self, ahead: Ahead) -> None:
        if ahead.ended:
            self._release(ahead.number)

    def heard(self, token: torch.Tensor) -> None:
        """Raises why a batch that was looked up ahead is none. Collective."""
        number = int(token.item())
        if self._begun is not None and self._begun.number == number:
            self.hear_ahead()
        found = self._alive.get(number)
        if isinstance(found, Ahead) and found.refused is not None:
            raise another(found.refused)

    def _forget(self, ahead: Ahead) -> None:
        """Leaves a batch ahead that nobody will be asked for."""
        self._doubt = None
        self._settle()
        if ahead.asked is not None:
            with suppress(Exception):  # its memory is read until then
                self._sharing.count(ahead.asked.shared)

    def _beside(self, *, after: bool = True) -> AbstractContextManager[Any]:
        """On a GPU: the stream of batches ahead; ``after``: after what the caller's holds."""
        if self._stream_ahead is None:
            return nullcontext()
        if after:
            self._stream_ahead.wait_stream(torch.cuda.current_stream(self.index))
        return torch.cuda.stream(self._stream_ahead)

    def end_batches(self) -> None:
        """Ends all batches and forgets gradients; see ``Engine.end_batches``."""
        ahead, self._begun = self._begun, None
        if ahead is not None:
            self._forget(ahead)
        super().end_batches()

    def _release(self, token: int) -> None:
        if self._begun is not None and self._begun.number == token:
            self._begun.ended = True  # the others may be about to ask for its rows
            return
        asked = self._asked.get(token)
        if asked is not None and self.core.is_alive(asked.shared.token):
            self.core.release(asked.shared.token)
        if token in self._due:
            self._due.remove(token)
        self._asked.pop(token, None)
        self._alive.pop(token, None)
        self._streams.pop(token, None)

    def held(self, batch: Any) -> list[torch.Tensor]:
        """What forward and backward read of a batch."""
        return list(batch.held)

    def _counts_of(self, asked: Asked, way: str = "plan") -> bytes:
        """What this process tells the others of a batch that it asks for."""
        self._sharing.count(asked.shared)
        asked.batch = None
        self.resolve()
        return self._counted.pack(_WAYS.index(way), *asked.shared.wanted)

    def _hear(self, way: str, asked_of: Callable[[], Asked]) -> Asked:
        """Hears what owners are asked for; keys of this process's rows are on their way then."""

        def counted() -> tuple[Asked, bytes]:
            asked = asked_of()
            return asked, self._counts_of(asked, way)

        with self.call(_KEYS):
            (asked, _), every = self._jointly(counted, lambda result: result[1])
        found = [self._counted.unpack(each) for each in every]
        if any(_WAYS[each[0]] != way for each in found):
            raise CommError(
                "the processes of a collection look up unlike batches: "
                + ", ".join(f"process {r} to {_WAYS[each[0]]}" for r, each in enumerate(found))
                + ". All must be in training, with gradients and tables not frozen, or none"
            )
        self._exchange_keys(self._answered(asked, found), asked)
        return asked

    def _answered(self, asked: Asked, found: list[tuple[int, ...]]) -> torch.Tensor:
        """The keys of a batch that go to their owners, now that all have said how many they want.

        ``asked.keys``: room for those that come.
        """
        self._settle()
        self._sharing.answer(asked.shared, [n for each in found for n in each[1:]])
        sent, taken = self._sharing.keys(asked.shared)
        keys = asked.keys[: sum(sent)]
        if self._sharing.copies_to_all:
            keys = asked.keys.new_empty(sum(sent))
            self._sharing.copy_to_all(
                asked.shared, memory_of(asked.keys), memory_of(keys), self.stream()
            )
        asked.keys = asked.keys.new_empty(sum(taken))
        return keys

    def _exchange_keys(self, out: torch.Tensor, asked: Asked) -> None:
        """Sends keys to their owners, and takes those that this process is asked for."""
        carry(self._ahead, out, asked.keys, *self._sharing.keys(asked.shared))

    def _request(self, batch: TableKeys, *, beside: bool = False) -> Asked:
        """What this process asks for; ``beside``: submitted by a thread of the core's."""
        bags = sum(n for n, mean in zip(batch.bags(), self._mean, strict=True) if mean)
        keys = batch.keys()
        distinct = torch.empty(keys, dtype=torch.int64, device=self.device)
        room = torch.empty(self._sharing.room(keys, bags), dtype=torch.int32, device=self.device)
        memory = batch.memory(), memory_of(distinct), memory_of(room)
        held = batch, distinct, room
        shared = self._sharing.ask(*memory, self.stream(), beside, held)
        return Asked(shared, [room, *batch.offsets()], distinct, batch)

    def _known(self, token: int) -> int:
        """The number that all processes know a batch by; 0: it was released."""
        found = self._asked.get(token)
        return 0 if found is None else found.number

    def _batch(self, number: int) -> Asked:
        found = self._asked.get(number)
        if found is None:
            raise InvalidArgument(OVER)
        return found


def _end_thread(thread: ExchangeBeside) -> None:
    """Of an engine that is gone: nothing reads its tensors any more."""
    with suppress(Exception):
        thread.settle()
