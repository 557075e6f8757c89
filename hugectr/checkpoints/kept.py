# SPDX-License-Identifier: Apache-2.0
"""What a training has learnt, copied to host memory and given back."""

from __future__ import annotations

from dataclasses import replace

from hugectr.checkpoints.copies import copy_to_all
from hugectr.checkpoints.folder import Snapshot
from hugectr.checkpoints.native import take
from hugectr.checkpoints.restore import set_rest
from hugectr.checkpoints.restore_plan import plan_of
from hugectr.checkpoints.rows import bag_of
from hugectr.checkpoints.state import TrainingState
from hugectr.processes.agreement import LONG, jointly


def copy_learnt(state: TrainingState) -> Snapshot:
    """Copy weights, running statistics, rows and optimizer states: this process's. Collective."""
    return jointly(state.group, lambda: take(state), LONG)


def give_learnt(state: TrainingState, kept: Snapshot) -> None:
    """Give back what ``copy_learnt`` copied, and leave alone how far the training is. Collective.

    The step count, the schedule, the loss scale, what is frozen and the place in the data stay.

    An interrupt is raised when all is given back; in a job of several processes at once.

    Raises
    ------
    OutOfMemory
        When the rows do not fit any more; the state can not be used then, as it holds a part.
    """
    is_whole = False
    try:
        try:
            _give(state, kept)
        except KeyboardInterrupt:
            if state.group.size == 1:
                _give(state, kept)
                is_whole = True
            raise
        is_whole = True
    except BaseException as error:
        if not is_whole:
            state.unusable = (
                "the model holds a part of the weights and rows that it was to get back "
                f"({type(error).__name__}: {error}): resume() a checkpoint, or build the model anew"
            )
        raise


def _give(state: TrainingState, kept: Snapshot) -> None:
    session = state.session

    def work() -> None:
        for own, table in zip(session.tables(), kept.tables, strict=True):
            own.reset()
            if table.rows:
                own.load(bag_of(table.read(0, table.rows)))
        plan = replace(
            plan_of(kept.fields, kept.dense),
            step=session.step(),
            learning_rate=None,
            loss_scaling=None,
            frozen=sorted(state.frozen()),
            frozen_steps=None,
            fit_epoch=state.fit_epoch,
        )
        set_rest(state, plan)

    jointly(state.group, work, LONG)
    for table in session.tables():
        copy_to_all(table, state.group)
