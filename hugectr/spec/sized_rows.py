# SPDX-License-Identifier: Apache-2.0
"""Rows of tables whose budget is the sizes of their slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hugectr.spec.embedding import SparseEmbedding


def rows_of_slots(table: SparseEmbedding, kind: str | None = None, devices: int = 1) -> int:
    """The most that a device may hold where ``slot_size_array`` says it, whatever else is given.

    Parameters
    ----------
    table : SparseEmbedding
    kind : str, optional
        Its placement; None: that of its type.
    devices : int
        Of the job. By slot, one has those of every so manieth.

    Returns
    -------
    int
        0 where slots have no sizes, or are not what rows are told apart by.
    """
    if not table.is_localized:
        return 0
    own = devices if kind in (None, "by_slot") else 1
    return max(sum(table.slot_size_array[first::own]) for first in range(own))
