# SPDX-License-Identifier: Apache-2.0
"""What a call is told of categories that fit() did not know: once, after all of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hugectr.base import log
from hugectr.data.schema.keys import FieldKeys, Keys, values_of_type

#: Values of a column in a piece of data below which it says nothing that none of them is known.
_LEAST = 100
#: Characters of a value that are shown.
_SHOWN = 40


@dataclass
class _Column:
    """What has been seen of one column.

    Attributes
    ----------
    there : int
        Values that were not missing; more than unseen ones as soon as one is known.
    unseen : int
        Those of them that share the row of what is rare.
    numbers : str
        The type of numbers that came where values are compared as text.
    example : str
        One of these that is unseen.
    """

    there: int = 0
    unseen: int = 0
    numbers: str = ""
    example: str = ""


def _any_known(keys: Keys, own: FieldKeys) -> bool:
    return bool(((keys != own.rare) & (keys != own.missing)).any())


class Unseen:
    """Counts, of each column of categories, those that a call has and fit() did not know."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def add(
        self,
        name: str,
        values: pa.Array,
        keys: Keys,
        own: FieldKeys,
        known: Keys | None,
        compared: str,
    ) -> None:
        """The next values of a column.

        Parameters
        ----------
        name : str
        values : pyarrow.Array
        keys : ndarray of int64, (values,)
            Theirs.
        own, known
            As of ``category_keys``; without known keys nothing can be said.
        compared : {"text", "numbers"}
            What values are compared as.
        """
        if known is None or not len(known):
            return
        as_numbers = compared == "text" and values_of_type(values.type) == "numbers"
        if not as_numbers and len(keys) < _LEAST:
            return
        found = self._columns.setdefault(name, _Column())
        if not as_numbers and (found.unseen < found.there or _any_known(keys[:_LEAST], own)):
            found.there += 1  # one that is known is enough: nothing will be said
            return
        unseen = keys == own.rare
        many = int(np.count_nonzero(unseen))
        found.unseen += many
        found.there += len(keys) - int(np.count_nonzero(keys == own.missing))
        if many and as_numbers:
            kind = values.type
            found.numbers = str(kind.value_type if pa.types.is_dictionary(kind) else kind)
            found.example = repr(values[int(unseen.argmax())].as_py())[:_SHOWN]

    def tell(self) -> None:
        """Warn of what looks like a slip."""
        for name, found in self._columns.items():
            if found.numbers:
                log.warning(
                    f"column {name!r} is compared as text, as fit() found it, and has numbers "
                    f"({found.numbers}) now: {found.unseen} of {found.there} values are none that "
                    f"it knew, such as {found.example}. Text such as '007' is no number 7: read "
                    "the column as text (dtype=str), as it was"
                )
        nothing = [
            name
            for name, found in self._columns.items()
            if not found.numbers and found.unseen == found.there >= _LEAST
        ]
        if nothing:
            log.warning(
                f"fit() knew no value of column {', '.join(map(repr, nothing))}, of "
                f"{self._columns[nothing[0]].there}: all are read as rare ones. Are they written "
                "as they were? Or has nearly every row a value of its own, as ids and sentences "
                "are: of such a column little is learnt"
            )
