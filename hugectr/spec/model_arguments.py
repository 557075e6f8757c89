# SPDX-License-Identifier: Apache-2.0
"""What ``Model`` is called with, now and in v3.0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hugectr.base.errors import rejected
from hugectr.spec.optimizer import OptParamsPy
from hugectr.spec.reader import DataReaderParams
from hugectr.spec.session_solver import SessionSolver
from hugectr.spec.solver import Solver


@dataclass(frozen=True)
class ModelArguments:
    """Settings of a model.

    Attributes
    ----------
    solver : Solver
        With the schedule of the optimizer, where that has one.
    reader : DataReaderParams or None
        None: the Input brings it (v3.0).
    optimizer : OptParamsPy
    fit : mapping of str to object
        Arguments of ``fit`` that the settings hold (v3.0: those of ``solver_parser_helper``).
    """

    solver: Solver
    reader: DataReaderParams | None
    optimizer: OptParamsPy
    fit: Mapping[str, Any] = field(default_factory=dict)


def model_arguments(solver: Any, reader: Any, optimizer: Any) -> ModelArguments:
    """Check the arguments of ``Model(solver, reader, optimizer)``, or ``(solver, optimizer)``.

    Raises
    ------
    InvalidArgument
        Names the argument, and the call that makes what it has to be.
    """
    if isinstance(reader, OptParamsPy) and optimizer is None:
        reader, optimizer = None, reader
    elif not isinstance(reader, DataReaderParams):
        raise rejected("Model: reader_params", reader, "what hugectr.DataReaderParams returns")
    if not isinstance(optimizer, OptParamsPy):
        raise rejected("Model: opt_params", optimizer, "what hugectr.CreateOptimizer returns")
    if isinstance(solver, SessionSolver):
        whole = solver.with_run_length()
        return ModelArguments(
            whole.to_solver(optimizer.schedule), reader, optimizer, _of_fit(whole)
        )
    if not isinstance(solver, Solver):
        raise rejected("Model: solver", solver, "what hugectr.CreateSolver returns")
    if optimizer.schedule is not None:
        schedule = optimizer.schedule
        solver = replace(
            solver,
            lr=schedule.base_lr,
            warmup_steps=schedule.warmup_steps,
            decay_start=schedule.decay_start,
            decay_steps=schedule.decay_steps,
            decay_power=schedule.decay_power,
            end_lr=schedule.end_lr,
        )
    return ModelArguments(solver, reader, optimizer)


def _of_fit(solver: SessionSolver) -> dict[str, Any]:
    return {
        "num_epochs": solver.num_epochs,
        "max_iter": solver.max_iter,
        "display": solver.display,
        "eval_interval": solver.eval_interval,
        "snapshot": solver.snapshot,
        "snapshot_prefix": solver.snapshot_prefix,
    }
