# SPDX-License-Identifier: Apache-2.0
"""A model as a notebook shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hugectr.base.html_table import html_table
from hugectr.spec.html_cells import LAYER_HEAD, TABLE_HEAD, layer_cells, table_cells

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
    head = TABLE_HEAD
    if compiled:
        head = [*TABLE_HEAD, "rows"]
        cells = table_cells(model.embeddings, [stats["rows"] for stats in model.table_stats()])
        layers: list[list[object]] = [
            [kind, ", ".join(bottoms), ", ".join(tops), ", ".join(map(_shape, shapes))]
            for kind, bottoms, tops, shapes in model.layer_summary()
        ]
    else:
        cells = table_cells(model.embeddings)
        layers = layer_cells(model.dense_layers)
    return html_table(f"{name}: {counts}", head, cells) + html_table("Layers", LAYER_HEAD, layers)


def _shape(shape: tuple[int | None, ...]) -> str:
    return " x ".join("batch" if size is None else str(size) for size in shape)
