# SPDX-License-Identifier: Apache-2.0
"""Between torch tensors and the core: memory as the core takes it, and how long a batch lives."""

from __future__ import annotations

import itertools
import secrets
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hugectr import _core
from hugectr.base import log
from hugectr.base.errors import InvalidArgument
from hugectr.processes.group import ProcessGroup
from hugectr.processes.solo import SoloGroup
from hugectr.torch.table_memory import TableKeys, TableVectors, memory_of

if TYPE_CHECKING:
    from hugectr._core_collection import TableParams

_numbers = itertools.count(1)
_engines: weakref.WeakValueDictionary[int, Engine] = weakref.WeakValueDictionary()

#: The number of batches that were only read.
NO_TOKEN = 0

#: What is said of offsets that are not those of the keys' bags.
NOT_THE_BAGS = (
    "a batch: offsets must ascend from 0 to the number of keys, and each feature's must begin "
    "where its keys do"
)

#: More than most add up on purpose.
MANY_BACKWARDS = 256

#: What is said of a batch that ended before its token did.
OVER = (
    "a batch that was looked up is over, as all are when rows are written from outside (load, "
    "write, erase, ...): after that call forward, or prefetch, with its keys again"
)

_current_stream: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def engine(number: int) -> Engine:
    """The engine of this number, which operators are given in the place of an object."""
    found = _engines.get(number)
    if found is None:
        raise InvalidArgument(
            f"collection {number} is not in this process, or gone with its module: an exported "
            "program does not have the tables of its model, and runs where that is alive"
        )
    return found


class _Live(weakref.ref[Any]):
    """Sees the end of a batch's token, and keeps what the batch reads until the core has let go.

    Its callback is to be a method of a ``deque``, which runs no Python: an interrupt that came in
    one of Python would be printed, and lost.
    """

    __slots__ = ("keys", "token")

    token: int
    keys: Any


def _release_all(core: Any) -> None:
    """Ends the batches of an engine that is gone; what they read is there until each has ended."""
    with suppress(Exception):
        core.release_all()


