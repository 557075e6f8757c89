# SPDX-License-Identifier: Apache-2.0
"""Batches of a loader: looked up ahead, and as many on all processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from typing import Any, TypeVar

import torch

from hugectr.processes.agreement import together
from hugectr.torch.collection import Collection
from hugectr.torch.inputs import PlannedBatch
from hugectr.torch.outside_of_torch import check_collection

T = TypeVar("T")


def pipeline(
    loader: Iterable[T],
    collection: Collection,
    keys: Callable[[T], Any] = lambda batch: batch,
    stream: torch.cuda.Stream | None = None,
) -> Iterator[tuple[T, PlannedBatch]]:
    """Batches with their keys looked up one ahead; two, where several processes share rows on GPUs.

    Without a stream of its own a lookup comes after what the current stream holds, the step before
    among that. With one, batches are made on it too, and the steps on the current stream wait for
    their own batch alone.

    Parameters
    ----------
    loader : iterable
        Of batches on the collection's device.
    collection : EmbeddingBagCollection or EmbeddingCollection
        That is trained with them.
    keys : callable
        What of a batch the collection is asked with.
    stream : torch.cuda.Stream, optional
        Where the loader works and keys are looked up, beside the steps.

    Yields
    ------
    tuple
        The batch, and what is to be given to the collection for it.

    Raises
    ------
    Exception
        What a loader or ``keys`` raises, of one process when the batches before are given out. What
        is wrong with a batch is said by its forward.
    """
    check_collection("pipeline", collection)
    engine, batches = collection._engine, iter(loader)
    ahead: deque[tuple[T, PlannedBatch, Any]] = deque()
    ended, late = False, None
    while True:
        while not ended and len(ahead) <= engine.batches_ahead:
            with nullcontext() if stream is None else torch.cuda.stream(stream):
                found: list[T] = []
                planned: list[PlannedBatch] = []
                try:
                    found = list(islice(batches, 1))
                    planned = [collection.prefetch(keys(each)) for each in found]
                except Exception as error:
                    if engine.group.size > 1:  # the others wait for what it has not asked
                        raise
                    found, late = [], error
                made = None if stream is None else stream.record_event()
            ended = not found
            ahead.extend((*both, made) for both in zip(found, planned, strict=True))
        if not ahead:
            break
        yield _begun(*ahead.popleft())
    if late is not None:
        raise late


def _begun(batch: T, planned: PlannedBatch, made: Any) -> tuple[T, PlannedBatch]:
    """A batch for the current stream, which waits until it is made."""
    if made is not None:
        current = torch.cuda.current_stream()
        current.wait_event(made)
        record_use((batch, planned.batch), current)
    return batch, planned


def record_use(batch: Any, stream: torch.cuda.Stream) -> None:
    """Keeps the memory of all tensors of a batch until a stream has done what it holds by then.

    Parameters
    ----------
    batch : object
        Tensors, objects with ``record_stream`` as a KeyedJaggedTensor, and mappings, sequences and
        objects with attributes of them; of others nothing is recorded.
    stream : torch.cuda.Stream
    """
    if callable(getattr(batch, "record_stream", None)):
        batch.record_stream(stream)
    elif isinstance(batch, Mapping):
        for each in batch.values():
            record_use(each, stream)
    elif isinstance(batch, (list, tuple)):
        for each in batch:
            record_use(each, stream)
    elif hasattr(batch, "__dict__"):
        for each in vars(batch).values():
            record_use(each, stream)


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
    check_collection("until_all_end", collection)
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
