# SPDX-License-Identifier: Apache-2.0
"""Between torch tensors and the core: memory as the core takes it, and how long a batch lives."""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hugectr import _core
from hugectr.base.errors import InvalidArgument
from hugectr.processes.group import ProcessGroup
from hugectr.processes.solo import SoloGroup

if TYPE_CHECKING:
    from hugectr._core_collection import Memory, TableParams

_NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float64: "float64",
    torch.int64: "int64",
    torch.int32: "uint32",  # offsets: the core's are unsigned, and not as large as to differ
}

#: Keys (n) int64 and offsets (m + 1) int32 of each table.
Batch = Sequence[tuple[torch.Tensor, torch.Tensor]]

_numbers = itertools.count(1)
_engines: weakref.WeakValueDictionary[int, Engine] = weakref.WeakValueDictionary()

#: The number of batches that were only read.
NO_TOKEN = 0


def memory_of(tensor: torch.Tensor, *shape: int) -> Memory:
    """A packed tensor as the core sees it, in another shape if one is given."""
    return tensor.data_ptr(), shape or tuple(tensor.shape), _NAMES[tensor.dtype]


def engine(number: int) -> Engine:
    """The engine of this number, which operators are given in the place of an object."""
    found = _engines.get(number)
    if found is None:
        raise InvalidArgument(f"collection {number} is gone: its module was deleted")
    return found


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

    def __init__(self, tables: list[TableParams], device: torch.device, seed: int) -> None:
        self.device = device
        self.index = device.index or 0
        self.core = _core.TableCollection(tables, device.type, self.index, seed)
        self.dims = [table["embedding_vec_size"] for table in tables]
        #: Features of each table, where they are pooled.
        self.features = [1] * len(tables)
        self.group = SoloGroup()
        self.number = next(_numbers)
        #: What is to be done after each backward (``fused``).
        self.after_backward: Callable[[], None] | None = None
        #: Batches, with what their forward reads.
        self._alive: dict[int, Any] = {}
        #: On a GPU: the streams that they came by.
        self._streams: dict[int, torch.cuda.Stream] = {}
        self._ended: deque[int] = deque()  # batches that nobody holds any more
        self._doubt: torch.Tensor | None = None
        _engines[self.number] = self

    def stream(self) -> int:
        """The caller's stream, as the core takes it."""
        if self.device.type == "cpu":
            return 0
        return int(torch.cuda.current_stream(self.index).cuda_stream)

    def release_ended(self) -> None:
        """Tells the core of the batches that are over."""
        while self._ended:
            self._release(self._ended.popleft())

    def _release(self, token: int) -> None:
        if token in self._alive:
            del self._alive[token]
            self._streams.pop(token, None)
            self.core.release(token)

    def end_batches(self) -> None:
        """Ends all batches and forgets gradients: rows are about to be written from outside."""
        for token in list(self._alive):
            self._release(token)
        self.clear_gradients()

    def call(self, name: str) -> AbstractContextManager[None]:
        """Where there are others: what is said to them meanwhile belongs to a call of this name."""
        return nullcontext()

    def owners(self, table: int, keys: Any) -> Any:
        """The process of each key (n) int64 on the host."""
        return np.zeros(len(keys), np.int64)

    def everywhere(self, table: int) -> bool:
        """Whether each process has all rows of a table."""
        return False

    def refuse(self, error: Exception) -> None:
        """Raises the error of a batch that is none; where there are others, on all."""
        raise error

    def doubt(self, good: torch.Tensor) -> None:
        """A batch whose bags the device still checks: (1,) bool on it, known when it is planned."""
        self._doubt = torch.empty(1, dtype=torch.bool, pin_memory=True)
        self._doubt.copy_(good, non_blocking=True)

    def resolve(self) -> None:
        """Raises when the bags were not good. Somebody has waited for the caller's stream."""
        doubt, self._doubt = self._doubt, None
        if doubt is not None and not bool(doubt):
            raise InvalidArgument(
                "a batch: offsets must ascend from 0 to the number of keys, and each feature's "
                "must begin where its keys do"
            )

    def plan(self, batch: Callable[[], Batch]) -> torch.Tensor:
        """A batch that may train.

        Parameters
        ----------
        batch : callable
            What makes it.

        Returns
        -------
        Tensor, (1,)
            Its token. The batch lives as long as the memory of this tensor.
        """
        self.release_ended()
        keys = batch()
        return self.begin(self.plan_keys(keys), keys)

    def plan_keys(self, batch: Batch) -> int:
        """The core's token of a batch."""
        token = self.core.plan([keys_of(*one) for one in batch], self.stream())
        try:
            self.resolve()
        except InvalidArgument:
            self.core.release(token)
            raise
        return token

    def begin(self, token: int, batch: Any) -> torch.Tensor:
        """The token as a tensor (1,), with whose memory the batch ends."""
        self._alive[token] = batch
        if self.device.type == "cuda":
            self._streams[token] = torch.cuda.current_stream(self.index)
        number = np.array([token], np.int64)
        # The array goes with the last tensor of its memory, be it one that autograd has saved; the
        # core may be waiting then, so that the end is only noted.
        weakref.finalize(number, self._ended.append, token).atexit = False
        return torch.from_numpy(number)

    def forward(self, token: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Vectors (m, d) of a planned batch."""
        number = int(token.item())
        self.used(number)
        self.core.forward(number, [vectors_of(x) for x in outputs], self.stream())

    def used(self, token: int) -> None:
        """The caller's stream is about to read a batch, which may have come by another one."""
        stream = self._streams.get(token)
        if stream is None or stream == torch.cuda.current_stream(self.index):
            return
        for tensor in self.held(self._alive[token]):
            tensor.record_stream(torch.cuda.current_stream(self.index))

    def held(self, batch: Any) -> list[torch.Tensor]:
        """What a forward reads of a batch."""
        return [offsets for _, offsets in batch]

    def look_up(self, batch: Callable[[], Batch], outputs: Sequence[torch.Tensor]) -> None:
        """Vectors (m, d) of a batch that does not train: zeros for what is not known."""
        self.release_ended()
        self.look_up_keys(batch(), outputs)

    def look_up_keys(self, batch: Batch, outputs: Sequence[torch.Tensor]) -> None:
        """The same of keys and offsets."""
        self.core.look_up(
            [keys_of(*one) for one in batch], [vectors_of(x) for x in outputs], self.stream()
        )
        self.resolve()

    def accumulate(self, token: torch.Tensor, gradients: Sequence[torch.Tensor | None]) -> None:
        """Gradients (m, d) of a batch's vectors, kept for the next step."""
        number = int(token.item())
        if number == NO_TOKEN:
            return
        packed = [None if g is None else by_rows(g) for g in gradients]
        self.core.accumulate(
            number, [None if g is None else vectors_of(g) for g in packed], self.stream()
        )
        if self.after_backward is not None:
            self.after_backward()

    def squares(self) -> torch.Tensor:
        """(tables) float64: sums of squares of the gradients that wait for a step."""
        squares = torch.empty(len(self.dims), dtype=torch.float64, device=self.device)
        self.core.squares(memory_of(squares), self.stream())
        return squares

    def step(self, rates: Sequence[float], unscale: torch.Tensor | None) -> None:
        """One update with a rate a table; unscale (tables) float32 multiplies gradients."""
        self.core.step(rates, None if unscale is None else memory_of(unscale), self.stream())
        self.release_ended()

    def clear_gradients(self) -> None:
        """Forgets the gradients since the last step."""
        self.release_ended()
        self.core.clear_gradients()


def keys_of(keys: torch.Tensor, offsets: torch.Tensor) -> tuple[Memory, Memory]:
    """Keys and offsets as the core sees them."""
    return memory_of(keys), memory_of(offsets)


def vectors_of(vectors: torch.Tensor) -> Memory:
    """Vectors (m, d) as the core sees them; they may be columns of a wider tensor."""
    m, d = vectors.shape
    return vectors.data_ptr(), (m, 1, d), _NAMES[vectors.dtype], max(vectors.stride(0), d)


def by_rows(vectors: torch.Tensor) -> torch.Tensor:
    """The same where the numbers of a vector lie one after the other."""
    packed = vectors.stride(1) == 1 and vectors.stride(0) >= vectors.shape[1]
    return vectors if packed else vectors.contiguous()


class SideBySide:
    """A tensor (B, sum of d of all features) that has the vectors of all tables, as its columns.

    Where a table has one feature the core writes and reads the columns themselves. Vectors of
    several features lie one feature after the other in the core, and are copied.

    Parameters
    ----------
    whole : Tensor
    dims : sequence of int
        d of each table.
    features : sequence of int
        How many features each has.
    """

    def __init__(self, whole: torch.Tensor, dims: Sequence[int], features: Sequence[int]) -> None:
        self._columns = whole.split([k * d for k, d in zip(features, dims, strict=True)], dim=1)
        self._shapes = [(k, whole.shape[0], d) for k, d in zip(features, dims, strict=True)]

    def room(self) -> list[torch.Tensor]:
        """Where the core writes the vectors of each table, (m, d); ``finish`` follows."""
        self._room = [
            columns if k == 1 else columns.new_empty((k * samples, d))
            for columns, (k, samples, d) in zip(self._columns, self._shapes, strict=True)
        ]
        return self._room

    def finish(self) -> None:
        """Brings what was written elsewhere to its columns."""
        for columns, room, (k, samples, d) in zip(
            self._columns, self._room, self._shapes, strict=True
        ):
            if k > 1:
                columns.unflatten(1, (k, d)).copy_(room.view(k, samples, d).transpose(0, 1))

    def tables(self) -> list[torch.Tensor]:
        """The vectors of each table as the core reads them, (m, d)."""
        return [
            columns
            if k == 1
            else columns.unflatten(1, (k, d)).transpose(0, 1).reshape(k * samples, d)
            for columns, (k, samples, d) in zip(self._columns, self._shapes, strict=True)
        ]
