# SPDX-License-Identifier: Apache-2.0
"""Where a table may not be placed, and why: what compile() refuses, for plans before it."""

from __future__ import annotations

from hugectr.base.errors import InvalidArgument
from hugectr.plan.table_load import KINDS
from hugectr.spec.embedding import SparseEmbedding

_ROWS_GO = (
    "has rows that come and go (max_rows, evict, ttl, admit_after), which are on one device each: "
    "place it by key, by slot or on one device"
)


def refused_kinds(
    table: SparseEmbedding, slots: int, one_number_a_row: bool, devices: int
) -> dict[str, str]:
    """Placements that a table may not have, and what of it they are not for.

    Parameters
    ----------
    table : SparseEmbedding
    slots : int
        Of a sample.
    one_number_a_row : bool
        Whether its optimizer has such a state.
    devices : int
    """
    found = {}
    if table.combiner == "concat":
        found["by_slot"] = "is not pooled (combiner concat): place it by key"
    elif not table.is_localized and slots > 1:
        found["by_slot"] = f"has a key as one row in all of its {slots} slots: place it by key"
    if one_number_a_row and devices > 1:
        found["by_column"] = (
            "has an optimizer with one number a row over all columns: place it by key, or take "
            "AdaGrad instead of RowWiseAdaGrad"
        )
    if table.is_localized:
        found["hybrid"] = (
            "tells rows apart by slot, and its frequent keys have none: place it otherwise, or let "
            "slots share rows"
        )
    if table.rows_go:
        found |= dict.fromkeys(("replicated", "by_column", "hybrid"), _ROWS_GO)
    return found


def allowed_kinds(
    table: SparseEmbedding, slots: int, one_number_a_row: bool, devices: int
) -> tuple[str, ...]:
    """Placements that a table may have.

    Parameters
    ----------
    table, slots, one_number_a_row, devices
        As of ``refused_kinds``.

    Raises
    ------
    InvalidArgument
        When the placement that it has is none of them.
    """
    refused = refused_kinds(table, slots, one_number_a_row, devices)
    own = table.placement.kind if table.placement is not None else ""
    if own in refused:
        name = table.sparse_embedding_name
        raise InvalidArgument(f"embedding {name!r} can not be placed {own}: it {refused[own]}")
    return tuple(kind for kind in KINDS if kind not in refused)
