# SPDX-License-Identifier: Apache-2.0
"""Batches that processes ask each other for, and errors that wait until somebody asks for them."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from hugectr.torch.table_memory import TableKeys

if TYPE_CHECKING:
    from hugectr._core_collection import SharedBatch


def kept(error: Exception) -> Exception:
    """An error as a batch keeps it: frames of a traceback hold the batch, which would not end."""
    seen: list[BaseException] = []  # errors may name each other in a circle
    due: list[BaseException | None] = [error]
    while due:
        each = due.pop()
        if each is not None and each not in seen:
            seen.append(each)
            each.__traceback__ = None
            due += each.__cause__, each.__context__
    return error


def another(error: Exception) -> Exception:
    """An error like one that is kept, to be raised."""
    try:
        made = copy(error)
    except Exception:  # of arguments of its own
        return error
    made.__cause__ = error.__cause__
    return made


@dataclass
class Asked:
    """A batch that was looked up, or is about to be.

    Parameters
    ----------
    shared : SharedBatch
        What the core knows of it.
    held : list of Tensor
        What it reads meanwhile.
    keys : Tensor
        What this process asks for; then those that it is asked for.
    batch : TableKeys, optional
        What is read until it is counted.
    number : int
        That all processes know it by.
    token : int
        That the core knows it by.
    came : list of Tensor, optional
        Vectors of its rows as the last step left them, where they came with that.
    """

    shared: SharedBatch
    held: list[torch.Tensor]
    keys: torch.Tensor
    batch: TableKeys | None
    number: int = 0
    token: int = 0
    came: list[torch.Tensor] | None = None


@dataclass
class Ahead:
    """A batch that this process asks for ahead, of which the others have not been heard.

    Parameters
    ----------
    number : int
    mismatches : int
        Of the processes when it began.
    asked : Asked, optional
    failure : Exception, optional
        Why this process can not ask: to be told to the others.
    refused : Exception, optional
        Why there is no batch, on all processes.
    ended : bool
        Whether nobody has use for it any more.
    """

    number: int
    mismatches: int
    asked: Asked | None = None
    failure: Exception | None = None
    refused: Exception | None = None
    ended: bool = False

    def result(self) -> Asked:
        """What was asked for, or why it could not be."""
        if self.failure is not None:
            raise another(self.failure)
        assert self.asked is not None
        return self.asked


@dataclass
class Along:
    """A batch ahead whose keys travel along with another call.

    Parameters
    ----------
    ahead : Ahead
        Whose keys are room for those that come.
    out : Tensor, (n,) int64
        Keys that go out.
    stream : int
        By which they are there.
    """

    ahead: Ahead
    out: torch.Tensor
    stream: int
