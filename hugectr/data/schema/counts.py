# SPDX-License-Identifier: Apache-2.0
"""Which categories a column has, and how often each comes: counted in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hugectr.data.schema.keys import Keys

#: Counts that wait before they are merged with those before.
_PENDING = 1 << 20


@dataclass(frozen=True)
class Categories:
    """What fit() found in a column of categories.

    Attributes
    ----------
    values : {"text", "numbers"}
        What values are compared as.
    rows, missing : int
        Rows of the data, and those of them without a value.
    distinct : int
        Different values that fit() met; where they were too many to remember, those until then.
    known : ndarray of int64 or None
        Ascending keys of the categories with a row of their own; None: all have one.
    words : list of str or None
        The values of ``known``, where the field keeps them.
    longest : int
        Elements of the longest list; 1 for columns of single values.
    """

    values: str
    rows: int
    missing: int
    distinct: int
    known: Keys | None
    words: list[str] | None = field(default=None, repr=False)
    longest: int = 1


def _merged(keys: Keys, counts: Keys) -> tuple[Keys, Keys]:
    """Each key once, ascending, with the sum of its counts."""
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.add.reduceat(counts, first)


def _text_of(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


class CountsFit:
    """Gathers keys of a column and their counts.

    Parameters
    ----------
    max_known : int
        With more distinct keys all are forgotten: every category is then known.
    vocabulary : bool
        Whether values are kept too.
    """

    def __init__(self, max_known: int, vocabulary: bool) -> None:
        self._most = max_known
        self._keys: Keys = np.empty(0, np.int64)
        self._counts: Keys = np.empty(0, np.int64)
        self._pending: list[tuple[Keys, Keys]] = []
        self._waiting = 0
        self._words: dict[int, str] | None = {} if vocabulary else None
        self.distinct = 0
        self.too_many = False

    def add(self, keys: Keys, values: pa.Array, missing: int) -> None:
        """The next keys, with the values that they are of; ``missing`` is not counted."""
        if self.too_many:
            return
        counted = pc.value_counts(pa.array(keys))
        found = counted.field("values").to_numpy()
        counts = counted.field("counts").to_numpy()
        there = found != missing
        self._pending.append((found[there], counts[there]))
        self._waiting += len(found)
        if self._words is not None:
            self._keep_words(keys, values, missing)
        if self._waiting > max(_PENDING, len(self._keys)):
            self._merge()

    def _keep_words(self, keys: Keys, values: pa.Array, missing: int) -> None:
        assert self._words is not None
        distinct, first = np.unique(keys, return_index=True)
        unseen = [
            (int(key), int(place))
            for key, place in zip(distinct, first, strict=True)
            if int(key) != missing and int(key) not in self._words
        ]
        words = values.take(pa.array([place for _, place in unseen], pa.int64())).to_pylist()
        for (key, _), word in zip(unseen, words, strict=True):
            self._words[key] = _text_of(word)

    def _merge(self) -> None:
        parts = [(self._keys, self._counts), *self._pending]
        self._keys, self._counts = _merged(
            np.concatenate([keys for keys, _ in parts]),
            np.concatenate([counts for _, counts in parts]),
        )
        self._pending, self._waiting = [], 0
        self.distinct = len(self._keys)
        if self.distinct > self._most:
            self.too_many = True
            self._keys = self._counts = np.empty(0, np.int64)
            self._words = None

    def finish(self, min_count: int) -> tuple[Keys | None, list[str] | None]:
        """Known keys, ascending, and their values."""
        if not self.too_many:
            self._merge()
        if self.too_many:
            return None, None
        known = self._keys[self._counts >= min_count]
        words = self._words
        return known, None if words is None else [words[int(key)] for key in known]
