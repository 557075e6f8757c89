# SPDX-License-Identifier: Apache-2.0
"""What a collection can be asked with, brought into one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hugectr.base.errors import InvalidArgument
from hugectr.torch.keys import (
    as_int64,
    check_flat,
    check_integers,
    check_parts,
    is_integer,
    keys_of,
    signed,
)

#: Integers that torch makes no other types of by itself.
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)

#: What bags are that come as a tuple.
_PARTS = "(values, offsets) or (values, offsets, weights)"


@dataclass
class Jagged:
    """Keys of several features, each with a bag a sample, one feature after the other.

    Parameters
    ----------
    values : Tensor, (n,)
        int64 keys.
    offsets : Tensor, (features * B + 1,)
        Where bags begin: of sample 0 of the first feature, sample 1, ... The last is n.
    features : list of str
        In the order of the values.
    splits : list of int
        Keys of each feature; empty when that is known to the device only.
    weights : Tensor, (n,), or None
        A factor a key.
    """

    values: torch.Tensor
    offsets: torch.Tensor
    features: list[str]
    splits: list[int]
    weights: torch.Tensor | None = None

    @property
    def batch(self) -> int:
        """B: samples."""
        return (self.offsets.shape[0] - 1) // len(self.features)

    def counted(self) -> list[int]:
        """Keys of each feature; waits for the device where they are known to it only, once."""
        if not self.splits:
            # Differences are taken before anybody looks: to a compiler each is then a size, and
            # the same one wherever it stands.
            found = self.offsets[:: self.batch].diff().tolist() if self.batch else []
            self.splits = found or [0] * len(self.features)
        return self.splits


@dataclass
class PlannedBatch:
    """A batch whose keys were looked up ahead. Made by ``Collection.prefetch``.

    Attributes
    ----------
    batch : Jagged
    pooled : bool
        Whether it was looked up for a vector a bag.
    token : Tensor, (1,), or None
        None: it is yet to be looked up.
    error : Exception or None
        What its forward raises, where it is no batch.
    collection : int
        The number of the one that has made it; 0: it is of any.
    """

    batch: Jagged
    pooled: bool
    token: torch.Tensor | None = None
    error: Exception | None = None
    collection: int = 0


def no_samples(features: list[str], device: torch.device) -> Jagged:
    """A batch of none."""
    return Jagged(
        torch.empty(0, dtype=torch.int64, device=device),
        torch.zeros(1, dtype=torch.int64, device=device),
        features,
        [0] * len(features),
    )


def jagged(batch: Any, features: Sequence[str], weighted: bool = True) -> Jagged:
    """A batch in the one form that collections look up.

    Parameters
    ----------
    batch : one of
        - an object with the fields of TorchRec's ``KeyedJaggedTensor``: ``keys()``, ``values()``,
          ``offsets()`` or ``lengths()``, ``weights_or_none()``; more features than asked for may
          be in it
        - a mapping feature -> bags
        - bags, where one feature is asked for
        Bags are a tensor (B, L) of L keys a sample, a tensor (B,) of one key a sample, a nested
        tensor (of jagged layout, with or without lengths, or strided) with a list of keys a sample,
        a tuple (values, offsets) or (values, offsets, weights) with B + 1 offsets, the last of
        them the number of keys, or an object with the fields of TorchRec's ``JaggedTensor``, which
        are those of a ``KeyedJaggedTensor`` without ``keys()``. Keys of uint64 are taken as int64
        of the same 64 bits: k from 2**63 on is the key k - 2**64.
    features : sequence of str
        Those that are asked for.
    weighted : bool
        Whether weights may be among it.

    Raises
    ------
    InvalidArgument
        When a feature is missing, keys are no integers, features have unlike numbers of samples, or
        weights are there that nobody asked for.
    """
    found = _formed(batch, features)
    if found.weights is not None and not weighted:
        raise InvalidArgument(
            "a batch has weights, and this collection takes none: "
            "EmbeddingBagCollection(..., is_weighted=True) multiplies vectors by them"
        )
    return found


def _formed(batch: Any, features: Sequence[str]) -> Jagged:
    if isinstance(batch, Mapping):
        return _of_mapping(batch, features)
    if callable(getattr(batch, "keys", None)) and callable(getattr(batch, "values", None)):
        return _of_keyed_jagged(batch)
    if len(features) != 1:
        raise InvalidArgument(
            f"a batch: found {type(batch).__name__}, and there are {len(features)} features; give "
            "a mapping of them, or an object with the fields of a KeyedJaggedTensor"
        )
    return _of_mapping({features[0]: batch}, features)


def _of_keyed_jagged(batch: Any) -> Jagged:
    found = list(batch.keys())
    if getattr(batch, "variable_stride_per_key", lambda: False)():
        raise InvalidArgument(
            "a batch: its features have unlike numbers of samples (variable_stride_per_key); a "
            "collection takes a bag a sample of each"
        )
    found_weights = getattr(batch, "weights_or_none", lambda: None)()
    values = keys_of("values", batch.values())
    offsets = _offsets_in("values", batch, "(features * B,)")
    ends = getattr(batch, "_offset_per_key", None)
    splits = _differences(ends) if ends else []
    if len(found) == 1:  # then nobody has to ask the device
        splits = [values.shape[0]]
    check_parts("values", values, offsets, found_weights)
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InvalidArgument(f"a batch: it has feature {twice!r} twice")
    if found and (offsets.shape[0] - 1) % len(found):
        raise InvalidArgument(
            f"a batch: {offsets.shape[0] - 1} bags are no multiple of its {len(found)} features"
        )
    return Jagged(values, signed(offsets), found, splits, found_weights)


def _offsets_in(name: str, batch: Any, shape: str) -> torch.Tensor:
    """Where bags begin in an object of TorchRec's, which has that or lengths of this shape."""
    offsets = getattr(batch, "offsets_or_none", lambda: None)()
    if offsets is None and callable(getattr(batch, "offsets", None)):
        offsets = batch.offsets()
    if offsets is None:
        lengths = batch.lengths()
        good = isinstance(lengths, torch.Tensor) and lengths.dim() == 1
        good = good and is_integer(lengths.dtype)
        check_flat(name, "lengths", lengths, f"integers of shape {shape}", good)
        offsets = offsets_of(signed(lengths))
    return offsets


