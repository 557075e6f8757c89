# SPDX-License-Identifier: Apache-2.0
"""What a plan says of a model's tables, beside what they say themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hugectr.base import log
from hugectr.plan.placements import PlacementPlan, TablePlacement
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.placement import Placement


@dataclass(frozen=True)
class Planned:
    """What a plan says of a table.

    Attributes
    ----------
    placement : Placement or None
    exchange : str or None
        None: the table's own, as of its placement.
    """

    placement: Placement | None
    exchange: str | None = None


def placement_of(table: TablePlacement, own: Placement | None) -> Placement:
    """A plan names no frequent keys: a hybrid has those that the table itself names."""
    frequent = own.frequent if own is not None and table.kind == own.kind == "hybrid" else None
    return Placement(table.kind, table.device, frequent)


def say_what_differs(
    plan: PlacementPlan,
    placed: Mapping[str, Planned],
    tables: Sequence[SparseEmbedding],
    devices: int,
) -> None:
    """Of a plan that was not made for this model as it is."""
    if plan.devices not in (0, devices):
        log.warning(
            f"plan: it was made for {plan.devices} devices, the job has {devices}: it places the "
            f"tables all the same; hugectr model plan --devices {devices} makes one for them"
        )
    others = []
    for table in tables:
        name = table.sparse_embedding_name
        found, own = placed[name], table.placement
        if own is not None and found.placement != own:
            others.append(f"{name!r} {found.placement} (not {own})")
        if found.exchange not in (None, table.exchange) and table.exchange != "auto":
            others.append(f"{name!r} exchange {found.exchange} (not {table.exchange})")
    if others:
        log.info(f"plan: it goes before what tables have: {', '.join(others)}")
