# SPDX-License-Identifier: Apache-2.0
"""How processes that share tables come to be in the same call, or are all told that they are not.

Before anything travels that could be waited for, they tell each other which call they are in and
that nothing went wrong so far: the error of one is raised by all.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

import torch

from hugectr.processes.agreement import from_root
from hugectr.torch.engine import Engine
from hugectr.torch.torch_group import TorchGroup

if TYPE_CHECKING:
    from hugectr._core_collection import TableParams

T = TypeVar("T")


class AgreeingEngine(Engine):
    """The engine of one of several processes.

    Parameters
    ----------
    tables, device, seed
        As of ``Engine``; a seed of 0 is drawn by process 0.
    group : TorchGroup
    """

    def __init__(
        self, tables: list[TableParams], device: torch.device, seed: int, group: TorchGroup
    ) -> None:
        super().__init__(tables, device, seed or from_root(group, lambda: secrets.randbits(63) | 1))
        self.group = self._processes = group
        self._rank, self._size = group.rank, group.size

    def call(self, name: str) -> AbstractContextManager[None]:
        """All that is said to others meanwhile belongs to a call of this name."""
        return self._processes.call(name)

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
        except BaseException:
            self._interrupted()
            raise
        try:
            every = self._processes.agree(said, failure)  # raises the failure
        finally:
            failure = None  # its traceback has this frame: they would keep each other alive
        return results[0], every

    def _interrupted(self) -> None:
        """The others must not wait for this process."""
        self._processes.abort(f"process {self._rank} was interrupted")

    def _agreed(self, name: str, work: Callable[[], T]) -> T:
        with self.call(name):
            return self._jointly(work)[0]
