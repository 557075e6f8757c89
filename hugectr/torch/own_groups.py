# SPDX-License-Identifier: Apache-2.0
"""Groups of torch.distributed that collections make for themselves."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from hugectr.base.errors import InvalidArgument

#: How many groups have been made of the processes of each parent: the same number on all of them.
_made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def check_member(parent: Any) -> None:
    """Complains about a ``process_group`` that this process can not make a collection with.

    Raises
    ------
    InvalidArgument
        When it is none of torch.distributed, or this process is not one of it.
    """
    if parent is None:
        return
    # ``new_group`` gives those who are none of its processes this in the place of a group.
    outside = parent is dist.GroupMember.NON_GROUP_MEMBER
    if not (outside or isinstance(parent, dist.ProcessGroup)):
        raise InvalidArgument(
            f"process_group: found {type(parent).__name__}, allowed: a group of torch.distributed "
            "(dist.new_group(ranks); of a DeviceMesh mesh.get_group()), or None for all processes"
        )
    if outside or not _is_of(parent):
        raise InvalidArgument(
            "process_group: this process is not one of it, or the group was destroyed: make the "
            "collection on the processes of the group alone"
        )


def _is_of(parent: Any) -> bool:
    try:
        return dist.is_initialized() and dist.get_rank(parent) >= 0
    except (RuntimeError, ValueError):  # it was ended, or torch.distributed has begun anew
        return False


def new_group(parent: Any, backend: str, timeout: timedelta) -> Any:
    """A group of the processes of another one, which alone make the call; None: of all.

    ``dist.new_group`` is a call of all processes, whoever is in the group: torch names groups by
    their number, so that those who had made one more would look for the next, which all make, under
    another name than the rest, until the time limit. Groups of some have names of their own here,
    and torch does not count them.

    Parameters
    ----------
    parent : torch.distributed.ProcessGroup or None
    backend : str
    timeout : timedelta
    """
    if parent is None:
        return dist.new_group(None, timeout=timeout, backend=backend)
    number = _made.get(parent, 0) + 1
    _made[parent] = number
    with _named(f"{parent.group_name}-hugectr-{number}"):
        return dist.new_group(
            dist.get_process_group_ranks(parent),
            timeout=timeout,
            backend=backend,
            use_local_synchronization=True,
        )


@contextmanager
def _named(name: str) -> Iterator[None]:
    """A group that this thread makes meanwhile has this name. torch has no argument for it."""
    module: Any = dist.distributed_c10d
    before = getattr(module, "_process_group_name", None)
    if before is None:  # a torch that names groups otherwise: by its count then
        yield
        return
    own = threading.get_ident()

    def name_of(*args: Any, **kwargs: Any) -> Any:
        return name if threading.get_ident() == own else before(*args, **kwargs)

    module._process_group_name = name_of
    try:
        yield
    finally:
        module._process_group_name = before
