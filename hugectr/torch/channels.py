# SPDX-License-Identifier: Apache-2.0
"""What collections of the same processes and devices send each other by: one for all of them.

A communicator of NCCL takes memory of each device, and stays until the process or torch.distributed
ends, so that a collection has none of its own. All that is sent is part of collective calls: those
of several collections have one order on all processes.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

import torch
import torch.distributed as dist

from hugectr.processes.agreement import from_root
from hugectr.torch.own_groups import new_group
from hugectr.torch.torch_group import TorchGroup, let_go_at_exit


class Channel(Protocol):
    """What goes on for as long as it is open."""

    def is_open(self) -> bool: ...


C = TypeVar("C", bound=Channel)

#: Of each kind, processes and device the number that all processes know a channel by, and it.
_made: dict[tuple[Any, ...], tuple[int, Channel]] = {}
_NUMBER = struct.Struct("<q")


def channel_of(kind: Callable[..., C], group: TorchGroup, device: torch.device, *more: object) -> C:
    """The channel of a kind that these processes have; a new one where one of them has none.

    Collective.

    Parameters
    ----------
    kind : type
        What is called with ``group`` and ``more`` for a new one. Collective.
    group : TorchGroup
        Of the collection.
    device : torch.device
        Of this process.
    """
    ranks = None if group.parent is None else tuple(dist.get_process_group_ranks(group.parent))
    key = kind, ranks, device, group.limit
    number, channel = _made.get(key, (0, None))
    if channel is None or not channel.is_open():
        number = 0
    every = group.agree(_NUMBER.pack(number))
    if number and all(each == every[0] for each in every):
        return cast(C, channel)
    _made.pop(key, None)
    number = from_root(group, lambda: secrets.randbits(62) | 1)
    made = kind(group, *more)
    _made[key] = number, made
    return made


def is_registered(group: Any) -> bool:
    """Whether torch.distributed still knows a group of its own."""
    try:
        return group is not None and dist.get_rank(group) >= 0
    except (RuntimeError, ValueError):  # it was ended, or has begun anew
        return False


class DeviceChannels:
    """Groups of torch.distributed between CUDA devices. Collective.

    Attributes
    ----------
    exchange, ahead : torch.distributed.ProcessGroup
        For vectors and gradients, and for keys: those of the next batch need not wait for vectors.
    """

    def __init__(self, group: TorchGroup) -> None:
        self.exchange: Any = new_group(group.parent, "nccl", group.limit)
        self.ahead: Any = new_group(group.parent, "nccl", group.limit)
        let_go_at_exit(self, "exchange", "ahead")

    def is_open(self) -> bool:
        """Whether torch.distributed has not ended meanwhile."""
        return is_registered(self.exchange) and is_registered(self.ahead)