class Engine:
    """Tables on one device, of one process (``SharedEngine``: of several).

    Parameters
    ----------
    tables : list of TableParams
    device : torch.device
        Of the tables and of all tensors.
    seed : int
        What new rows are drawn by.
    """

    #: The processes that the tables are spread over.
    group: ProcessGroup
    #: How many batches ahead keys are looked up by who goes on as fast as it can (``pipeline``).
    batches_ahead = 1

    def __init__(self, tables: list[TableParams], device: torch.device, seed: int) -> None:
        #: Batches, with what their forward reads.
        self._alive: dict[int, Any] = {}
        self._end: weakref.finalize[..., Engine] | None = None
        self.be_on(device, tables, seed)
        self.dims = [table["embedding_vec_size"] for table in tables]
        #: Features of each table, where they are pooled.
        self.features = [1] * len(tables)
        #: Of each table whether its rows are trained, as the collection has told the core. Here
        #: alone: torch.export puts copies in the place of lists that are attributes of modules.
        self.trainable = [True] * len(tables)
        self.group = SoloGroup()
        self.number = next(_numbers)
        #: What is to be done after each backward.
        self.after_backward: Callable[[], None] | None = None
        #: Of its optimizers: the gradients that wait for a step (``row_gradient.Waiting``).
        self.waiting: Any = None
        self._warned = False
        #: Whose gradients wait for a step.
        self.backwards = 0
        #: Where backward updates (``fused``): the rate of each table.
        self.rates_of_backward: Callable[[], list[float]] | None = None
        #: On a GPU: the streams that they came by.
        self._streams: dict[int, int] = {}
        self._ended: deque[_Live] = deque()  # batches that nobody holds any more
        #: Of each batch what sees the end of its token.
        self._watched: dict[int, _Live] = {}
        self._doubt: torch.Tensor | None = None
        #: The same in programs that torch exports: where they are loaded, none has it by chance.
        self.number_in_exports = secrets.randbits(62) | 1 << 61
        _engines[self.number] = _engines[self.number_in_exports] = self

    def be_on(self, device: torch.device, tables: list[TableParams], seed: int) -> None:
        """Has new tables on a device, without rows; no batch may be alive."""
        index = device.index or 0
        self.core = _core.TableCollection(tables, device.type, index, seed)
        #: As the core has read them, and of each a row that nothing has trained, once asked for.
        self.specs = tables
        self.untrained: dict[int, _core.BufferBag] = {}
        self.device, self.index = device, index
        # Batches that are looked up ahead read tensors that go with this object, and the core may
        # stay: whoever has a table of it keeps it.
        if self._end is not None:
            self._end.detach()
        self._end = weakref.finalize(self, _release_all, self.core)

    def stream(self) -> int:
        """The caller's stream, as the core takes it."""
        if self.device.type == "cpu":
            return 0
        if _current_stream is not None:  # without an object for it: a step asks five times
            return _current_stream(self.index)
        return int(torch.cuda.current_stream(self.index).cuda_stream)

    def release_ended(self) -> None:
        """Tells the core of the batches that are over."""
        while self._ended:
            try:
                live = self._ended[0]
            except IndexError:  # another thread has it
                return
            token = getattr(live, "token", NO_TOKEN)  # none: interrupted while it was made
            self._release(token)
            self._watched.pop(token, None)
            # Only now, by itself: after an interrupt somebody comes again, and others may be here.
            with suppress(ValueError):
                self._ended.remove(live)

    def _release(self, token: int) -> None:
        """Ends a batch, if it is not over."""
        try:
            self.core.release(token)  # waits where it is begun, for what it reads goes
        except InvalidArgument:
            if self.core.is_alive(token):  # else it had ended, or another thread came first
                raise
        self._alive.pop(token, None)
        self._streams.pop(token, None)

    def end_batches(self) -> None:
        """Ends all batches and forgets gradients: rows are about to be written from outside."""
        for token in list(self._alive):
            self._release(token)
        self.release_ended()
        self.forget_gradients()

    def call(self, name: str) -> AbstractContextManager[None]:
        """Where there are others: what is said to them meanwhile belongs to a call of this name."""
        return nullcontext()

    def owners(self, table: int, keys: Any) -> Any:
        """The process of each key (n) int64 on the host."""
        return np.zeros(len(keys), np.int64)

    def everywhere(self, table: int) -> bool:
        """Whether each process has all rows of a table."""
        return False

    def refuse(self, error: Exception, *, ahead: bool = False) -> torch.Tensor:
        """Raises the error of a batch that is none; where there are others, on all.

        Of a batch ``ahead`` of others: its token, whose forward raises.
        """
        raise error

    def heard(self, token: torch.Tensor) -> None:
        """Where there are others: raises why a batch that was looked up ahead is none."""

    def is_over(self, token: torch.Tensor) -> bool:
        """Whether a batch ended before its token did, as all do when rows are written."""
        number = int(token.item())
        return number != NO_TOKEN and number not in self._alive

    def _check_alive(self, number: int) -> None:
        if number not in self._alive:
            raise InvalidArgument(OVER)

    def doubt(self, good: torch.Tensor) -> None:
        """A batch whose bags the device still checks: (1,) bool on it, known when it is planned."""
        self._doubt = torch.empty(1, dtype=torch.bool, device="cpu", pin_memory=True)
        self._doubt.copy_(good, non_blocking=True)

    def resolve(self) -> None:
        """Raises when the bags were not good. Somebody has waited for the caller's stream."""
        doubt, self._doubt = self._doubt, None
        if doubt is not None and not bool(doubt):
            raise InvalidArgument(NOT_THE_BAGS)

    def plan(
        self, batch: Callable[[], TableKeys], *, ahead: bool = False, beside: bool = False
    ) -> torch.Tensor:
        """A batch that may train.

        Parameters
        ----------
        batch : callable
            What makes it.
        ahead : bool
            Nobody waits for its keys; what is wrong with them is said in forward.
        beside : bool
            And a thread of the core's submits their lookup, because forward comes later.

        Returns
        -------
        Tensor, (1,)
            Its token. The batch lives as long as the memory of this tensor.
        """
        self.release_ended()
        keys = batch()
        number, live = self._fresh()
        live.keys = keys
        # Bags that torch checks are known to be good when somebody has waited.
        if ahead and self._doubt is None:
            self.core.begin(keys.memory(), self.stream(), live, beside)
        else:
            self.core.plan(keys.memory(), self.stream(), live)
            self.resolve()
        return self._token_of(number, live, keys)

    def _fresh(self) -> tuple[Any, _Live]:
        """The memory of a token that is not known yet, and what sees its end."""
        number = np.zeros(1, np.int64)
        live = _Live(number, self._ended.append)
        live.token, live.keys = NO_TOKEN, None
        return number, live

    def begin(self, token: int, batch: Any) -> torch.Tensor:
        """The token as a tensor (1,), with whose memory the batch ends."""
        number, live = self._fresh()
        live.token = token
        return self._token_of(number, live, batch)

    def _token_of(self, number: Any, live: _Live, batch: Any) -> torch.Tensor:
        """The token of a batch that is alive.

        The array goes with the last tensor of its memory, be it one that autograd has saved; the
        core may be waiting then, so that the end is only noted.
        """
        number[0] = live.token
        self._watched[live.token] = live
        self._alive[live.token] = batch
        if self.device.type == "cuda":
            self._streams[live.token] = self.stream()
        return torch.from_numpy(number)

    def forward(self, token: torch.Tensor, outputs: TableVectors) -> None:
        """Vectors (m, d) of a planned batch."""
        number = int(token.item())
        self._check_alive(number)
        self.used(number)
        self.core.forward(number, outputs.memory(), self.stream())

    def used(self, token: int) -> None:
        """The caller's stream is about to read a batch, which may have come by another one."""
        stream = self._streams.get(token)
        if stream is None or stream == self.stream():
            return
        current = torch.cuda.current_stream(self.index)
        for tensor in self.held(self._alive[token]):
            tensor.record_stream(current)
        self._streams[token] = self.stream()  # backward comes by the same

    def held(self, batch: Any) -> list[torch.Tensor]:
        """What a forward reads of a batch."""
        offsets: list[torch.Tensor] = batch.offsets()
        return offsets

    def look_up(self, batch: Callable[[], TableKeys], outputs: TableVectors) -> None:
        """Vectors (m, d) of a batch that does not train: zeros for what is not known."""
        self.release_ended()
        self.look_up_keys(batch(), outputs)

    def look_up_keys(self, batch: TableKeys, outputs: TableVectors) -> None:
        """The same of keys and offsets."""
        self.core.look_up(batch.memory(), outputs.memory(), self.stream())
        self.resolve()

    def accumulate(self, token: torch.Tensor, gradients: TableVectors) -> None:
        """Gradients (m, d) of a batch's vectors, kept for the next step."""
        number = int(token.item())
        if number == NO_TOKEN:  # torch's optimizers count a step of gradients without a number
            self.core.accumulate_nothing()
            self.end_backward()
            return
        self._check_alive(number)
        if self.rates_of_backward is not None:
            rates = self.rates_of_backward()
            self.core.update(number, gradients.memory(), rates, self.stream())
            return
        self.core.accumulate(number, gradients.memory(), self.stream())
        self.end_backward()

    def end_backward(self) -> None:
        """What follows each backward whose gradients are kept."""
        self.backwards += 1
        if self.backwards == MANY_BACKWARDS:
            log.warning(
                f"a collection of tables got gradients of {MANY_BACKWARDS} backwards since the "
                "last step() or zero_grad() of its rows, and adds them up: no row is trained "
                "before step() of what collection.optimizer(lr) returned (Lightning's automatic "
                "optimization calls one optimizer alone: take the manual one, or fused=True)"
            )
        if self.after_backward is not None:
            self.after_backward()
        elif not self._warned:
            self._warned = True
            log.warning(
                "a collection of tables got gradients and has no optimizer: they are kept, and no "
                "row is trained; rows = collection.optimizer(lr), and rows.step() beside that of "
                "the dense part's optimizer (which has no rows: they are no parameters)"
            )

    def squares(self) -> torch.Tensor:
        """(tables) float64: sums of squares of the gradients that wait for a step."""
        squares = torch.empty(len(self.dims), dtype=torch.float64, device=self.device)
        self.core.squares(memory_of(squares), self.stream())
        return squares

    def is_due(self) -> bool:
        """Whether a step has anything to do, or to ask others."""
        return bool(self.core.has_gradients())

    def step(self, rates: Callable[[], Sequence[float]], unscale: torch.Tensor | None) -> None:
        """One update with a rate a table; unscale (tables) float32 multiplies gradients."""
        self.core.step(rates(), None if unscale is None else memory_of(unscale), self.stream())
        self.release_ended()

    def count_no_step(self, tables: Sequence[int]) -> None:
        """The last step was none of these tables', as of one that is frozen."""
        counts = self.core.frozen_steps()
        for table in tables:
            counts[table] += self.trainable[table]
        self.core.set_frozen_steps(counts)

    def clear_gradients(self) -> None:
        """Forgets the gradients since the last step."""
        self.release_ended()
        self.core.clear_gradients()
        self.backwards = 0

    def forget_gradients(self) -> None:
        """The same, and what they have been multiplied by."""
        self.clear_gradients()
        if self.waiting is not None:
            self.waiting.forget()

    def set_trainable(self, table: int, trainable: bool) -> None:
        """Has a table's rows trained, or keeps them as they are."""
        self.core.set_trainable(table, trainable)
        self.trainable[table] = trainable
