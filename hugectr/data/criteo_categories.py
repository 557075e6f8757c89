# SPDX-License-Identifier: Apache-2.0
"""From Criteo's hexadecimal categories to keys: by frequency, or by hashing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.data.criteo_kept import damaged, read_arrays, write_arrays
from hugectr.data.criteo_lines import CATEGORIES, Lines

Counts = tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]


def count(lines: Lines) -> list[Counts]:
    """Distinct values of every column, ascending, and how often each comes."""
    result = []
    for c in range(CATEGORIES):
        present = lines.categories[~lines.missing[:, c], c]
        values, often = np.unique(present, return_counts=True)
        result.append((values, often.astype(np.int64)))
    return result


def add(left: Counts, right: Counts) -> Counts:
    """Counts of both."""
    values = np.concatenate([left[0], right[0]])
    often = np.concatenate([left[1], right[1]])
    order = np.argsort(values, kind="stable")
    values, often = values[order], often[order]
    if len(values) == 0:
        return values, often
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[first], np.add.reduceat(often, first)


class CountTotal:
    """Counts of many parts; small ones wait until together they are worth a merge."""

    def __init__(self) -> None:
        self._total: list[Counts] = [_nothing()] * CATEGORIES
        self._waiting: list[list[Counts]] = [[] for _ in range(CATEGORIES)]

    def add(self, counts: list[Counts]) -> None:
        """Take the counts of one part."""
        for c, part in enumerate(counts):
            self._waiting[c].append(part)
            if sum(len(w[0]) for w in self._waiting[c]) > max(len(self._total[c][0]), 1 << 16):
                self._merge(c)

    def _merge(self, c: int) -> None:
        merged = self._total[c]
        if self._waiting[c]:
            values = np.concatenate([w[0] for w in self._waiting[c]])
            often = np.concatenate([w[1] for w in self._waiting[c]])
            merged = add(merged, (values, often))
        self._total[c], self._waiting[c] = merged, []

    def result(self) -> list[Counts]:
        """Counts of all parts, a column at a time."""
        for c in range(CATEGORIES):
            self._merge(c)
        return self._total


def _nothing() -> Counts:
    return np.zeros(0, np.uint32), np.zeros(0, np.int64)


@dataclass(frozen=True)
class Encoding:
    """How the values of a column become keys: 0 is missing (and, by frequency, too rare).

    Attributes
    ----------
    slot_sizes : list of int
        Keys of each column, 0 included.
    values, codes : list of ndarray or None
        By frequency: known values ascending and their keys; the most frequent has key 1.
    """

    slot_sizes: list[int]
    values: list[npt.NDArray[np.uint32]] | None = None
    codes: list[npt.NDArray[np.uint32]] | None = None

    @classmethod
    def by_frequency(cls, counts: list[Counts], min_count: int) -> Encoding:
        """Values that come at least ``min_count`` times, numbered from 1 by falling frequency."""
        sizes, values, codes = [], [], []
        for found, often in counts:
            known = found[often >= min_count]
            rank = np.lexsort((known, -often[often >= min_count]))
            code = np.empty(len(known), np.uint32)
            code[rank] = np.arange(1, len(known) + 1, dtype=np.uint32)
            sizes.append(len(known) + 1)
            values.append(known)
            codes.append(code)
        return cls(sizes, values, codes)

    @classmethod
    def by_hash(cls, size: int) -> Encoding:
        """Keys 1 .. size - 1 by hashing, the same for every data set."""
        return cls([size] * CATEGORIES)

    def encode(self, lines: Lines) -> npt.NDArray[np.uint32]:
        """Keys, (n, 26), from 0 in every column."""
        keys = np.zeros_like(lines.categories)
        for c in range(CATEGORIES):
            column = lines.categories[:, c]
            if self.values is None or self.codes is None:
                keys[:, c] = _hash(column) % np.uint64(self.slot_sizes[c] - 1) + np.uint64(1)
            elif len(self.values[c]):
                place = np.minimum(np.searchsorted(self.values[c], column), len(self.values[c]) - 1)
                known = self.values[c][place] == column
                keys[:, c] = np.where(known, self.codes[c][place], 0)
        keys[lines.missing] = 0
        return keys

    def save(self, path: Path) -> None:
        """Write the encoding, whole or not at all."""
        arrays: dict[str, npt.NDArray[Any]] = {"slot_sizes": np.array(self.slot_sizes, np.int64)}
        for c in range(CATEGORIES):
            if self.values is not None and self.codes is not None:
                arrays[f"values{c}"], arrays[f"codes{c}"] = self.values[c], self.codes[c]
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: Path) -> Encoding:
        """Read what save() wrote.

        Raises
        ------
        DataError
            When it is damaged.
        """
        data = read_arrays(path)
        try:
            sizes = [int(size) for size in data["slot_sizes"]]
            if "values0" not in data:
                return cls(sizes)
            values = [data[f"values{c}"] for c in range(CATEGORIES)]
            codes = [data[f"codes{c}"] for c in range(CATEGORIES)]
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(path) from error
        return cls(sizes, values, codes)


def _hash(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """splitmix64's finaliser, so that near values do not fall together."""
    with np.errstate(over="ignore"):
        z = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
