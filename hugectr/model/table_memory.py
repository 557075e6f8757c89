# SPDX-License-Identifier: Apache-2.0
"""The memory that each table of a model has for its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hugectr.plan.disk_room import DiskBudget
from hugectr.plan.table_load import column_devices
from hugectr.spec.memory import each_of
from hugectr.spec.optimizer import state_widths
from hugectr.spec.shared_memory import Claim, shared
from hugectr.spec.sized_rows import rows_of_slots

if TYPE_CHECKING:
    from hugectr._core import EmbeddingSpec
    from hugectr.model.graph import Graph
    from hugectr.spec.embedding import SparseEmbedding

#: Bytes that a place of a row takes beside vector and states: on a device, and at most on the host.
_BESIDE_PLACE, _BESIDE_ROW = 8, 32


def memory_of_tables(graph: Graph, tables: Sequence[EmbeddingSpec]) -> list[EmbeddingSpec]:
    """Of each table its own Memory, or its share of the solver's, as one device that has rows of it
    takes them; empty without one.

    Parameters
    ----------
    graph : Graph
    tables : sequence of dict
        The tables without it: where they lie, and how many rows a device may hold.
    """
    return [
        each_of(budget, _holders(graph, embedding, table))
        for budget, embedding, table in zip(
            budgets_of_tables(graph, tables), graph.embeddings, tables, strict=True
        )
    ]


def budgets_of_tables(graph: Graph, tables: Sequence[EmbeddingSpec]) -> list[EmbeddingSpec]:
    """The same with host memory and disk of a process, whichever of its devices have rows.

    Parameters
    ----------
    graph : Graph
    tables : sequence of dict
    """
    solver = graph.solver
    device, ids = solver.resolved_device(), solver.vvgpu
    specs: list[EmbeddingSpec] = [
        table.memory.to_spec(device, ids) if table.memory is not None else {}
        for table in graph.embeddings
    ]
    if solver.memory is None:
        return specs
    sharing = [i for i, table in enumerate(graph.embeddings) if table.memory is None]
    claims = [_claim(graph, graph.embeddings[i], tables[i]) for i in sharing]
    for i, spec in zip(sharing, shared(solver.memory.to_spec(device, ids), claims), strict=True):
        specs[i] = spec
    return specs


def disks_of(graph: Graph, tables: Sequence[EmbeddingSpec]) -> list[DiskBudget]:
    """What rows of a process may take on disks.

    Parameters
    ----------
    graph : Graph
    tables : sequence of dict
    """
    return [
        DiskBudget(table["name"], folder, budget["memory_disk"])
        for table, budget in zip(tables, budgets_of_tables(graph, tables), strict=True)
        if (folder := budget.get("memory_disk_folder")) is not None
    ]


def _holders(graph: Graph, embedding: SparseEmbedding, table: EmbeddingSpec) -> int:
    """Devices of a process that have rows of a table, at most."""
    near = max(len(process) for process in graph.solver.vvgpu)
    kind = table["placement"] or ("by_slot" if embedding.is_localized else "by_key")
    if kind == "one_device":
        return 1
    if kind == "by_slot":
        return min(near, graph.slots_of(embedding))
    if kind == "by_column":
        return column_devices(table["embedding_vec_size"], near - table["placement_device"] % near)
    return near


def _claim(graph: Graph, table: SparseEmbedding, spec: EmbeddingSpec) -> Claim:
    """By the rows that a sample needs, which is also what places are needed for at least."""
    assert graph.input is not None, "tables come after it"
    params = [graph.input.sparse_param(name) for name in table.bottom_names]
    keys = sum(sum(param.nnz_per_slot) for param in params if param is not None)
    width = table.embedding_vec_size
    optimizer = table.own_optimizer(graph.opt_params).optimizer_type
    row = 4 * (width + sum(state_widths(optimizer, width)))
    megabytes = spec["workspace_size_per_gpu_in_mb"]
    rows = megabytes * 1024**2 // (4 * width) or spec["max_vocabulary_size_per_gpu"]
    rows = rows_of_slots(table, spec["placement"], graph.solver.num_devices) or rows
    most = rows * (row + _BESIDE_ROW) if rows else None
    return Claim(max(1, keys) * (row + _BESIDE_PLACE), most, _holders(graph, table, spec))
