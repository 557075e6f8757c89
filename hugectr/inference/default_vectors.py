# SPDX-License-Identifier: Apache-2.0
"""Vectors of keys that training never saw, where they are to be other than zeros.

A key that a table does not have adds nothing to its slot. So tables get a row more, of a key that
none of them has, which holds the default; unknown keys are taken for that key before they are
looked up, and sums, means and positions follow by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import rejected
from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.input import Input

if TYPE_CHECKING:
    from hugectr import _core

Keys = npt.NDArray[np.int64]
Csr = tuple[npt.NDArray[Any], npt.NDArray[Any]]
WHERE = "InferenceParams: default_value_for_each_table"


class DefaultVectors:
    """Puts default vectors into loaded tables, and takes unknown keys for their key.

    Parameters
    ----------
    inputs : Input
    tables : sequence of SparseEmbedding
        Of the model, in its order.
    values : sequence of float
        What every number of a table's default vector is: one a table, or one for all.

    Raises
    ------
    InvalidArgument
        When their number fits no table, or tables that share an input tell rows apart in different
        ways.
    """

    def __init__(
        self, inputs: Input, tables: Sequence[SparseEmbedding], values: Sequence[float]
    ) -> None:
        if len(values) not in (1, len(tables)):
            raise rejected(WHERE, list(values), f"one number, or one for each of {len(tables)}")
        self._values = list(values) * (len(tables) if len(values) == 1 else 1)
        self._slots = {param.top_name: param.slot_num for param in inputs.sparse}
        self._bottoms = [table.bottom_names for table in tables]
        self._groups = [
            group
            for group in _that_share(self._bottoms)
            if any(self._values[table] != 0.0 for table in group)
        ]
        #: What is known of each input's slots: sorted keys a slot, or one array for all of them.
        self._known: dict[str, list[Keys]] = {}
        self._key: dict[str, int] = {}

    def put_into(self, tables: Sequence[_core.SessionTable]) -> None:
        """Add the rows of default vectors to tables whose own rows are loaded."""
        for group in self._groups:
            by_slot = {"slot" in tables[t].parts() for t in group}
            several = any(len(self._bottoms[t]) > 1 for t in group)
            if len(by_slot) > 1 or (True in by_slot and several):
                names = sorted(tables[t].name() for t in group)
                allowed = f"zeros for tables of shared inputs that have rows by slot: {names}"
                raise rejected(WHERE, self._values, allowed)
            slots = self._slots[self._bottoms[group[0]][0]] if True in by_slot else 1
            own = [_keys_by_slot(tables[t], slots) for t in group]
            known = [reduce(np.union1d, of_slot) for of_slot in zip(*own, strict=True)]
            key = _none_of(known)
            for table, has in zip(group, own, strict=True):
                lacks = [
                    np.append(np.setdiff1d(all_of, some, assume_unique=True), key)
                    for all_of, some in zip(known, has, strict=True)
                ]
                _add_rows(tables[table], lacks, self._values[table])
            for name in {name for table in group for name in self._bottoms[table]}:
                self._known[name], self._key[name] = known, key

    def known_only(self, name: str, csr: Csr) -> Csr:
        """Keys and row offsets of an input, unknown keys replaced."""
        if name not in self._known:
            return csr
        keys, offsets = csr
        known, found = self._known[name], np.asarray(keys).astype(np.int64)
        if len(known) == 1:
            replaced = np.where(_among(found, known[0]), found, self._key[name])
            return replaced, offsets
        starts = np.asarray(offsets).astype(np.int64)
        bucket = np.repeat(np.arange(len(starts) - 1), starts[1:] - starts[:-1])
        for slot, of_slot in enumerate(known):
            here = np.flatnonzero(bucket % len(known) == slot)
            unknown = here[~_among(found[here], of_slot)]
            found[unknown] = self._key[name]
        return found, offsets


def _that_share(bottoms: Sequence[Sequence[str]]) -> list[list[int]]:
    """Numbers of tables, those together that read an input in common, by others or directly."""
    groups: list[tuple[set[str], list[int]]] = []
    for table, names in enumerate(bottoms):
        joined = [group for group in groups if group[0] & set(names)]
        inputs, members = set(names), [table]
        for group in joined:
            groups.remove(group)
            inputs |= group[0]
            members = group[1] + members
        groups.append((inputs, members))
    return [members for _, members in groups]


def _keys_by_slot(table: _core.SessionTable, slots: int) -> list[Keys]:
    """The sorted keys of a table; of each slot, where slots tell rows apart."""
    order = table.order()
    keys = order.keys(0, len(order))
    if "slot" not in table.parts():
        return [np.sort(keys)]
    of_row = order.slot_ids(0, len(order))
    return [np.sort(keys[of_row == slot]) for slot in range(slots)]


def _none_of(known: Iterable[Keys]) -> int:
    """The smallest key, from 0 on, that is not among them."""
    every: Keys = reduce(np.union1d, known)
    small = every[(every >= 0) & (every < every.size)]
    return int(np.setdiff1d(np.arange(every.size + 1), small, assume_unique=True)[0])


def _among(keys: Keys, known: Keys) -> npt.NDArray[np.bool_]:
    """Whether each key is one of sorted ones."""
    if known.size == 0:
        return np.zeros(keys.shape, bool)
    places = np.minimum(np.searchsorted(known, keys), known.size - 1)
    found: npt.NDArray[np.bool_] = known[places] == keys
    return found


def _add_rows(table: _core.SessionTable, keys_by_slot: Sequence[Keys], value: float) -> None:
    keys = np.concatenate(list(keys_by_slot)).astype(np.int64)
    slots = np.repeat(np.arange(len(keys_by_slot)), [len(some) for some in keys_by_slot])
    parts = table.parts()
    table.load(
        {
            "keys": keys,
            "slot_ids": slots.astype(np.uint64) if "slot" in parts else None,
            "vectors": np.full((len(keys), *parts["vector"][1]), value, np.float32),
            "states": [],  # nothing trains
            "last_step": None,
        }
    )
