# SPDX-License-Identifier: Apache-2.0
"""A checkpoint back into a model: all of it, or the model as it was.

What can be known before is known before: manifests and file sizes of the whole chain, whether it is
this model, the dense values with their checksums, and whether the data has the place to go on at.
Only then rows are replaced, table by table, as they are read. When they turn out to be damaged, the
model gets back a copy of the rows it had, if these were few; one that was just built has none. Else
it refuses to be used until a resume succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hugectr.base import log
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints import schema_files
from hugectr.checkpoints.chunks import Array, read_array
from hugectr.checkpoints.copies import copy_to_all
from hugectr.checkpoints.frozen_steps import set_frozen_steps
from hugectr.checkpoints.load import TableReader, load_table, take_gone
from hugectr.checkpoints.manifest import Manifest
from hugectr.checkpoints.merge import Link, links_of
from hugectr.checkpoints.native import take
from hugectr.checkpoints.restore_partial import partial_plan
from hugectr.checkpoints.restore_plan import Plan, plan_of, strict_plan, weights_plan
from hugectr.checkpoints.rows import RowSource, bag_of, bytes_a_row
from hugectr.checkpoints.state import TrainingState
from hugectr.processes.agreement import LONG, from_root, jointly, together
from hugectr.processes.group import ProcessGroup

if TYPE_CHECKING:
    from hugectr._core import ReadPosition

#: Bytes of a model's rows, in each process, that are copied before a checkpoint replaces them.
UNDONE = 256 << 20


def give(state: TrainingState, path: Path, strict: bool = True) -> Plan:
    """Bring a model to the state of a checkpoint. Collective.

    Parameters
    ----------
    state : TrainingState
        Of the model.
    path : Path
        Of the checkpoint.
    strict : bool
        Refuse a checkpoint of another model; else take by name and shape what fits.

    Returns
    -------
    Plan
        What was taken, and what was left.

    Raises
    ------
    InvalidArgument
        When the checkpoint is of another model or other data; the model is as it was.
    DataError, OutOfMemory
        When files are missing or damaged, or rows do not fit. The model is as it was; one that had
        more than ``UNDONE`` bytes of rows refuses to be used when rows were being replaced.
    """
    plan, manifest = _give(state, path, strict_plan if strict else partial_plan, strict)
    # What is not all of a checkpoint goes on as a run of its own.
    if not plan.left and manifest.get("run") is not None:
        state.run_id = manifest["run"]
    return plan


def give_weights(state: TrainingState, path: Path) -> Plan:
    """Give a model the dense weights, running statistics and rows of a checkpoint. Collective.

    What training goes on from stays the model's own: step, learning rate, frozen parts, the place
    in the data. Optimizer states, which are of other weights, begin anew; those of the checkpoint
    are not read. Rows are checked where the files are mapped.

    Raises
    ------
    InvalidArgument, DataError, OutOfMemory
        As ``give``.
    """
    return _give(state, path, weights_plan, True)[0]


PlanMaker = Callable[["TrainingState", "Sequence[Link]", Mapping[str, Array]], Plan]


def _give(state: TrainingState, path: Path, make: PlanMaker, strict: bool) -> tuple[Plan, Manifest]:
    group = state.group
    links = from_root(group, lambda: links_of(path))
    place, manifest = links[-1]
    with_states = make is not weights_plan
    # A model that an earlier call left unusable can be used by this one.
    unusable, state.unusable = state.unusable, ""
    try:
        dense = from_root(group, lambda: _read_dense(place, manifest, with_states))
        schema = from_root(group, lambda: schema_files.read(place, manifest))
        plan = replace(jointly(group, lambda: make(state, links, dense)), schema=schema)
        undo = _copy(state, group)
        start = state.session.reader.position() if _reads_training_data(state) else None
        replacing = False
        try:
            plan = _moved(state, plan, group, strict)
            replacing = True
            _fill(state, plan, links, group, mapped=not with_states)
        except BaseException as error:
            if not replacing:
                _move_back(state, start)
                raise
            before, unusable = unusable, _half_resumed(place, error)
            if undo is not None and (group.size == 1 or isinstance(error, Exception)):
                _give_back(state, undo, group)
                unusable = before
            raise
        unusable = ""
    finally:
        state.unusable = unusable
    return plan, manifest


def _read_dense(path: Path, manifest: Manifest, with_states: bool) -> dict[str, Array]:
    names = ["dense.weights", *(["dense.states"] if with_states else [])]
    for index in range(len(manifest["statistics"])):
        names += [f"statistics{index}.mean", f"statistics{index}.var"]
    return {name: read_array(path / name, manifest["files"][name]) for name in names}


def _half_resumed(place: Path, error: BaseException) -> str:
    return (
        f"the model holds a part of {place}, since resume() failed half way "
        f"({type(error).__name__}: {error}): resume() an intact checkpoint, or build the model anew"
    )


Undo = tuple[Plan, list[RowSource]]


def _copy(state: TrainingState, group: ProcessGroup) -> Undo | None:
    """What the model is, unless its rows are too many or damaged; all processes decide alike."""
    session = state.session

    def bytes_of_rows() -> int:
        return sum(table.stats()["rows"] * bytes_a_row(table.parts()) for table in session.tables())

    if max(together(group, bytes_of_rows)) > UNDONE:
        return None
    try:
        snapshot = jointly(group, lambda: take(state), LONG)
    except DataError as error:  # rows on a disk: whoever resumes wants to be rid of them
        log.warning(f"rows that are damaged can not be given back if this resume fails: {error}")
        return None
    return plan_of(snapshot.fields, snapshot.dense), snapshot.tables


def _give_back(state: TrainingState, undo: Undo, group: ProcessGroup) -> None:
    plan, tables = undo
    session = state.session

    def work() -> None:
        for own, table in zip(session.tables(), tables, strict=True):
            own.reset()
            if table.rows:
                own.load(bag_of(table.read(0, table.rows)))
        set_rest(state, plan)
        if plan.data_position is not None and _reads_training_data(state):
            session.reader.set_position(plan.data_position)

    jointly(group, work, LONG)
    for table in session.tables():
        copy_to_all(table, group)


def _reads_training_data(state: TrainingState) -> bool:
    return state.session.has_reader() and state.session.trains()


def _moved(state: TrainingState, plan: Plan, group: ProcessGroup, strict: bool) -> Plan:
    """Go on reading where the checkpoint does; it is the last thing that may be refused."""
    position = plan.data_position
    if position is None or not _reads_training_data(state):
        return plan
    reader = state.session.reader
    start = reader.position()
    try:
        jointly(group, lambda: reader.set_position(position))
    except InvalidArgument as error:
        if strict:
            raise
        _move_back(state, start)
        return replace(plan, data_position=None, left=[*plan.left, f"data position: {error}"])
    return plan


def _move_back(state: TrainingState, start: ReadPosition | None) -> None:
    """Read on from the place of before, if another one is read from.

    It was refused by another process, whose data is its own; or interrupted: an interrupt that came
    while the reader moved is raised when it has.
    """
    if start is not None and state.session.reader.position() != start:
        state.session.reader.set_position(start)


def _fill(
    state: TrainingState, plan: Plan, links: list[Link], group: ProcessGroup, mapped: bool
) -> None:
    """Replace what the model has. What does not fit now is a fault of the files."""
    session = state.session
    session.set_step(plan.step)  # rows without scores count as used now
    try:
        for table in plan.tables:
            own = session.table(table.own)
            jointly(group, own.reset)
            for place, link in links:
                take_gone(own, place, link, table.saved, group)
                reader = TableReader(place, link, table.saved, mapped)
                reader.parts = {part: reader.parts[part] for part in table.parts}
                load_table(own, reader, group)
        jointly(group, lambda: set_rest(state, plan))
    except InvalidArgument as error:
        raise DataError(f"{links[-1][0]} does not fit the model: {error}") from error


def set_rest(state: TrainingState, plan: Plan) -> None:
    """Give the model all of a plan but rows and the place in the data."""
    session = state.session
    network = session.network
    network.set_dense_weights(plan.weights)
    if session.trains() and plan.states is not None:
        network.set_dense_optimizer_states(plan.states)
    elif session.trains():
        network.reset_dense_optimizer_states()
    if plan.statistics:
        network.set_non_trainables(plan.statistics)
    session.set_step(plan.step)
    # What the checkpoint does not know (None) stays as the model has it.
    if plan.learning_rate is not None:
        session.set_learning_rate_state(plan.learning_rate)
    if plan.loss_scaling is not None:
        network.set_loss_scaling_state(plan.loss_scaling)
    state.set_frozen(set(plan.frozen))
    if plan.frozen_steps is not None:
        set_frozen_steps(state, plan.frozen_steps)
    state.fit_epoch = plan.fit_epoch
