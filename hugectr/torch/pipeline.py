# SPDX-License-Identifier: Apache-2.0
"""Batches of a loader, each looked up while the one before is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hugectr.torch.collection import Collection, PlannedBatch


def pipeline(
    loader: Iterable[Any],
    collection: Collection,
    keys: Callable[[Any], Any] = lambda batch: batch,
) -> Iterator[tuple[Any, PlannedBatch]]:
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
    before: tuple[Any, PlannedBatch] | None = None
    for batch in loader:
        following = batch, collection.prefetch(keys(batch))
        if before is not None:
            yield before
        before = following
    if before is not None:
        yield before
