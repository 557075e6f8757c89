# SPDX-License-Identifier: Apache-2.0
"""A model as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hugectr.base.html_table import html_table

if TYPE_CHECKING:
    from hugectr.model.model import Model


def model_html(model: Model, compiled: bool) -> str:
    """Its tables and layers; compiled, also sizes and rows.

    Parameters
    ----------
    model : Model
    compiled : bool
        Whether there is a session to ask.
    """
    name = model.solver.model_name or "Model"
    counts = f"{len(model.embeddings)} tables, {len(model.dense_layers)} layers"
    if compiled:
        counts += f", {model.get_params_num():,} parameters, step {model.session.step():,}"
    else:
        counts += ", not compiled yet"
    tables = [
        [
            table.sparse_embedding_name,
            ", ".join(table.bottom_names),
            table.embedding_vec_size,
            table.combiner,
        ]
        for table in model.embeddings
    ]
    head = ["table", "input", "floats a row", "combiner"]
    if compiled:
        head.append("rows")
        for row, stats in zip(tables, model.table_stats(), strict=True):
            row.append(f"{stats['rows']:,}")
        layers = [
            [kind, ", ".join(bottoms), ", ".join(tops), ", ".join(map(_shape, shapes))]
            for kind, bottoms, tops, shapes in model.layer_summary()
        ]
    else:
        layers = [
            [layer.layer_type.name, ", ".join(layer.bottom_names), ", ".join(layer.top_names), ""]
            for layer in model.dense_layers
        ]
    parts = [html_table(f"{name}: {counts}", head, tables)]
    parts.append(html_table("Layers", ["layer", "input", "output", "output shape"], layers))
    return "".join(parts)


def _shape(shape: tuple[int | None, ...]) -> str:
    return " x ".join("batch" if size is None else str(size) for size in shape)
