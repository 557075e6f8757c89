# SPDX-License-Identifier: Apache-2.0
"""The operators of torch.library that forward and backward of a collection are.

Their arguments are tensors and numbers, so that ``torch.compile`` takes a call as it is. Vectors
get their place in autograd through the anchor, an empty tensor that asks for gradients; that
``accumulate`` gives it one keeps a compiled backward from leaving out what seems to do nothing.
"""

from __future__ import annotations

from typing import Any

import torch

from hugectr.base.errors import InvalidArgument
from hugectr.torch.engine import NO_TOKEN, engine


def _of_tables(
    values: torch.Tensor,
    offsets: torch.Tensor,
    order: list[int],
    features: list[int],
    splits: list[int],
    batch: int,
    pooled: bool,
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Keys (n) and offsets (m + 1, int32) of each table; un-pooled, each key is a bag."""
    starts = [0]
    if splits:
        for split in splits:
            starts.append(starts[-1] + split)
    elif batch == 0:
        starts += [0] * (offsets.shape[0] - 1 + len(order))
    else:
        starts = offsets[::batch].tolist()  # on a GPU the host waits for it
    tables, chosen = [], iter(order)
    for count in features:
        inputs = [next(chosen) for _ in range(count)]
        keys = [values[starts[i] : starts[i + 1]] for i in inputs]
        own = keys[0] if count == 1 else torch.cat(keys)
        if not pooled:
            bags = torch.arange(own.shape[0] + 1, dtype=torch.int32, device=own.device)
            tables.append((own, bags))
            continue
        ends, before = [offsets.new_zeros(1)], 0
        for i, part in zip(inputs, keys, strict=True):
            ends.append(offsets[i * batch + 1 : (i + 1) * batch + 1] + (before - starts[i]))
            before += part.shape[0]
        tables.append((own, torch.cat(ends).to(torch.int32)))
    return tables


def _sizes(
    order: list[int], features: list[int], splits: list[int], batch: int, pooled: bool
) -> list[int]:
    """Vectors of each table."""
    if pooled:
        return [count * batch for count in features]
    sizes, chosen = [], iter(order)
    for count in features:
        sizes.append(sum(splits[next(chosen)] for _ in range(count)))
    return sizes


@torch.library.custom_op("hugectr::lookup", mutates_args=())
def lookup(
    anchor: torch.Tensor,
    values: torch.Tensor,
    offsets: torch.Tensor,
    order: list[int],
    features: list[int],
    splits: list[int],
    dims: list[int],
    batch: int,
    pooled: bool,
    trains: bool,
    dtype: torch.dtype,
    collection: int,
) -> list[torch.Tensor]:
    """Vectors of the tables of a collection.

    Parameters
    ----------
    anchor : Tensor, (0,)
    values, offsets, splits, batch
        As in ``inputs.Jagged``.
    order : list of int
        Of each feature of the collection, table after table, its place in the batch.
    features : list of int
        How many of them each table has.
    dims : list of int
        Of each table's vectors.
    pooled : bool
        A vector a bag, else a vector a key.
    trains : bool
        Whether keys that are new get rows, and gradients may come.
    dtype : torch.dtype
        Of the vectors.
    collection : int
        Number of the engine.

    Returns
    -------
    list of Tensor
        The token of the batch, then the vectors of each table: (features * B, d), or (n, d).
    """
    own = engine(collection)
    if values.device.type != own.device.type:
        raise InvalidArgument(
            f"keys are on {values.device}, the collection is on {own.device}: bring them there"
        )
    tables = _of_tables(values.contiguous(), offsets, order, features, splits, batch, pooled)
    outputs = [
        torch.empty(bags.shape[0] - 1, dim, dtype=dtype, device=values.device)
        for (_, bags), dim in zip(tables, dims, strict=True)
    ]
    if batch == 0 or (not pooled and values.shape[0] == 0):
        return [torch.tensor([NO_TOKEN]), *outputs]
    if trains:
        token = own.plan(tables)
        own.forward(token, outputs)
    else:
        token = torch.tensor([NO_TOKEN])
        own.look_up(tables, outputs)
    return [token, *outputs]


@lookup.register_fake
def _(
    anchor: torch.Tensor,
    values: torch.Tensor,
    offsets: torch.Tensor,
    order: list[int],
    features: list[int],
    splits: list[int],
    dims: list[int],
    batch: int,
    pooled: bool,
    trains: bool,
    dtype: torch.dtype,
    collection: int,
) -> list[torch.Tensor]:
    sizes = _sizes(order, features, splits, batch, pooled)
    outputs = [values.new_empty((n, d), dtype=dtype) for n, d in zip(sizes, dims, strict=True)]
    return [torch.empty(1, dtype=torch.int64), *outputs]


@torch.library.custom_op("hugectr::accumulate", mutates_args=())
def accumulate(token: torch.Tensor, gradients: list[torch.Tensor], collection: int) -> torch.Tensor:
    """Keeps gradients of a batch's vectors for the next step; returns the anchor's."""
    own = engine(collection)
    own.accumulate(token, gradients)
    return torch.empty(0, device=own.device)


@accumulate.register_fake
def _(token: torch.Tensor, gradients: list[torch.Tensor], collection: int) -> torch.Tensor:
    return gradients[0].new_empty(0, dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    ctx.collection = inputs[-1]
    ctx.shapes = [(vectors.shape, vectors.dtype, vectors.device) for vectors in output[1:]]
    ctx.save_for_backward(output[0])


def _backward(ctx: Any, gradients: list[torch.Tensor | None]) -> tuple[Any, ...]:
    if torch.is_grad_enabled():
        raise InvalidArgument(
            "a collection of hugectr.torch has no second derivatives: call backward() without "
            "create_graph; derivatives of what follows its vectors may be taken with "
            "torch.autograd.grad with respect to the vectors"
        )
    (token,) = ctx.saved_tensors
    all_of_them = [
        torch.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient
        for gradient, (shape, dtype, device) in zip(gradients[1:], ctx.shapes, strict=True)
    ]
    anchor = accumulate(token, all_of_them, ctx.collection)
    return (anchor, *[None] * 11)


lookup.register_autograd(_backward, setup_context=_save)
