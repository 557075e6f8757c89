# SPDX-License-Identifier: Apache-2.0
"""One budget of memory for several tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hugectr.base.errors import InvalidArgument

if TYPE_CHECKING:
    from hugectr._core import EmbeddingSpec


@dataclass(frozen=True)
class Claim:
    """What a table asks of a budget that it shares.

    Parameters
    ----------
    weight : int
        Bytes of the rows that the keys of a sample have.
    most : int or None
        Bytes of all rows that a device may hold of it, with what a place takes beside its row;
        None: there is no bound.
    holders : int
        Devices of a process that may hold as many.
    """

    weight: int
    most: int | None
    holders: int = 1


def shares_of(budget: int, weights: Sequence[int], most: Sequence[int | None]) -> list[int]:
    """A budget dealt by weight; what a table has no use for goes to the others.

    Parameters
    ----------
    budget : int
        Bytes.
    weights : sequence of int
        Above 0.
    most : sequence of int or None
        Bytes that each can use.

    Returns
    -------
    list of int
        Bytes of each, at most ``budget`` together.
    """
    shares = [0] * len(weights)
    # Those whose use is smallest beside their weight have enough first.
    bounded = sorted((bound / weights[i], i) for i, bound in enumerate(most) if bound is not None)
    left, weight = budget, sum(weights)
    full = set()
    for _, i in bounded:
        bound = most[i]
        assert bound is not None
        if bound * weight > left * weights[i]:
            break
        shares[i] = bound
        left -= bound
        weight -= weights[i]
        full.add(i)
    for i, own in enumerate(weights):
        if i not in full:
            shares[i] = left * own // weight
    return shares


def shared(whole: EmbeddingSpec, claims: Sequence[Claim]) -> list[EmbeddingSpec]:
    """A Memory as one of all these tables: what each of them has.

    Parameters
    ----------
    whole : dict
        What ``Memory.to_spec`` makes of it.
    claims : sequence of Claim

    Raises
    ------
    InvalidArgument
        When there is not a byte of it for each.
    """
    specs = [whole.copy() for _ in claims]
    weights = [claim.weight for claim in claims]

    def deal(budget: int | None, most: Sequence[int | None]) -> list[int]:
        shares = shares_of(budget or 0, weights, most)
        if budget and min(shares, default=1) < 1:
            raise InvalidArgument(
                f"CreateSolver: memory: {budget} bytes are too few for {len(claims)} tables"
            )
        return shares

    # A cache over a disk holds twice what the tier above it has places for.
    times = 2 if "memory_disk" in whole else 1
    bounds = [claim.most for claim in claims]
    on_host = [
        None if claim.most is None else times * claim.most * claim.holders for claim in claims
    ]
    if "memory_device" in whole:
        for spec, share in zip(specs, deal(whole["memory_device"], bounds), strict=True):
            spec["memory_device"] = share
    if "memory_host" in whole:
        for spec, share in zip(specs, deal(whole["memory_host"], on_host), strict=True):
            spec["memory_host"] = share
    if "memory_disk" in whole:
        for spec, share in zip(
            specs, deal(whole["memory_disk"], [None] * len(claims)), strict=True
        ):
            spec["memory_disk"] = share
    return specs
