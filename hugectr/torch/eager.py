# SPDX-License-Identifier: Apache-2.0
"""Forward and backward of a collection where nothing is compiled: calls of the core, in as little
Python as there can be.

The operators of ``operators`` mean the same and are what torch can trace; each takes torch through
some hundred frames of Python, which a step of many small tables is not much longer than.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from hugectr.base.errors import InvalidArgument
from hugectr.torch.backwards import keep_token, no_second_derivatives
from hugectr.torch.engine import Engine
from hugectr.torch.operators import accumulate, accumulate_into, vectors_into
from hugectr.torch.table_memory import room_for

_transforms: Callable[[], bool] | None = getattr(torch._C, "_are_functorch_transforms_active", None)
_is_batched: Callable[[Any], bool] | None = getattr(
    getattr(torch._C, "_functorch", None), "is_batchedtensor", None
)
_modes: Callable[[], int] | None = getattr(torch._C, "_len_torch_dispatch_stack", None)


def is_eager(values: torch.Tensor) -> bool:
    """Whether torch runs what it is given, on tensors that have memory.

    Not while it compiles, transforms functions (``torch.func``) or has a mode that sees operators
    (``FakeTensorMode``), nor of tensors of other kinds than its own.
    """
    if torch.compiler.is_compiling() or _transforms is None or _modes is None:
        return False
    if type(values) is torch.Tensor and not _transforms() and _modes() == 0:
        return True
    if _is_batched is not None and _is_batched(values):
        raise InvalidArgument(
            "torch.func.vmap can not go through a lookup: ask a collection with the whole batch, "
            "whose samples are its first dimension anyhow, and have vmap of what follows"
        )
    return False


#: The number of a call of ``operators.accumulate`` that its token tells from others.
_NO_CALL = 2**16


class Vectors(torch.autograd.Function):
    """token -> vectors of each table, or of all side by side, as ``operators.vectors``."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: torch.Tensor,
        token: torch.Tensor,
        own: Engine,
        sizes: list[int],
        dims: list[int],
        dtype: torch.dtype,
    ) -> tuple[torch.Tensor, ...]:
        outputs = room_for(sizes, dims, dtype, own.device)
        vectors_into(own, token, outputs)
        ctx.own = own
        ctx.sizes, ctx.dims, ctx.dtype = sizes, dims, dtype
        ctx.set_materialize_grads(False)
        # As a tensor, so that the batch ends with the graph's buffers and is another one where a
        # checkpoint is computed again. A tensor of its own, by which compiled autograd, which makes
        # one call of two alike, knows this lookup from another of the batch.
        ctx.save_for_backward(token.view(1))
        ctx.token = keep_token(token)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[None, ...]:
        no_second_derivatives()
        (token,) = ctx.saved_tensors
        own = ctx.own
        given = [
            torch.zeros(n, d, dtype=ctx.dtype, device=own.device) if each is None else each
            for each, n, d in zip(gradients, ctx.sizes, ctx.dims, strict=True)
        ]
        ctx.token = None
        if torch.compiler.is_compiling():  # compiled autograd, of a forward that was not
            return accumulate(token, given, own.number, _NO_CALL), *(None,) * 5
        accumulate_into(own, token, given)
        # The anchor has no use for a gradient, but sums of compiled autograd take nothing less.
        anchor = None if isinstance(ctx, BackwardCFunction) else torch.zeros(1, device=own.device)
        return anchor, *(None,) * 5


def vectors(
    anchor: torch.Tensor,
    token: torch.Tensor,
    own: Engine,
    sizes: list[int],
    dims: list[int],
    dtype: torch.dtype,
) -> list[torch.Tensor]:
    """Vectors of a planned batch, with their place in autograd; see ``operators.vectors``."""
    return list(Vectors.apply(anchor, token, own, sizes, dims, dtype))
