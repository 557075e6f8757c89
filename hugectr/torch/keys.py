# SPDX-License-Identifier: Apache-2.0
"""Keys of a batch, and the tensors beside them, as they must be."""

from __future__ import annotations

from typing import Any

import torch

from hugectr.base.errors import InvalidArgument


def is_integer(kind: torch.dtype) -> bool:
    return not (kind.is_floating_point or kind.is_complex or kind == torch.bool)


def no_tensor(found: Any) -> str:
    """What was found in the place of a tensor, and the way out."""
    if isinstance(found, list) and found and all(isinstance(e, torch.Tensor) for e in found):
        return "found a list of tensors: (values, offsets) is a tuple, which tuple(...) makes of it"
    if callable(getattr(found, "keys", None)):
        return f"found {type(found).__name__}, which is a whole batch: give it alone"
    return f"found {type(found).__name__}: torch.as_tensor makes one"


def check_integers(name: str, keys: torch.Tensor) -> None:
    """Complains about keys that are none."""
    if not isinstance(keys, torch.Tensor):
        raise InvalidArgument(f"feature {name!r}: keys are a tensor, {no_tensor(keys)}")
    if not is_integer(keys.dtype):
        raise InvalidArgument(f"feature {name!r}: keys are integers, found {keys.dtype}")
    if keys.layout not in (torch.strided, torch.jagged):
        raise InvalidArgument(f"feature {name!r}: keys are a dense tensor, found {keys.layout}")


def check_flat(name: str, what: str, tensor: torch.Tensor, size: str, good: bool) -> None:
    """Complains about a tensor beside the keys that is not as they are."""
    if not (isinstance(tensor, torch.Tensor) and good):
        found = f"{type(tensor).__name__}: torch.as_tensor makes a tensor"
        if isinstance(tensor, torch.Tensor):
            shape = "a nested tensor" if tensor.is_nested else tuple(tensor.shape)
            found = f"{shape} of {tensor.dtype}"
        raise InvalidArgument(f"feature {name!r}: {what} are {size}, found {found}")


def check_parts(
    name: str, keys: torch.Tensor, offsets: torch.Tensor, weights: torch.Tensor | None
) -> None:
    """Complains about keys, offsets and weights that do not go together by shape or type."""
    good = keys.dim() == 1 and not keys.is_nested
    check_flat(name, "values", keys, "of shape (n,)", good)
    check_offsets(name, offsets, "(B + 1,)")
    check_flat(name, "offsets", offsets, "integers of shape (B + 1,)", offsets.shape[0] > 0)
    if weights is None:
        return
    good = isinstance(weights, torch.Tensor) and not weights.is_nested
    good = good and weights.shape == keys.shape and not weights.is_complex()
    check_flat(name, "weights", weights, f"one a key, shape {tuple(keys.shape)}", good)
    if weights.device != keys.device:
        raise InvalidArgument(
            f"feature {name!r}: weights are on {weights.device}, its keys on {keys.device}: bring "
            "them there"
        )


def check_offsets(name: str, offsets: torch.Tensor, shape: str) -> None:
    """Complains about offsets that are no integers in a row."""
    good = isinstance(offsets, torch.Tensor) and offsets.dim() == 1
    good = good and is_integer(offsets.dtype)
    check_flat(name, "offsets", offsets, f"integers of shape {shape}", good)


def keys_of(name: str, keys: torch.Tensor) -> torch.Tensor:
    check_integers(name, keys)
    return as_int64(keys).contiguous()


def as_int64(keys: torch.Tensor) -> torch.Tensor:
    """Keys as int64; those of uint64 have the same bits."""
    return keys.view(torch.int64) if keys.dtype == torch.uint64 else keys.to(torch.int64)


def signed(places: torch.Tensor) -> torch.Tensor:
    """Offsets or lengths that torch can add, and add up."""
    return places if places.dtype in (torch.int64, torch.int32) else as_int64(places)
