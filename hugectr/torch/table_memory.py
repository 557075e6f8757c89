# SPDX-License-Identifier: Apache-2.0
"""Keys and vectors of all tables of a collection, as tensors and as memory that the core takes.

A call a table of torch takes longer than what the core does with a small one. So where tables are
parts of one tensor (keys one after the other, vectors side by side) the core is given that tensor
and where it is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from hugectr._core_collection import CutKeys, CutVectors, Memory

#: Types as the core names them.
NAMES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float64: "float64",
    torch.int64: "int64",
    torch.int32: "uint32",  # offsets: the core's are unsigned, and not as large as to differ
}


def memory_of(tensor: torch.Tensor, *shape: int) -> Memory:
    """A packed tensor as the core sees it, in another shape if one is given."""
    return tensor.data_ptr(), shape or tuple(tensor.shape), NAMES[tensor.dtype]


class ListedKeys:
    """Keys (n) int64 and offsets (m + 1) int32 of each table, in tensors of their own.

    Parameters
    ----------
    tables : list of pairs of Tensor
    """

    def __init__(self, tables: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._tables = tables

    def memory(self) -> list[tuple[Memory, Memory]]:
        """As the core sees them."""
        return [(memory_of(keys), memory_of(offsets)) for keys, offsets in self._tables]

    def offsets(self) -> list[torch.Tensor]:
        """Tensors with offsets, which are read until backward."""
        return [offsets for _, offsets in self._tables]

    def keys(self) -> int:
        """Of all tables."""
        return sum(len(keys) for keys, _ in self._tables)

    def bags(self) -> list[int]:
        """Of each table."""
        return [len(offsets) - 1 for _, offsets in self._tables]


class KeysInOne:
    """Keys of tables that read one feature each, in one tensor.

    Parameters
    ----------
    values : Tensor, (n,) int64, packed
        Keys of all features.
    starts : list of int
        (features + 1): where in values those of each feature begin, and where the last ends.
    bags : Tensor, (features, B + 1) int32, packed
        Offsets of bags, each feature's from its own first key.
    order : list of int
        The feature of each table.
    """

    def __init__(
        self, values: torch.Tensor, starts: list[int], bags: torch.Tensor, order: list[int]
    ) -> None:
        self._values, self._starts, self._bags, self._order = values, starts, bags, order

    def memory(self) -> CutKeys:
        """As the core sees them."""
        return memory_of(self._values), self._starts, memory_of(self._bags), self._order

    def offsets(self) -> list[torch.Tensor]:
        """Tensors with offsets, which are read until backward."""
        return [self._bags]

    def keys(self) -> int:
        """Of all tables."""
        return sum(self._starts[i + 1] - self._starts[i] for i in self._order)

    def bags(self) -> list[int]:
        """Of each table."""
        return [self._bags.shape[1] - 1] * len(self._order)


class UncheckedKeys(KeysInOne):
    """The same with offsets as somebody gave them: the core checks them and makes the bags.

    Parameters
    ----------
    values, starts, order
        As of ``KeysInOne``.
    offsets : Tensor, (features * B + 1,) int64 or int32, packed
        Where bags begin, all features one after the other.
    """

    def __init__(
        self, values: torch.Tensor, starts: list[int], offsets: torch.Tensor, order: list[int]
    ) -> None:
        features = len(starts) - 1
        shape = (features, (offsets.shape[0] - 1) // features + 1)
        bags = torch.empty(shape, dtype=torch.int32, device=offsets.device)
        super().__init__(values, starts, bags, order)
        self._offsets = offsets

    def memory(self) -> CutKeys:
        """As the core sees them."""
        address, shape = self._offsets.data_ptr(), tuple(self._offsets.shape)
        kind = "int64" if self._offsets.dtype == torch.int64 else "int32"
        return (
            memory_of(self._values),
            self._starts,
            memory_of(self._bags),
            self._order,
            (address, shape, kind),
        )


#: Keys of all tables.
TableKeys = ListedKeys | KeysInOne


def vectors_of(vectors: torch.Tensor) -> Memory:
    """Vectors (m, d) as the core sees them; they may be columns of a wider tensor."""
    m, d = vectors.shape
    return vectors.data_ptr(), (m, 1, d), NAMES[vectors.dtype], max(vectors.stride(0), d)


def by_rows(vectors: torch.Tensor) -> torch.Tensor:
    """The same where the numbers of a vector lie one after the other."""
    packed = vectors.stride(1) == 1 and vectors.stride(0) >= vectors.shape[1]
    return vectors if packed else vectors.contiguous()


class ListedVectors:
    """Vectors (m, d) of each table, or their gradients, in tensors of their own.

    Parameters
    ----------
    tables : sequence of Tensor or None
        None: a table whose vectors got no gradient.
    """

    def __init__(self, tables: Sequence[torch.Tensor | None]) -> None:
        self._tables = [None if each is None else by_rows(each) for each in tables]

    def memory(self) -> list[Memory | None]:
        """As the core sees them."""
        return [None if each is None else vectors_of(each) for each in self._tables]

    def dtypes(self) -> set[torch.dtype]:
        """Those there are."""
        return {each.dtype for each in self._tables if each is not None}


class VectorsInOne:
    """Vectors of all tables side by side, the columns (B, d) of one tensor.

    Parameters
    ----------
    whole : Tensor, (B, sum of d)
    dims : list of int
        d of each table.
    """

    def __init__(self, whole: torch.Tensor, dims: list[int]) -> None:
        self._whole, self._dims = by_rows(whole), dims

    def memory(self) -> CutVectors:
        """As the core sees them."""
        return vectors_of(self._whole), self._dims

    def dtypes(self) -> set[torch.dtype]:
        """Those there are."""
        return {self._whole.dtype}


def room_for(
    sizes: Sequence[int], dims: Sequence[int], dtype: torch.dtype, device: torch.device
) -> list[torch.Tensor]:
    """Tensors (n, d) to be written."""
    return [
        torch.empty((n, d), dtype=dtype, device=device) for n, d in zip(sizes, dims, strict=True)
    ]


#: Vectors of all tables, or their gradients.
TableVectors = ListedVectors | VectorsInOne


class SideBySide:
    """A tensor (B, sum of d of all features) that has the vectors of all tables, as its columns.

    Where tables have one feature each the core writes and reads the columns themselves. Vectors of
    several features lie one feature after the other in the core, and are copied.

    Parameters
    ----------
    whole : Tensor
    dims : list of int
        d of each table.
    features : list of int
        How many features each has.
    """

    def __init__(self, whole: torch.Tensor, dims: list[int], features: list[int]) -> None:
        self._whole, self._dims, self._features = whole, dims, features
        self._rooms: list[torch.Tensor] = []
        self._one_each = features.count(1) == len(features)

    def _columns(self) -> list[torch.Tensor]:
        widths = [k * d for k, d in zip(self._features, self._dims, strict=True)]
        return list(self._whole.split(widths, dim=1))

    def room(self) -> TableVectors:
        """Where the core writes the vectors of each table, (m, d); ``finish`` follows."""
        if self._one_each:
            return VectorsInOne(self._whole, self._dims)
        samples = self._whole.shape[0]
        self._rooms = [
            columns if k == 1 else columns.new_empty((k * samples, d))
            for columns, k, d in zip(self._columns(), self._features, self._dims, strict=True)
        ]
        return ListedVectors(self._rooms)

    def finish(self) -> None:
        """Brings what was written elsewhere to its columns."""
        if not self._rooms:
            return
        samples = self._whole.shape[0]
        for columns, room, k, d in zip(
            self._columns(), self._rooms, self._features, self._dims, strict=True
        ):
            if k > 1:
                columns.unflatten(1, (k, d)).copy_(room.view(k, samples, d).transpose(0, 1))

    def tables(self) -> TableVectors:
        """The vectors of each table as the core reads them, (m, d)."""
        if self._one_each:
            return VectorsInOne(self._whole, self._dims)
        samples = self._whole.shape[0]
        return ListedVectors(
            [
                columns
                if k == 1
                else columns.unflatten(1, (k, d)).transpose(0, 1).reshape(k * samples, d)
                for columns, k, d in zip(self._columns(), self._features, self._dims, strict=True)
            ]
        )
