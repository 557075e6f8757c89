# SPDX-License-Identifier: Apache-2.0
"""What a model's dense network is predicted to take of a step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hugectr import _core
from hugectr.plan.dense_work import DenseTime, dense_time, work_of
from hugectr.plan.machine import Machine

if TYPE_CHECKING:
    from hugectr.model.graph import Graph


def network_time(graph: Graph, machine: Machine) -> DenseTime:
    """Forward, backward and optimizer on one device, wherever tables lie.

    Parameters
    ----------
    graph : Graph
        With an Input.
    machine : Machine
    """
    assert graph.input is not None, "layers come after it"
    reader = graph.reader_params.to_spec(graph.input)
    nothing = [None] * len(graph.embeddings)
    ops = _core.footprint(graph.solver.to_spec(), reader, graph.to_spec(), nothing)[2]
    time = dense_time(work_of(ops), machine, graph.solver.enable_tf32_compute, _apart(graph))
    if graph.solver.compute_dtype == "float16":  # gradients wait to be known to be finite
        return replace(time, behind_gradients=0.0)
    return time


def _apart(graph: Graph) -> set[str]:
    """What layers make that read no vectors."""
    assert graph.input is not None, "layers come after it"
    made = {graph.input.dense_name}
    for layer in graph.dense_layers:
        if all(name in made for name in layer.bottom_names):
            made.update(layer.top_names)
    return made