def is_jagged(bags: Any) -> bool:
    """Whether these are bags of one feature, in an object with the fields of a JaggedTensor."""
    if isinstance(bags, (torch.Tensor, Mapping)) or callable(getattr(bags, "keys", None)):
        return False  # the last is of several features
    return all(callable(getattr(bags, name, None)) for name in ("values", "lengths"))


def _of_mapping(batch: Mapping[str, Any], features: Sequence[str]) -> Jagged:
    missing = [name for name in features if name not in batch]
    if missing:
        raise InvalidArgument(f"a batch has no feature {missing[0]!r}; it has {sorted(batch)}")
    alike = _of_one_shape([batch[name] for name in features], features)
    if alike is not None:
        return alike
    parts = [_bags(name, batch[name]) for name in features]
    devices = [values.device for values, _, _ in parts]
    if any(device != devices[0] for device in devices):
        found = dict(zip(features, map(str, devices), strict=True))
        raise InvalidArgument(f"a batch: its features are on several devices, {found}")
    samples = [offsets.shape[0] - 1 for _, offsets, _ in parts]
    if any(count != samples[0] for count in samples):
        raise InvalidArgument(
            f"a batch: features have {dict(zip(features, samples, strict=True))} samples"
        )
    splits = [values.shape[0] for values, _, _ in parts]
    if len(parts) == 1:
        values, offsets, weights = parts[0]
        return Jagged(values, offsets, list(features), splits, weights)
    offsets, start = [parts[0][1][:1]], 0
    for values, own, _ in parts:
        offsets.append(own[1:] + start)
        start += values.shape[0]
    weights = None
    if all(weight is not None for _, _, weight in parts):
        weights = torch.cat([weight for _, _, weight in parts])
    elif any(weight is not None for _, _, weight in parts):
        raise InvalidArgument("a batch: all features have weights, or none has")
    return Jagged(
        torch.cat([values for values, _, _ in parts]),
        torch.cat(offsets),
        list(features),
        splits,
        weights,
    )


def _of_one_shape(parts: Sequence[Any], features: Sequence[str]) -> Jagged | None:
    """Features of as many keys a sample each, (B, L) or (B,): in few calls, however many."""
    first = parts[0]
    if len(parts) == 1 or not isinstance(first, torch.Tensor) or first.is_nested:
        return None
    if first.dim() not in (1, 2):
        return None
    for part in parts:
        if not isinstance(part, torch.Tensor) or part.is_nested or part.shape != first.shape:
            return None
        if part.device != first.device:
            return None
    for name, part in zip(features, parts, strict=True):
        check_integers(name, part)
    samples, width = first.shape[0], first.shape[1] if first.dim() == 2 else 1
    alone = any(part.dtype in _UNSIGNED for part in parts)  # go with no other type
    values = torch.cat([as_int64(part) for part in parts] if alone else list(parts))
    values = values.reshape(-1).to(torch.int64)
    offsets = torch.arange(samples * len(parts) + 1, device=first.device) * width
    return Jagged(values, offsets, list(features), [samples * width] * len(parts))


