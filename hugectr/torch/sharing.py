# SPDX-License-Identifier: Apache-2.0
"""Which processes share the tables of a collection, and that they mean the same tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from hugectr.base.errors import InvalidArgument
from hugectr.processes.agreement import jointly, together
from hugectr.torch.configs import TableConfig
from hugectr.torch.engine import Engine
from hugectr.torch.exchange_beside import SETTING, is_beside
from hugectr.torch.own_groups import check_member
from hugectr.torch.shared_engine import SharedEngine
from hugectr.torch.torch_group import TorchGroup

if TYPE_CHECKING:
    from hugectr._core import OptParams


def make_engine(
    parent: Any,
    configs: Callable[[], list[TableConfig]],
    optimizer: OptParams,
    device: torch.device,
    seed: int,
    more: Mapping[str, Any],
) -> tuple[list[TableConfig], Engine]:
    """The engine of a collection, of one process or of several. Of several: collective.

    Parameters
    ----------
    parent : torch.distributed.ProcessGroup, optional
        Whose processes; None: all of the job.
    configs : callable
        What makes the tables, or says what is wrong.
    optimizer : mapping
        As the core reads it.
    device : torch.device
    seed : int
    more : mapping
        What else must be the same on all processes, in words.

    Raises
    ------
    InvalidArgument
        When processes disagree, on all of them: what on, and who has what. When this process is not
        one of ``parent``.
    """
    check_member(parent)
    if not _several(parent):
        tables = configs()
        specs = [table.to_spec(optimizer, device) for table in tables]
        return tables, Engine(specs, device, seed)
    group = TorchGroup(parent, awake=device.type == "cuda")
    with group.call("a new collection"):
        tables = jointly(group, configs)
        described = {**more, "seed": seed, **_described(tables), "the optimizer": dict(optimizer)}
        described[f"whether a thread sends ({SETTING})"] = jointly(group, lambda: is_beside(device))
        check_agreement(group, described)
        engine = SharedEngine(
            [table.to_spec(optimizer, device, group.rank) for table in tables],
            device,
            seed,
            [table.placement for table in tables],
            group,
        )
    return tables, engine


def _several(parent: Any) -> bool:
    if not (dist.is_available() and dist.is_initialized()):
        return False
    return int(dist.get_world_size(parent)) > 1


def _described(tables: list[TableConfig]) -> dict[str, Any]:
    described: dict[str, Any] = {"the names of tables": [table.name for table in tables]}
    for table in tables:
        described |= {
            f"{name} of table {table.name!r}": repr(value) if name == "memory" else value
            for name, value in vars(table).items()
            if name != "name"
        }
    return described


def check_agreement(group: TorchGroup, described: dict[str, Any]) -> None:
    """Refuses, on all processes alike, collections that are not the same everywhere.

    Parameters
    ----------
    group : TorchGroup
    described : dict
        What must be the same, as plain values.

    Raises
    ------
    InvalidArgument
        Naming the first difference and who has what.
    """
    every = together(group, lambda: described)
    for rank, other in enumerate(every):
        for name in every[0] | other:
            if other.get(name) != every[0].get(name):
                raise InvalidArgument(
                    f"the processes of a collection disagree on {name}: process 0 has "
                    f"{every[0].get(name)!r}, process {rank} {other.get(name)!r}; make the same "
                    "collection on all of them"
                )
