# SPDX-License-Identifier: Apache-2.0
"""The native checkpoint: everything that training goes on from, whole or not at all.

A checkpoint is a folder ``step-<number>`` with ``manifest.json`` and the files it lists: dense
weights and states, running statistics, and for every table keys, vectors, and optimizer states by
key (so it loads on any number of devices and processes). It is written to a hidden folder, synced,
and renamed: after a crash the last published checkpoint is still the last.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hugectr.base import log
from hugectr.base.errors import CommError, InvalidArgument
from hugectr.base.threads import Beside
from hugectr.checkpoints.delta import Base, chain_fields
from hugectr.checkpoints.folder import Snapshot, held, write
from hugectr.checkpoints.frozen_steps import frozen_steps_of
from hugectr.checkpoints.manifest import latest as _latest
from hugectr.checkpoints.ownership import Writer, check_owner
from hugectr.checkpoints.rows import HeldRows, ModelRows
from hugectr.checkpoints.state import TrainingState
from hugectr.processes.agreement import LONG, from_root, jointly, together
from hugectr.processes.group import ProcessGroup

# --- taking a model's state -----------------------------------------------------------------------


def take(
    state: TrainingState,
    copy: bool = True,
    marks: Sequence[int] | None = None,
    beside: Path | None = None,
) -> Snapshot:
    """A copy of the state of a training: this process's part of it.

    Parameters
    ----------
    state : TrainingState
    copy : bool
        Whether rows are copied to the host at once, so that training may go on; else they are read
        when they are written, through little memory.
    marks : sequence of int, optional
        One a table: take only the rows touched since; None: all.
    beside : Path, optional
        The folder that the snapshot is to be written to, where rows that lie on a disk may stay
        there for ``write`` to link them.
    """
    session = state.session
    snapshot = Snapshot(
        {
            "model": state.model_name,
            "step": session.step(),
            "seed": session.seed(),
            # None, without a reader: the place is not the model's to know.
            "data_position": session.reader.position() if session.has_reader() else None,
            "learning_rate": session.learning_rate_state(),
            "loss_scaling": session.network.loss_scaling_state(),
            "frozen": sorted(state.frozen()),
            "frozen_steps": frozen_steps_of(state),
            "fit_epoch": state.fit_epoch,
            "description": state.description(),
            "callbacks": state.callback_states(),
            "batchsize_eval": state.batchsize_eval,
        }
    )
    network = session.network
    snapshot.dense["dense.weights"] = network.dense_weights()
    snapshot.dense["dense.states"] = network.dense_optimizer_states()
    statistics = []
    for name, mean, var in network.non_trainables():
        statistics.append(name)
        snapshot.dense[f"statistics{len(statistics) - 1}.mean"] = mean
        snapshot.dense[f"statistics{len(statistics) - 1}.var"] = var
    snapshot.fields["statistics"] = statistics
    snapshot.fields["dense_tensors"] = [
        {"name": name, "shape": list(network.weight_view(name, 0).shape)}
        for name in network.weight_names()
    ]
    snapshot.schema = state.schema_files()
    for index, table in enumerate(session.tables()):
        rows = ModelRows(table, 0, beside) if marks is None else ModelRows(table, marks[index])
        snapshot.tables.append(rows)
        if marks is not None:
            keys, slots = table.gone(marks[index])
            names = {"key": keys} if slots is None else {"key": keys, "slot": slots}
            snapshot.gone.append(HeldRows(table.name(), names, table.placement()))
    return held(snapshot) if copy else snapshot


# --- saving in the background ---------------------------------------------------------------------


class Saver:
    """Saves checkpoints of a training into a folder, at once or behind its back.

    Parameters
    ----------
    folder : path-like
    keep_last : int
        Published checkpoints to keep; 0: all.
    background : bool
        save() returns when the state is copied to the host; a thread writes it.
    channel : ProcessGroup, optional
        What the thread talks to other processes through; None: a new one of the state's group.
    allow_nonfinite : bool
        Save infinities and NaN too.

    Attributes
    ----------
    written : int or None
        Checksum of the manifest that was written, on process 0.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep_last: int = 0,
        background: bool = False,
        channel: ProcessGroup | None = None,
        allow_nonfinite: bool = False,
    ) -> None:
        self.folder = Path(os.path.abspath(folder))  # wherever the program goes meanwhile
        self.keep_last = keep_last
        self.background = background
        self.channel = channel
        self.allow_nonfinite = allow_nonfinite
        self.written: int | None = None
        self._resumed_in: Path | None = None
        self._thread: Beside | None = None
        self._error: BaseException | None = None

    def save(self, state: TrainingState, base: Base | None = None) -> None:
        """Save the state, or what changed since ``base``. Collective.

        An error of an earlier save in the background is raised here.
        """
        self.wait()
        if not state.session.trains():
            raise InvalidArgument(
                "save: the model does not train and has nothing to go on from: save the one that "
                "trained its weights and rows"
            )
        group = state.group
        marks = base.marks if base is not None else None
        if self.background and self.channel is None:
            self.channel = group.duplicate("save")
        run, step, self._resumed_in = state.run_id, state.session.step(), state.resumed_in
        writer = Writer(run, self._resumed_in)
        from_root(group, lambda: check_owner(self.folder, step, writer))  # before anything is read
        snapshot = jointly(group, lambda: take(state, self.background, marks, self.folder), LONG)
        snapshot.fields["run"] = run
        if base is not None:
            snapshot.fields |= from_root(group, lambda: chain_fields(base.path))
            _say_when_all_was_touched(state, snapshot)
            if not any(together(group, lambda: sum(table.rows for table in snapshot.gone))):
                snapshot.gone = []
        if not self.background:
            self._write(snapshot, group)
            return
        self._thread = Beside(self._write_behind, snapshot, name="hctr-save")
        self._thread.begin()

    def _write(self, snapshot: Snapshot, group: ProcessGroup) -> None:
        write(
            self.folder,
            snapshot,
            self.keep_last,
            group,
            resumed_in=self._resumed_in,
            allow_nonfinite=self.allow_nonfinite,
        )
        self.written = snapshot.crc32

    def _write_behind(self, snapshot: Snapshot) -> None:
        assert self.channel is not None
        try:
            self._write(snapshot, self.channel)
        except BaseException as error:
            self._error = error

    def is_writing(self) -> bool:
        """Whether the background still writes."""
        return self._thread is not None and not self._thread.is_over()

    def wait(self) -> None:
        """Wait for the save that is under way; raises its error."""
        thread = self._thread
        if thread is not None:
            thread.wait()
            self._thread = None
        error, self._error = self._error, None
        try:
            if isinstance(error, CommError):
                raise CommError(*error.args) from error  # made here: the script knows now
            if error is not None:
                raise error
        finally:
            del error  # else its traceback and this frame keep each other, and the model


def _say_when_all_was_touched(state: TrainingState, snapshot: Snapshot) -> None:
    for table, own in zip(snapshot.tables, state.session.tables(), strict=True):
        if 0 < table.rows == own.stats()["rows"]:
            log.info(
                f"The delta has all {table.rows} rows of table {table.name!r} of this process: "
                "each was touched since (update_type Global of an optimizer with moments updates "
                "every row in every step)"
            )


def latest(folder: str | os.PathLike[str]) -> Path | None:
    """The newest published checkpoint of a folder, or None."""
    return _latest(Path(folder))
