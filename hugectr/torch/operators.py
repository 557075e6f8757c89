# SPDX-License-Identifier: Apache-2.0
"""The operators of torch.library that forward and backward of a collection are.

Their arguments are tensors and numbers, so that ``torch.compile`` takes a call as it is:

- ``plan``: keys -> the token of a batch that may train
- ``vectors``: token -> vectors of each table, (m, d), or of all in one tensor, side by side
  (``SideBySide``), where one of that width is asked for; its backward is ``accumulate``
- ``look_up``: keys -> the same for who does not train

Vectors get their place in autograd through the anchor, a number that asks for gradients; that
``accumulate`` gives it one, of zero, keeps a compiled backward from leaving it out. A compiler
makes one call of two whose arguments are alike, which two backwards of one lookup may be:
``accumulate`` has a number that says they are not.
Schemas are written out: torch 2.4 does not read all of them from annotations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from hugectr.base.errors import InvalidArgument
from hugectr.torch.backwards import keep_token, no_second_derivatives, traced_as_backward
from hugectr.torch.engine import NO_TOKEN, NOT_THE_BAGS, Engine, engine
from hugectr.torch.inputs import bags_within
from hugectr.torch.table_memory import (
    KeysInOne,
    ListedKeys,
    ListedVectors,
    SideBySide,
    TableKeys,
    UncheckedKeys,
)

#: A batch (``inputs.Jagged``: values, offsets, splits, samples) and how it is looked up: of each
#: feature of the collection, table after table, its place in the batch (order); how many of them
#: each table has (features); a vector a bag or a vector a key (pooled); the engine's number.
_BATCH = (
    "Tensor values, Tensor offsets, SymInt[] splits, SymInt batch, "
    "int[] order, int[] features, bool pooled, int collection"
)


def _of_tables(
    own: Engine,
    values: torch.Tensor,
    offsets: torch.Tensor,
    splits: list[int],
    batch: int,
    order: list[int],
    features: list[int],
    pooled: bool,
) -> TableKeys:
    """Keys and offsets of each table; un-pooled, each key is a bag."""
    values = values.contiguous()
    if batch == 0:  # of one who has no samples left, while others have
        _check_no_keys(values)
        return ListedKeys([(values[:0], values.new_zeros(1, dtype=torch.int32)) for _ in features])
    starts = [0, *itertools.accumulate(splits)]
    if not splits:
        starts = offsets[::batch].tolist()  # on a GPU the host waits for it
        _check_ascending(starts)
    if starts[0] != 0 or starts[-1] != values.shape[0]:
        raise InvalidArgument(
            f"a batch: its bags end at key {starts[-1]}, and it has {values.shape[0]}"
        )
    if pooled and len(order) == len(features):
        return UncheckedKeys(values, starts, _as_given(offsets), order)
    _check_offsets(offsets, starts, batch)
    if splits and offsets.device.type != "cpu":
        # Good or not, nothing beyond the keys is read; the engine says afterwards which it was.
        on_host = torch.tensor(starts, device="cpu", pin_memory=True)
        begins = on_host.to(offsets.device, non_blocking=True)
        offsets, good = bags_within(offsets, begins, batch, starts[-1])
        own.doubt(good)
    if pooled and len(order) == len(features):
        return KeysInOne(values, starts, _bags_from_0(offsets, batch), order)
    # All at once: a call a feature would take longer than what it does.
    all_keys = values.split([b - a for a, b in pairwise(starts)])
    bags = _bags_from_0(offsets, batch).unbind(0) if pooled else ()
    tables: list[tuple[torch.Tensor, torch.Tensor]] = []
    chosen = iter(order)
    places = values.new_empty(0, dtype=torch.int32)
    for count in features:
        inputs = [next(chosen) for _ in range(count)]
        keys = [all_keys[i] for i in inputs]
        whole = keys[0] if count == 1 else torch.cat(keys)
        if not pooled:
            if places.shape[0] <= whole.shape[0]:
                most = max(values.shape[0], whole.shape[0])
                places = torch.arange(most + 1, dtype=torch.int32, device=values.device)
            tables.append((whole, places[: whole.shape[0] + 1]))
        elif count == 1:
            tables.append((whole, bags[inputs[0]]))
        else:
            parts, before = [bags[inputs[0]]], keys[0].shape[0]
            for i, part in zip(inputs[1:], keys[1:], strict=True):
                parts.append(bags[i][1:] + before)
                before += part.shape[0]
            tables.append((whole, torch.cat(parts)))
    return ListedKeys(tables)


def _as_given(offsets: torch.Tensor) -> torch.Tensor:
    """Offsets in a form that the core checks."""
    if offsets.dtype not in (torch.int64, torch.int32):
        offsets = offsets.to(torch.int64)
    return offsets.contiguous()


def _check_offsets(offsets: torch.Tensor, starts: list[int], batch: int) -> None:
    """Refuses bags that are not in the keys; on a GPU only by their number, for nobody waits."""
    _check_ascending(starts)
    if offsets.device.type == "cpu" and (
        offsets[::batch].tolist() != starts or bool((offsets.diff() < 0).any())
    ):
        raise InvalidArgument(NOT_THE_BAGS)


def _check_no_keys(values: torch.Tensor) -> None:
    if values.shape[0] > 0:
        raise InvalidArgument(
            f"a batch: {values.shape[0]} keys are of no bag, for it has no samples: offsets end "
            "with the number of keys"
        )


def _check_ascending(starts: list[int]) -> None:
    if any(a > b for a, b in pairwise(starts)):
        raise InvalidArgument(NOT_THE_BAGS)


def _bags_from_0(offsets: torch.Tensor, batch: int) -> torch.Tensor:
    """Offsets (features, B + 1) of the bags of each feature, counted from its first key.

    Of all features at once: on a GPU a launch a feature would take longer than the work.
    """
    bags = offsets.unfold(0, batch + 1, batch)
    return (bags - bags[:, :1]).to(torch.int32)


def _empty(values: torch.Tensor, batch: int, pooled: bool) -> bool:
    """Whether there is no bag, or no key where each is one: nothing to ask the core for.

    Of several processes all take part nevertheless: others may ask this one.
    """
    if batch == 0:
        _check_no_keys(values)
    return batch == 0 or (not pooled and values.shape[0] == 0)


def _tables_of(
    own: Engine, values: torch.Tensor, offsets: torch.Tensor, *batch: Any
) -> Callable[[], TableKeys]:
    """What makes the keys of each table, or says what is wrong with the batch."""

    def tables() -> TableKeys:
        _check_device("keys", values, own.device)
        _check_device("offsets", offsets, own.device)
        return _of_tables(own, values, offsets, *batch)

    return tables


def _outputs(
    like: torch.Tensor, sizes: list[int], dims: list[int], dtype: torch.dtype
) -> list[torch.Tensor]:
    return [like.new_empty((n, d), dtype=dtype) for n, d in zip(sizes, dims, strict=True)]


def _beside(own: Engine, outputs: list[torch.Tensor]) -> SideBySide | None:
    """Vectors of all tables in one tensor, where that was asked for; else there is one a table."""
    if len(outputs) == len(own.dims) and [each.shape[1] for each in outputs] == own.dims:
        return None
    return SideBySide(outputs[0], own.dims, own.features)


def plan_batch(
    values: torch.Tensor,
    offsets: torch.Tensor,
    splits: list[int],
    batch: int,
    order: list[int],
    features: list[int],
    pooled: bool,
    collection: int,
    *,
    ahead: bool = False,
    beside: bool = False,
) -> torch.Tensor:
    """The token of a batch that may train; ``ahead``, ``beside``: see ``Engine.plan``."""
    own = engine(collection)
    if own.group.size == 1 and _empty(values, batch, pooled):
        return torch.tensor([NO_TOKEN], device="cpu")
    tables = _tables_of(own, values, offsets, splits, batch, order, features, pooled)
    return own.plan(tables, ahead=ahead, beside=beside)


def _plan(
    values: torch.Tensor,
    offsets: torch.Tensor,
    splits: list[int],
    batch: int,
    order: list[int],
    features: list[int],
    pooled: bool,
    collection: int,
) -> torch.Tensor:
    ahead = engine(collection).group.size == 1  # vectors, which come next, wait if need be
    return plan_batch(
        values, offsets, splits, batch, order, features, pooled, collection, ahead=ahead
    )


plan = torch.library.custom_op(
    "hugectr::plan", _plan, mutates_args=(), schema=f"({_BATCH}) -> Tensor"
)


@plan.register_fake
def _(values: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty(1, dtype=torch.int64, device="cpu")


def vectors_into(own: Engine, token: torch.Tensor, outputs: list[torch.Tensor]) -> None:
    """Writes the vectors of a planned batch."""
    if int(token.item()) == NO_TOKEN:
        for each in outputs:
            each.zero_()
        return
    beside = _beside(own, outputs)
    own.forward(token, beside.room() if beside else ListedVectors(outputs))
    if beside:
        beside.finish()


def _vectors(
    anchor: torch.Tensor,
    token: torch.Tensor,
    sizes: list[int],
    dims: list[int],
    dtype: torch.dtype,
    collection: int,
) -> list[torch.Tensor]:
    outputs = _outputs(anchor, sizes, dims, dtype)
    vectors_into(engine(collection), token, outputs)
    return outputs


vectors = torch.library.custom_op(
    "hugectr::planned_vectors",
    _vectors,
    mutates_args=(),
    schema="(Tensor anchor, Tensor token, SymInt[] sizes, int[] dims, ScalarType dtype, "
    "int collection) -> Tensor[]",
)


@vectors.register_fake
def _(
    anchor: torch.Tensor,
    token: torch.Tensor,
    sizes: list[int],
    dims: list[int],
    dtype: torch.dtype,
    collection: int,
) -> list[torch.Tensor]:
    return _outputs(anchor, sizes, dims, dtype)


def look_up_batch(
    values: torch.Tensor,
    offsets: torch.Tensor,
    splits: list[int],
    batch: int,
    order: list[int],
    features: list[int],
    pooled: bool,
    collection: int,
    sizes: list[int],
    dims: list[int],
    dtype: torch.dtype,
) -> list[torch.Tensor]:
    """Vectors of a batch that does not train."""
    own = engine(collection)
    # Bags that are none may have less than no keys, which is said below.
    outputs = _outputs(values, [max(size, 0) for size in sizes], dims, dtype)
    if own.group.size > 1 or not _empty(values, batch, pooled):
        beside = _beside(own, outputs)
        own.look_up(
            _tables_of(own, values, offsets, splits, batch, order, features, pooled),
            beside.room() if beside else ListedVectors(outputs),
        )
        if beside:
            beside.finish()
    return outputs


look_up = torch.library.custom_op(
    "hugectr::look_up",
    look_up_batch,
    mutates_args=(),
    schema=f"({_BATCH}, SymInt[] sizes, int[] dims, ScalarType dtype) -> Tensor[]",
)


@look_up.register_fake
def _(values: torch.Tensor, *rest: Any) -> list[torch.Tensor]:
    sizes, dims, dtype = rest[-3:]
    return _outputs(values, sizes, dims, dtype)


def accumulate_into(own: Engine, token: torch.Tensor, gradients: list[torch.Tensor]) -> None:
    """Keeps gradients of a batch's vectors for the next step."""
    beside = _beside(own, gradients)
    own.accumulate(token, beside.tables() if beside else ListedVectors(gradients))


