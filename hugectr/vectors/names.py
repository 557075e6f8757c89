# SPDX-License-Identifier: Apache-2.0
"""Which columns a table has, and which categories its keys are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument, did_you_mean, rejected

if TYPE_CHECKING:
    from hugectr.data.schema.schema import Schema

Keys = npt.NDArray[np.int64]
Slots = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class TableNames:
    """The columns of a schema that one table is fed by.

    Attributes
    ----------
    schema : Schema
    columns : tuple of str
        One a slot of the table's input; a column may have several keys a sample.
    """

    schema: Schema
    columns: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema | None, sparse_inputs: Sequence[str]) -> TableNames | None:
        """Those of the table that reads these inputs; None where the schema lacks one of them."""
        if schema is None or not schema.fitted:
            return None
        fields = {described.name: described.fields for described in schema.input_layer().sparse}
        if any(name not in fields for name in sparse_inputs):
            return None
        return cls(schema, tuple(field for name in sparse_inputs for field in fields[name]))

    def slot_of(self, where: str, column: str) -> int:
        """The slot of a column."""
        if column not in self.columns:
            near = did_you_mean(str(column), self.columns)
            raise rejected(where, column, f"one of {list(self.columns)}{near}")
        return self.columns.index(column)

    def keys_of(self, column: str, categories: Sequence[Any]) -> Keys:
        """Keys of categories, as they are encoded."""
        return np.array([self.schema.key_of(column, value) for value in categories], np.int64)

    def categories_of(
        self, keys: Keys, slots: Slots | None
    ) -> tuple[list[str | None], list[str | None]]:
        """Column and category of each key; None where no vocabulary has it.

        Missing and rare categories have keys of their own, which no vocabulary names.
        """
        columns: list[str | None] = [None] * len(keys)
        words: list[str | None] = [None] * len(keys)
        # Of columns that share their categories the first one is named: it is written last.
        for slot, column in reversed(list(enumerate(self.columns))):
            state: Any = self.schema.state[column]  # Categories, of a field that is an input
            if state.known is None or state.words is None or not len(state.known):
                continue
            places = np.minimum(np.searchsorted(state.known, keys), len(state.known) - 1)
            here = state.known[places] == keys
            if slots is not None:
                here &= slots == slot
            for row in np.flatnonzero(here):
                columns[row], words[row] = column, state.words[places[row]]
        return columns, words


def need_names(names: TableNames | None, where: str) -> TableNames:
    """The names, where categories are to be translated."""
    if names is None:
        raise InvalidArgument(
            f"{where}: column is given, and the model has no fitted schema whose input this table "
            "reads; give keys, or set Model.schema"
        )
    return names