def _differences(ends: Sequence[int]) -> list[int]:
    return [ends[i + 1] - ends[i] for i in range(len(ends) - 1)]


def offsets_of(lengths: torch.Tensor) -> torch.Tensor:
    """Offsets (n + 1) of bags of these lengths (n)."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def bags_within(
    offsets: torch.Tensor, starts: torch.Tensor, batch: int, keys: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Offsets (n) that name no key but those there are, and whether they are the ones given.

    Parameters
    ----------
    offsets : Tensor, (features * batch + 1,)
    starts : Tensor, (features + 1,)
        Where the keys of each feature begin, and the number of keys.
    batch : int
        Samples.
    keys : int
        How many there are.

    Returns
    -------
    offsets : Tensor
        The same where they ascend from 0 to ``keys`` and each feature's begin where its keys do,
        else others that do.
    good : Tensor, (1,) bool
        Whether they do. Both are on the device; nobody waits.
    """
    good = (offsets[::batch] == starts).all() & (offsets[1:] >= offsets[:-1]).all()
    good &= starts[-1] == keys
    # Where they do not, each feature's last bag has all its keys. Only passes over the offsets: a
    # scan that would mend them takes longer than the lookup.
    others = starts[:-1, None].expand(-1, batch).reshape(-1)
    return torch.where(good, offsets, torch.cat([others, starts[-1:]])), good[None]


def _of_nested(name: str, bags: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys (n) and offsets (B + 1) of a nested tensor of either layout, with holes or without."""
    if bags.dim() != 2 and bags.size(0):  # without samples torch has it that they are of one
        raise InvalidArgument(
            f"feature {name!r}: nested keys have {bags.dim()} dimensions, not 2: a list of keys a "
            "sample"
        )
    if bags.layout != torch.jagged:
        parts = [as_int64(part).reshape(-1) for part in bags.unbind()]
        counts = torch.tensor([part.shape[0] for part in parts], dtype=torch.int64, device="cpu")
        none = torch.empty(0, dtype=torch.int64, device=bags.device)
        return torch.cat([none, *parts]), offsets_of(counts).to(bags.device)
    values, offsets, lengths = as_int64(bags.values()), bags.offsets(), bags.lengths()
    if lengths is None:
        return values, offsets
    # Behind the keys of a sample are others that are of none.
    good = ((lengths >= 0) & (lengths <= offsets.diff())).all()
    if not bool(good & (offsets[:1] >= 0).all() & (offsets[-1:] <= values.shape[0]).all()):
        raise InvalidArgument(
            f"feature {name!r}: the lengths of nested keys go beyond their offsets, or these "
            f"beyond the {values.shape[0]} keys"
        )
    ends = offsets_of(lengths)
    moved = torch.repeat_interleave(offsets[: lengths.shape[0]] - ends[:-1], lengths)
    return values[moved + torch.arange(moved.shape[0], device=values.device)], ends


def _bags(name: str, bags: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Keys (n), offsets (B + 1) and weights (n) of one feature."""
    weights = None
    if is_jagged(bags):
        weights = getattr(bags, "weights_or_none", lambda: None)()
        bags = bags.values(), _offsets_in(name, bags, "(B,)"), weights
    if isinstance(bags, tuple):
        if len(bags) not in (2, 3):
            raise InvalidArgument(f"feature {name!r}: found {len(bags)} parts, not {_PARTS}")
        keys, offsets, *rest = bags
        weights = rest[0] if rest else None
        check_integers(name, keys)
        check_parts(name, keys, offsets, weights)
        return keys_of(name, keys), signed(offsets), weights
    check_integers(name, bags)
    if bags.is_nested:
        keys, offsets = _of_nested(name, bags)
        check_parts(name, keys, offsets, None)
        return keys_of(name, keys), offsets, None
    if bags.dim() not in (1, 2):
        raise InvalidArgument(f"feature {name!r}: keys have shape {tuple(bags.shape)}, not (B, L)")
    samples = bags.shape[0]
    width = bags.shape[1] if bags.dim() == 2 else 1
    offsets = torch.arange(samples + 1, device=bags.device) * width
    return keys_of(name, bags).reshape(-1), offsets, weights
