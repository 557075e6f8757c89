# SPDX-License-Identifier: Apache-2.0
"""Processes of a job that are about to build one model, and whether it is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hugectr.processes.group import ProcessGroup
from hugectr.processes.sameness import require_same

SolverSpec = TypeVar("SolverSpec", bound=Mapping[str, Any])
ModelSpec = TypeVar("ModelSpec", bound=Mapping[str, Any])

#: Settings that each process may have of its own: how it computes, and where its disk is.
_OF_A_PROCESS = ("model_name", "use_cuda_graph", "use_algorithm_search")
_OF_A_MACHINE = "memory_"


def same_model(
    group: ProcessGroup, solver: SolverSpec, model: ModelSpec
) -> tuple[SolverSpec, ModelSpec]:
    """What is given, when all processes have the same. Collective.

    Tables that lie elsewhere, another rate or another layer on one process would make its steps
    expect other messages, or train another model without a word.

    Parameters
    ----------
    group : ProcessGroup
    solver, model : mapping
        As the core takes them.

    Raises
    ------
    InvalidArgument
        On all processes: names the first setting that is not the same.
    """
    tables = [
        {name: value for name, value in table.items() if not name.startswith(_OF_A_MACHINE)}
        for table in model["embeddings"]
    ]
    shared = {name: value for name, value in solver.items() if name not in _OF_A_PROCESS}
    require_same(group, "Model.compile", {"solver": shared, **model, "embeddings": tables})
    return solver, model
