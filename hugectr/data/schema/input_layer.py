# SPDX-License-Identifier: Apache-2.0
"""What a model needs to know of encoded data: names, slots, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hugectr.data.schema.counts import Categories
from hugectr.data.schema.encode import ONE_HOT
from hugectr.data.schema.fields import CategoricalField, LabelField, ListField

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
    nnz_per_slot : int
        Most keys of a slot.
    is_fixed_length : bool
        Whether every slot has exactly so many.
    slot_sizes : tuple of (int or None)
        Keys that a slot can have: its known categories, missing, rare. None where fit() met more
        than it remembers.
    """

    name: str
    fields: tuple[str, ...]
    nnz_per_slot: int
    is_fixed_length: bool
    slot_sizes: tuple[int | None, ...]


@dataclass(frozen=True)
class InputLayer:
    """What a model needs to know of its data.

    Attributes
    ----------
    labels, dense : tuple of str
        What the columns of ``label`` and ``dense`` are.
    sparse : tuple of SparseInput
    """

    labels: tuple[str, ...]
    dense: tuple[str, ...]
    sparse: tuple[SparseInput, ...]


def _slot_size(schema: Schema, field: CategoricalField) -> int | None:
    state = schema.state[field.name]
    assert isinstance(state, Categories)
    return None if state.known is None else len(state.known) + 2


def input_layer(schema: Schema) -> InputLayer:
    """That of a fitted schema."""
    inputs = []
    one_hot = schema.categorical_fields
    if one_hot:
        names = tuple(field.name for field in one_hot)
        sizes = tuple(_slot_size(schema, field) for field in one_hot)
        inputs.append(SparseInput(ONE_HOT, names, 1, True, sizes))
    for listed in schema.of_kind(ListField):
        # A missing list has one key even where all others are empty.
        longest = max(schema.max_length(listed) or 1, 1)
        name, size = listed.name, _slot_size(schema, listed)
        inputs.append(SparseInput(name, (name,), longest, False, (size,)))
    labels = tuple(field.name for field in schema.of_kind(LabelField))
    return InputLayer(labels, tuple(schema.dense_names), tuple(inputs))
