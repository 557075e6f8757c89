# SPDX-License-Identifier: Apache-2.0
"""Between torch tensors and the core: memory as the core takes it, and how long a batch lives."""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hugectr import _core
from hugectr.base.errors import InvalidArgument

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
    """Tables on one device.

    Parameters
    ----------
    tables : list of TableParams
    device : torch.device
        Of the tables and of all tensors.
    seed : int
        What new rows are drawn by.
    """

    def __init__(self, tables: list[TableParams], device: torch.device, seed: int) -> None:
        self.device = device
        self.index = device.index or 0
        self.core = _core.TableCollection(tables, device.type, self.index, seed)
        self.dims = [table["embedding_vec_size"] for table in tables]
        self.number = next(_numbers)
        #: What is to be done after each backward (``fused``).
        self.after_backward: Callable[[], None] | None = None
        #: Batches, with what their forward reads.
        self._alive: dict[int, Any] = {}
        self._ended: deque[int] = deque()  # batches that nobody holds any more
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
            self.core.release(token)

    def end_batches(self) -> None:
        """Ends all batches and forgets gradients: rows are about to be written from outside."""
        for token in list(self._alive):
            self._release(token)
        self.clear_gradients()

    def plan(self, batch: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """A batch that may train: keys (n) and offsets (m + 1, int32) of each table.

        Returns
        -------
        Tensor, (1,)
            Its token. The batch lives as long as the memory of this tensor.
        """
        self.release_ended()
        token = self.core.plan([_keys(*one) for one in batch], self.stream())
        self._alive[token] = batch
        number = np.array([token], np.int64)
        # The array goes with the last tensor of its memory, be it one that autograd has saved; the
        # core may be waiting then, so that the end is only noted.
        weakref.finalize(number, self._ended.append, token).atexit = False
        return torch.from_numpy(number)

    def forward(self, token: torch.Tensor, outputs: Sequence[torch.Tensor]) -> None:
        """Vectors (m, d) of a planned batch."""
        self.core.forward(int(token.item()), [_vectors(x) for x in outputs], self.stream())

    def look_up(
        self,
        batch: Sequence[tuple[torch.Tensor, torch.Tensor]],
        outputs: Sequence[torch.Tensor],
    ) -> None:
        """Vectors (m, d) of a batch that does not train: zeros for what is not known."""
        self.release_ended()
        self.core.look_up(
            [_keys(*one) for one in batch], [_vectors(x) for x in outputs], self.stream()
        )

    def accumulate(self, token: torch.Tensor, gradients: Sequence[torch.Tensor | None]) -> None:
        """Gradients (m, d) of a batch's vectors, kept for the next step."""
        number = int(token.item())
        if number == NO_TOKEN:
            return
        packed = [None if g is None else g.contiguous() for g in gradients]
        self.core.accumulate(
            number, [None if g is None else _vectors(g) for g in packed], self.stream()
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


def _keys(keys: torch.Tensor, offsets: torch.Tensor) -> tuple[Memory, Memory]:
    return memory_of(keys), memory_of(offsets)


def _vectors(vectors: torch.Tensor) -> Memory:
    return memory_of(vectors, vectors.shape[0], 1, vectors.shape[1])
