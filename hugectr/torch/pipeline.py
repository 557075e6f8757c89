# SPDX-License-Identifier: Apache-2.0
"""Batches of a loader: looked up one ahead, and as many on all processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from hugectr.processes.agreement import together
from hugectr.torch.collection import Collection, PlannedBatch

T = TypeVar("T")


def pipeline(
    loader: Iterable[T],
    collection: Collection,
    keys: Callable[[T], Any] = lambda batch: batch,
) -> Iterator[tuple[T, PlannedBatch]]:
    """Batches with their keys looked up one ahead.

    Parameters
    ----------
    loader : iterable
        Of batches on the collection's device.
    collection : EmbeddingBagCollection or EmbeddingCollection
        That is trained with them.
    keys : callable
        What of a batch the collection is asked with.

    Yields
    ------
    tuple
        The batch, and what is to be given to the collection for it.
    """
    before: tuple[T, PlannedBatch] | None = None
    for batch in loader:
        following = batch, collection.prefetch(keys(batch))
        if before is not None:
            yield before
        before = following
    if before is not None:
        yield before


def until_all_end(loader: Iterable[T], collection: Collection, empty: T) -> Iterator[T]:
    """Batches of this process; then empty ones until the loaders of all processes have ended.

    So who has no samples left goes on giving others the rows that it holds, takes their gradients
    and makes the same calls as they, those of DDP included: with a gradient of 0, which DDP
    averages over all processes. Of one process: the batches.

    Parameters
    ----------
    loader : iterable
        The batches of this process, of any number and sizes.
    collection : EmbeddingBagCollection or EmbeddingCollection
        Whose processes they are. Collective, once a batch.
    empty : object
        A batch of no samples, e.g. ``batch[:0]`` of each tensor.

    Yields
    ------
    object
        A batch.

    Raises
    ------
    Exception
        When a loader raised: on all processes.
    """
    engine = collection._engine
    if engine.group.size == 1:
        yield from loader
        return
    batches = iter(loader)
    while True:
        found: list[T] = []

        def advance(found: list[T] = found) -> bool:
            found.extend(islice(batches, 1))
            return bool(found)

        with engine.call("the next batch"):
            if not any(together(engine.group, advance)):
                return
        yield found[0] if found else empty
