# SPDX-License-Identifier: Apache-2.0
"""What a model's dense network is predicted to take of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hugectr import _core
from hugectr.plan.dense_work import dense_seconds, work_of
from hugectr.plan.machine import Machine

if TYPE_CHECKING:
    from hugectr.model.graph import Graph


def network_seconds(graph: Graph, machine: Machine) -> float:
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
    return dense_seconds(work_of(ops), machine, graph.solver.enable_tf32_compute)
