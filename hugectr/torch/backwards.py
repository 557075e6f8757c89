# SPDX-License-Identifier: Apache-2.0
"""What lookups need of torch for their backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.fx.traceback

from hugectr.base.errors import InvalidArgument

#: What says of a traced node where it belongs.
_TAG = "partitioner_tag"

_hooks_of_saved: Callable[[bool], Any] | None = getattr(
    torch._C._autograd, "_top_saved_tensors_default_hooks", None
)


def keep_token(token: torch.Tensor) -> torch.Tensor | None:
    """The token, to be kept until backward, where hooks may save copies of tensors instead: its
    batch ends with its own memory."""
    if torch.compiler.is_compiling():
        return None
    return None if _hooks_of_saved is not None and _hooks_of_saved(True) is None else token


def no_second_derivatives() -> None:
    """Refuses a backward that is to be derived itself."""
    if torch.is_grad_enabled():
        raise InvalidArgument(
            "a collection of hugectr.torch has no second derivatives: call backward() without "
            "create_graph; derivatives of what follows its vectors may be taken with "
            "torch.autograd.grad with respect to the vectors"
        )


@contextmanager
def traced_as_backward() -> Iterator[None]:
    """Has a compiler leave what it traces within in the backward.

    It computes in the forward whatever depends on no gradient of its outputs, and those of vectors
    may be zeros that it knows beforehand. torch 2.4 has no word for that.
    """
    meta = torch.fx.traceback.current_meta
    before = meta.get(_TAG)
    if before is None:  # nothing is traced
        yield
        return
    meta[_TAG] = "must_be_in_backward"
    try:
        yield
    finally:
        meta[_TAG] = before