def _accumulate(
    token: torch.Tensor, gradients: list[torch.Tensor], collection: int, call: int
) -> torch.Tensor:
    own = engine(collection)
    accumulate_into(own, token, gradients)
    return torch.zeros(1, device=own.device, dtype=torch.float32)


#: Keeps gradients of a batch's vectors for the next step; returns the anchor's.
accumulate = torch.library.custom_op(
    "hugectr::keep_gradients",
    _accumulate,
    mutates_args=(),
    schema="(Tensor token, Tensor[] gradients, int collection, int call) -> Tensor",
)


@accumulate.register_fake
def _(token: torch.Tensor, gradients: list[torch.Tensor], *_: int) -> torch.Tensor:
    return gradients[0].new_empty(1, dtype=torch.float32)


def _check_device(what: str, values: torch.Tensor, device: torch.device) -> None:
    if values.device != device:
        raise InvalidArgument(
            f"{what} are on {values.device}, the collection is on {device}: bring them there"
        )


#: Of lookups that may have a backward, modulo what is more than one graph has.
_calls, _CALLS = itertools.count(), 2**16


def _save(ctx: Any, inputs: tuple[Any, ...], output: list[torch.Tensor]) -> None:
    ctx.collection = inputs[-1]
    ctx.call = next(_calls) % _CALLS
    ctx.shapes = [(each.shape, each.dtype, each.device) for each in output]
    ctx.save_for_backward(inputs[1])
    ctx.token = keep_token(inputs[1])


def _backward(ctx: Any, gradients: list[torch.Tensor | None]) -> tuple[Any, ...]:
    no_second_derivatives()
    (token,) = ctx.saved_tensors
    all_of_them = [
        torch.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient
        for gradient, (shape, dtype, device) in zip(gradients, ctx.shapes, strict=True)
    ]
    with traced_as_backward():
        anchor = accumulate(token, all_of_them, ctx.collection, ctx.call)
    ctx.token = None
    return (anchor, *[None] * 5)


vectors.register_autograd(_backward, setup_context=_save)
