# SPDX-License-Identifier: Apache-2.0
"""Tables and layers as lines of an HTML table, for everything that shows a model."""

from __future__ import annotations

from collections.abc import Sequence

from hugectr.spec.embedding import SparseEmbedding
from hugectr.spec.layers import DenseLayer

TABLE_HEAD = ["table", "input", "floats a row", "combiner"]
LAYER_HEAD = ["layer", "input", "output", "output shape"]


def table_cells(
    tables: Sequence[SparseEmbedding], rows: Sequence[int] | None = None
) -> list[list[object]]:
    """A line a table, with its rows in a last cell where they are known."""
    lines: list[list[object]] = [
        [
            table.sparse_embedding_name,
            ", ".join(table.bottom_names),
            table.embedding_vec_size,
            table.combiner,
        ]
        for table in tables
    ]
    for line, count in zip(lines, rows or (), strict=rows is not None):
        line.append(f"{count:,}")
    return lines


def layer_cells(layers: Sequence[DenseLayer]) -> list[list[object]]:
    """A line a layer, whose shapes are not known."""
    return [
        [layer.layer_type.name, ", ".join(layer.bottom_names), ", ".join(layer.top_names), ""]
        for layer in layers
    ]
