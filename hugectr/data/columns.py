# SPDX-License-Identifier: Apache-2.0
"""Which column of a table is what, and in which order samples are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hugectr.base.arguments import check_bool, check_int, check_str, listed
from hugectr.base.errors import did_you_mean, rejected

if TYPE_CHECKING:
    from hugectr._core import ArrowMapping, ShuffleSpec


def _names(where: str, value: Any) -> tuple[str, ...]:
    value = listed(value)
    if not hasattr(value, "__iter__") or isinstance(value, bytes | bytearray):
        raise rejected(where, value, "a name, or a list of names")
    names = (value,) if isinstance(value, str) else tuple(value)
    return tuple(check_str(where, name, empty=False) for name in names)


@dataclass(frozen=True)
class Columns:
    """Names of the columns that make a sample.

    Parameters
    ----------
    label : str or sequence of str
        One column a label dimension; numbers or booleans.
    dense : str or sequence of str
        One column a dense feature, possibly none; numbers.
    sparse : mapping of str to sequence of str
        For each sparse input (``DataReaderSparseParam.top_name``) one column a slot: integers, or
        lists of integers for slots with several keys.
    sequences : str or sequence of str
        Those of ``sparse`` that have lists in an order, oldest first: where one is longer than
        ``nnz_per_slot``, its last keys count. A longer list of another column is an error.
    """

    label: str | Sequence[str]
    dense: str | Sequence[str] = ()
    sparse: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sequences: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", _names("Columns: label", self.label))
        object.__setattr__(self, "dense", _names("Columns: dense", self.dense))
        given: Any = self.sparse
        if not isinstance(given, Mapping):
            allowed = "a dict of columns by sparse input, {} where there is none"
            raise rejected("Columns: sparse", given, allowed)
        sparse = {top: _names(f"Columns: sparse[{top!r}]", s) for top, s in given.items()}
        object.__setattr__(self, "sparse", sparse)
        object.__setattr__(self, "sequences", _names("Columns: sequences", self.sequences))
        slots = [name for names in sparse.values() for name in names]
        for name in self.sequences:
            if name not in slots:
                allowed = f"columns of sparse, {slots}{did_you_mean(name, slots)}"
                raise rejected("Columns: sequences", name, allowed)

    @property
    def all(self) -> list[str]:
        """Every column once, in the order label, dense, sparse."""
        names = [*self.label, *self.dense, *(c for slots in self.sparse.values() for c in slots)]
        return list(dict.fromkeys(names))

    def to_spec(self, tops: Mapping[str, int], slot_offsets: Sequence[int]) -> ArrowMapping:
        """As the core reads them; ``tops`` gives the slots of each sparse input in order."""
        if sorted(tops) != sorted(self.sparse):
            raise rejected(
                "columns: sparse inputs",
                sorted(self.sparse),
                f"exactly {sorted(tops)}, as in Input",
            )
        for top, slots in tops.items():
            if len(self.sparse[top]) != slots:
                raise rejected(
                    f"columns: sparse[{top!r}]",
                    list(self.sparse[top]),
                    f"{slots} columns, one a slot of the sparse input",
                )
        return {
            "labels": list(self.label),
            "dense": list(self.dense),
            "slots": [column for top in tops for column in self.sparse[top]],
            "slot_offsets": list(slot_offsets),
            "sequences": list(self.sequences),
        }


@dataclass(frozen=True)
class Shuffle:
    """How training samples are put out of order, the same way in every run with the same seed.

    Parameters
    ----------
    seed : int
        The order is a function of the seed and the epoch, and of nothing else: neither workers nor
        processes change it.
    files, blocks : bool
        Whether files, and blocks (Parquet row groups, pieces of a Raw file), change places.
    window : int
        Samples change places inside windows of so many; 0 keeps their order. The blocks of a
        window are in memory at the same time.
    """

    seed: int = 0
    files: bool = True
    blocks: bool = True
    window: int = 65536

    def __post_init__(self) -> None:
        check_int("Shuffle: seed", self.seed, 0)
        check_bool("Shuffle: files", self.files)
        check_bool("Shuffle: blocks", self.blocks)
        check_int("Shuffle: window", self.window, 0, 1 << 31)

    def to_spec(self) -> ShuffleSpec:
        """As the core reads it."""
        return {
            "seed": self.seed,
            "files": self.files,
            "blocks": self.blocks,
            "window": self.window,
        }


def prefix_sums(slot_size_array: Sequence[int]) -> list[int]:
    """What is added to the keys of each slot: the sizes of all slots before it."""
    offsets, total = [], 0
    for size in slot_size_array:
        offsets.append(total)
        total += size
    return offsets if any(offsets) else []


def check_shuffle(name: str, value: Any) -> Shuffle | None:
    """A Shuffle; True stands for the default one, None and False for none."""
    if value is True:
        return Shuffle()
    if value is None or value is False:
        return None
    if not isinstance(value, Shuffle):
        raise rejected(name, value, "True, False, or a hugectr.data.Shuffle")
    return value
