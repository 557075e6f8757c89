# SPDX-License-Identifier: Apache-2.0
"""Processes of a job that are about to build one model, or train it, and whether it is one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hugectr.callbacks.callback import Callback
from hugectr.model.fit_settings import FitSettings
from hugectr.plan.placements import PlacementPlan
from hugectr.processes.group import ProcessGroup
from hugectr.processes.sameness import require_same, same_call
from hugectr.spec.solver import Solver

SolverSpec = TypeVar("SolverSpec", bound=Mapping[str, Any])
ModelSpec = TypeVar("ModelSpec", bound=Mapping[str, Any])

#: Settings that each process may have of its own: how it computes, where its disk is, and a seed,
#: of which that of process 0 counts.
_OF_A_PROCESS = ("model_name", "use_cuda_graph", "use_algorithm_search", "seed")
#: Settings of a fit that say what this process prints.
_PRINTED = ("progress", "show_pipeline", "verbose")
#: What ``Model.fit`` calls settings of checkpoints.
_OF_CHECKPOINTS = {
    "folder": "checkpoint_dir",
    "interval": "checkpoint_interval",
    "background": "background_save",
    "deltas": "checkpoint_deltas",
}
_OF_A_MACHINE = "memory_"
#: Variables of the environment that decide what devices say to each other, and in which order.
_VARIABLES = (
    "HUGECTR_BEHIND_BYTES",
    "HUGECTR_BUCKET_BYTES",
    "HUGECTR_FORWARD_BESIDE",
    "HUGECTR_FUSE",
    "HUGECTR_GROUP",
    "HUGECTR_UPDATE_BESIDE",
)


def same_plan(group: ProcessGroup, solver: Solver) -> None:
    """An error where processes go by other plans, whose making is a collective. Collective.

    Parameters
    ----------
    group : ProcessGroup
    solver : Solver

    Raises
    ------
    InvalidArgument
        On all processes.
    """
    plan = solver.plan
    asked = "one of its own" if isinstance(plan, PlacementPlan) else plan and str(plan)
    require_same(group, "Model.compile", {"solver": {"plan": asked}})


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
    of_all = {"solver": shared, **model, "embeddings": tables}
    of_all["environment"] = {name: os.environ.get(name) or None for name in _VARIABLES}
    require_same(group, "Model.compile", of_all)
    return solver, model


def same_fit(group: ProcessGroup, settings: FitSettings, callbacks: Sequence[Callback]) -> None:
    """An error where processes begin unlike fits, which would wait for one another. Collective.

    Parameters
    ----------
    group : ProcessGroup
    settings : FitSettings
    callbacks : sequence of Callback
        Their classes are compared.

    Raises
    ------
    InvalidArgument
        On all processes: names the first argument that is not the same.
    """
    if group.size == 1:
        return
    asked = dataclasses.asdict(settings)
    for name, value in asked.pop("checkpoints").items():
        asked[_OF_CHECKPOINTS.get(name, name)] = str(value) if name == "folder" else value
    asked = {name: value for name, value in asked.items() if name not in _PRINTED}
    same_call(group, "Model.fit", **asked, callbacks=[type(one).__name__ for one in callbacks])
