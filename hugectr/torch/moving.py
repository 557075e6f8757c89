# SPDX-License-Identifier: Apache-2.0
"""What ``Module.to()``, ``cuda()``, ``cpu()`` and ``half()`` ask of a collection.

Rows are no parameters, so that ``Module`` would pass them over without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from hugectr.base.errors import InvalidArgument
from hugectr.torch.step_counts import StepCounts

if TYPE_CHECKING:
    from hugectr.torch.collection import Collection

#: What vectors may come out as.
OUTPUT_TYPES = (torch.float32, torch.float16, torch.bfloat16)


def device_of(device: torch.device | str) -> torch.device:
    """A device by the name that tensors on it have."""
    found = torch.device(device)
    if found.type == "cpu":
        return torch.device("cpu")
    if found.type == "cuda" and found.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return found


def anchor_on(device: torch.device) -> torch.Tensor:
    """A place in autograd, neither a parameter nor a buffer.

    Of a number, for a compiler drops what comes to nothing, and all that it comes from.
    """
    return torch.zeros(1, dtype=torch.float32, device=device, requires_grad=True)


def asked_of(
    collection: Collection, change: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[torch.device, torch.dtype]:
    """Where tensors of a collection go by a change of a module, and what they become.

    Parameters
    ----------
    collection : Collection
    change : callable
        What ``Module._apply`` hands to each parameter.

    Raises
    ------
    InvalidArgument
        When tables can not be or become that.
    """
    name = type(collection).__name__
    probe = change(torch.empty(1, dtype=collection.dtype, device=collection.device))
    if probe.dtype not in OUTPUT_TYPES:
        raise InvalidArgument(
            f"{name}: its vectors can not be {probe.dtype}; allowed: float32, float16, bfloat16"
        )
    where = device_of(probe.device)
    if where.type == "cpu" and probe.is_shared():
        raise InvalidArgument(
            f"{name}: share_memory() can not share its rows with other processes, for they are in "
            "tables outside of torch: under torchrun (torch.distributed) all processes share them"
        )
    if where == collection.device and probe.dtype == collection.dtype:
        return where, probe.dtype
    if where.type not in ("cpu", "cuda"):
        raise InvalidArgument(
            f"{name}: its tables are on {collection.device} and can not go to {where}; "
            "save() them, and load() them into a collection made with another device="
        )
    if collection._engine.group.size > 1:
        raise InvalidArgument(
            f"{name}: its tables are shared by {collection._engine.group.size} processes and can "
            f"not become {probe.dtype} on {where} here: make it with device={str(where)!r} and "
            f"dtype={probe.dtype}"
        )
    return where, probe.dtype


def move(collection: Collection, device: torch.device, seed: int) -> None:
    """Tables with their rows and states to another device; batches and gradients are forgotten.

    Parameters
    ----------
    collection : Collection
    device : torch.device
    seed : int
        What new rows are drawn by from now on.

    Raises
    ------
    OutOfMemory
        When there is no room for them; they are then where they were.
    """
    engine, before = collection._engine, collection._engine.core
    states = [collection.rows(table.name).state() for table in collection.configs]
    counts = StepCounts.of(before)
    where = engine.device
    engine.end_batches()
    optimizer = collection.opt_params.to_spec()
    specs = [table.to_spec(optimizer, device) for table in collection.configs]
    try:
        engine.be_on(device, specs, seed)
        for index, (table, state) in enumerate(zip(collection.configs, states, strict=True)):
            collection.rows(table.name).move_in(state)
            engine.core.set_trainable(index, engine.trainable[index])
        counts.give(engine.core)
    except BaseException:
        engine.device, engine.index, engine.core = where, where.index or 0, before
        raise
    collection.device = device
    collection._anchor = anchor_on(device)
    if collection._optimizer is not None:
        for row in collection._optimizer.rows:
            row.data = torch.empty((), dtype=torch.float32, device=device)
