# SPDX-License-Identifier: Apache-2.0
"""What a model needs to know of encoded data: names, slots, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hugectr.data.schema.counts import Categories
from hugectr.data.schema.encode import ONE_HOT
from hugectr.data.schema.fields import (
    CategoricalField,
    GroupField,
    LabelField,
    ListField,
    SequenceField,
)

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema


@dataclass(frozen=True)
class SparseInput:
    """One sparse input of a model: what its DataReaderSparseParam takes.

    Attributes
    ----------
    name : str
        In ``EncodedData.sparse``.
    fields : tuple of str
        The columns, one a slot.
    nnz_per_slot : int or tuple of int
        Most keys of a slot; of several ones that differ, of each.
    is_fixed_length : bool
        Whether every slot has exactly so many.
    slot_sizes : tuple of (int or None)
        Keys that a slot can have: its known categories, missing, rare. None where fit() met more
        than it remembers.
    histories : tuple of str
        Those of the fields whose keys are in an order, oldest first. In an input of several slots
        the first one is their target.
    """

    name: str
    fields: tuple[str, ...]
    nnz_per_slot: int | tuple[int, ...]
    is_fixed_length: bool
    slot_sizes: tuple[int | None, ...]
    histories: tuple[str, ...] = ()

    @property
    def lengths(self) -> tuple[int, ...]:
        """Most keys of each slot."""
        most = self.nnz_per_slot
        return (most,) * len(self.fields) if isinstance(most, int) else most


@dataclass(frozen=True)
class InputLayer:
    """What a model needs to know of its data.

    Attributes
    ----------
    labels, dense : tuple of str
        What the columns of ``label`` and ``dense`` are.
    sparse : tuple of SparseInput
    group : str or None
        The column whose values are groups.
    """

    labels: tuple[str, ...]
    dense: tuple[str, ...]
    sparse: tuple[SparseInput, ...]
    group: str | None = None


def _slot_size(schema: Schema, field: CategoricalField) -> int | None:
    state = schema.state[field.name]
    assert isinstance(state, Categories)
    return None if state.known is None else len(state.known) + 2


def _longest(schema: Schema, field: ListField) -> int:
    # A missing list has one key even where all others are empty.
    return max(schema.max_length(field) or 1, 1)


def input_layer(schema: Schema) -> InputLayer:
    """That of a fitted schema."""
    inputs: list[SparseInput] = []
    order: tuple[str, ...]
    one_hot = schema.one_hot_fields
    if one_hot:
        names = tuple(field.name for field in one_hot)
        sizes = tuple(_slot_size(schema, field) for field in one_hot)
        inputs.append(SparseInput(ONE_HOT, names, 1, True, sizes))
    for listed in schema.of_kind(ListField):
        if listed.owner != listed.name:
            continue
        name, size = listed.name, _slot_size(schema, listed)
        order = (name,) if isinstance(listed, SequenceField) else ()
        longest = _longest(schema, listed)
        inputs.append(SparseInput(name, (name,), longest, False, (size,), order))
    for target, histories in schema.shared.items():
        order = tuple(history.name for history in histories)
        lengths = (1, *(_longest(schema, history) for history in histories))
        sizes = (_slot_size(schema, target),) * len(lengths)
        names = (target.name, *order)
        inputs.append(SparseInput(target.name, names, lengths, False, sizes, order))
    labels = tuple(field.name for field in schema.of_kind(LabelField))
    group = next((field.name for field in schema.of_kind(GroupField)), None)
    return InputLayer(labels, tuple(schema.dense_names), tuple(inputs), group)
