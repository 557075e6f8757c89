# SPDX-License-Identifier: Apache-2.0
"""What collections return: vectors by feature."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping

import torch

from hugectr.base.errors import rejected


class PooledVectors(Mapping[str, torch.Tensor]):
    """A vector a sample for each of several features; a mapping feature -> (B, d).

    ``keys()``, ``values()``, ``to_dict()`` and ``length_per_key()`` are those of TorchRec's
    ``KeyedTensor``: ``values()`` is one tensor, (B, sum of all d). The collection writes that one,
    and a feature's vectors are columns of it.

    Parameters
    ----------
    vectors : mapping feature -> Tensor (B, d), or Tensor, (B, sum of all d)
    dims : mapping feature -> d, optional
        Of the columns of a tensor.
    """

    def __init__(
        self, vectors: dict[str, torch.Tensor] | torch.Tensor, dims: dict[str, int] | None = None
    ) -> None:
        self._values: torch.Tensor | None = None
        self._vectors: dict[str, torch.Tensor] | None = None
        if isinstance(vectors, torch.Tensor):
            self._values = vectors
            self._dims = dims or {}
        else:
            self._vectors = vectors
            self._dims = {name: each.shape[1] for name, each in vectors.items()}

    def _by_feature(self) -> dict[str, torch.Tensor]:
        if self._vectors is None:
            assert self._values is not None
            # All at once: the gradients of slices would each be as wide as the whole.
            columns = self._values.split(list(self._dims.values()), dim=1)
            self._vectors = dict(zip(self._dims, columns, strict=True))
        return self._vectors

    def __getitem__(self, feature: str) -> torch.Tensor:
        return self._by_feature()[feature]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dims)

    def __len__(self) -> int:
        return len(self._dims)

    def values(self) -> torch.Tensor:
        """All vectors of a sample, one after the other: (B, sum of all d)."""
        if self._values is None:
            self._values = torch.cat(list(self._by_feature().values()), dim=1)
        return self._values

    def length_per_key(self) -> list[int]:
        """d of each feature."""
        return list(self._dims.values())

    def to_dict(self) -> dict[str, torch.Tensor]:
        """Feature -> (B, d)."""
        return dict(self._by_feature())


class JaggedVectors:
    """A vector a key of one feature, in bags of samples.

    Parameters
    ----------
    values : Tensor, (n, d)
    offsets : Tensor, (B + 1,)
        Where the bags of samples begin.
    """

    def __init__(self, values: torch.Tensor, offsets: torch.Tensor) -> None:
        self._values = values
        self._offsets = offsets

    def values(self) -> torch.Tensor:
        """Vectors of all keys, (n, d)."""
        return self._values

    def offsets(self) -> torch.Tensor:
        """Where bags begin, (B + 1,)."""
        return self._offsets

    def lengths(self) -> torch.Tensor:
        """Keys of each sample, (B,)."""
        return self._offsets.diff()

    def to_padded_dense(self, length: int) -> torch.Tensor:
        """Vectors (B, length, d): zeros behind the last, what is beyond is left out.

        Parameters
        ----------
        length : int
            ``int(found.lengths().max())`` leaves out nothing.

        Raises
        ------
        InvalidArgument
            When it is none, or below 0.
        """
        if not torch.compiler.is_compiling():  # to a compiler a size is what it can not compare
            length = _length(length)
        places = torch.arange(length, device=self._offsets.device)
        inside = places < self.lengths()[:, None]
        values = self._values
        # A compiler may not know whether there is a key, and can not ask.
        if torch.compiler.is_compiling() or values.shape[0] == 0:
            values = torch.cat([values, values.new_zeros(1, values.shape[1])])
        source = (self._offsets[:-1, None] + places).clamp(max=values.shape[0] - 1)
        return values[source].masked_fill(~inside[..., None], 0)

    def to_nested(self) -> torch.Tensor:
        """A nested tensor of jagged layout, for attention over it (torch 2.5 and later)."""
        return torch.nested.nested_tensor_from_jagged(self._values, self._offsets)


def _length(given: object) -> int:
    """A length as a number; a tensor of one integer is one."""
    try:
        found = -1 if isinstance(given, bool) else operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        found = -1
    if found < 0:
        raise rejected("to_padded_dense: length", given, "an integer >= 0")
    return found
