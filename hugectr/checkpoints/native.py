# SPDX-License-Identifier: Apache-2.0
"""The native checkpoint: everything that training goes on from, whole or not at all.

A checkpoint is a folder ``step-<number>`` with ``manifest.json`` and the files it lists: dense
weights and states, running statistics, and for every table keys, vectors, and optimizer states by
key (so it loads on any number of devices and processes). It is written to a hidden folder, synced,
and renamed: after a crash the last published checkpoint is still the last.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hugectr import log
from hugectr.agreement import LONG, from_root, jointly
from hugectr.checkpoints.chunks import Array, read_array
from hugectr.checkpoints.delta import Base, chain_fields
from hugectr.checkpoints.folder import Snapshot, held, write
from hugectr.checkpoints.load import TableReader, load_table
from hugectr.checkpoints.manifest import Manifest, row_shape
from hugectr.checkpoints.manifest import latest as _latest
from hugectr.checkpoints.merge import links_of
from hugectr.checkpoints.rows import ModelRows
from hugectr.errors import CommError, InvalidArgument
from hugectr.processes.group import ProcessGroup
from hugectr.processes.solo import SoloGroup

if TYPE_CHECKING:
    from hugectr.model import Model

# --- taking and giving back a model's state -------------------------------------------------------


def group_of(model: Model) -> ProcessGroup:
    """The processes that a model is spread over."""
    group: ProcessGroup | None = getattr(model, "processes", None)
    return group or SoloGroup()


def take(model: Model, copy: bool = True, marks: Sequence[int] | None = None) -> Snapshot:
    """A model's state: this process's part of it.

    Parameters
    ----------
    model : Model
    copy : bool
        Whether rows are copied to the host at once, so that training may go on; else they are read
        when they are written, through little memory.
    marks : sequence of int, optional
        One a table: take only the rows touched since; None: all.
    """
    session = model.session
    snapshot = Snapshot(
        {
            "model": model.solver.model_name,
            "step": session.step(),
            "seed": session.seed(),
            "data_position": session.data_position(),
            "learning_rate": session.learning_rate_state(),
            "loss_scaling": session.loss_scaling_state(),
            "frozen": sorted(model.frozen()),
            "fit_epoch": model.fit_epoch,
        }
    )
    snapshot.dense["dense.weights"] = session.dense_weights()
    snapshot.dense["dense.states"] = session.dense_optimizer_states()
    statistics = []
    for name, mean, var in session.non_trainables():
        statistics.append(name)
        snapshot.dense[f"statistics{len(statistics) - 1}.mean"] = mean
        snapshot.dense[f"statistics{len(statistics) - 1}.var"] = var
    snapshot.fields["statistics"] = statistics
    snapshot.fields["dense_tensors"] = [
        {"name": name, "shape": list(session.weight_view(name, 0).shape)}
        for name in session.weight_names()
    ]
    for index, embedding in enumerate(model.embeddings):
        since = marks[index] if marks is not None else 0
        rows = ModelRows(session, index, embedding.sparse_embedding_name, since)
        snapshot.tables.append(rows)
    return held(snapshot) if copy else snapshot


def give(model: Model, path: Path) -> None:
    """Bring a model to the state of a checkpoint. Collective.

    Raises
    ------
    DataError
        When files are missing or damaged; tables may then hold a part of the rows.
    InvalidArgument
        When the checkpoint is of another model; nothing has changed then.
    """
    group = group_of(model)
    links = from_root(group, lambda: links_of(path))

    def check() -> None:
        for place, link in links:
            _check_fits(model, place, link)

    jointly(group, check)
    path, manifest = links[-1]
    dense = from_root(group, lambda: _read_dense(path, manifest))
    session = model.session
    for index in range(len(manifest["tables"])):
        jointly(group, lambda index=index: session.reset_embedding(index))  # type: ignore[misc]
        for place, link in links:
            load_table(session, index, TableReader(place, link, index), group)

    def rest() -> None:
        session.set_dense_weights(dense["dense.weights"])
        session.set_dense_optimizer_states(dense["dense.states"])
        # What the original layout does not know (None) stays as the model has it.
        names = [name for name, _, _ in session.non_trainables()]
        statistics = [
            (
                names[i] if name is None else name,
                dense[f"statistics{i}.mean"],
                dense[f"statistics{i}.var"],
            )
            for i, name in enumerate(manifest["statistics"])
        ]
        if statistics:
            session.set_non_trainables(statistics)
        session.set_step(manifest["step"])
        if manifest["learning_rate"] is not None:
            session.set_learning_rate_state(manifest["learning_rate"])
        if manifest["loss_scaling"] is not None:
            session.set_loss_scaling_state(manifest["loss_scaling"])
        if manifest["data_position"] is not None:
            session.set_data_position(manifest["data_position"])
        model.set_frozen(set(manifest["frozen"]))
        model.fit_epoch = manifest["fit_epoch"]

    jointly(group, rest)


def _read_dense(path: Path, manifest: Manifest) -> dict[str, Array]:
    names = ["dense.weights", "dense.states"]
    for index in range(len(manifest["statistics"])):
        names += [f"statistics{index}.mean", f"statistics{index}.var"]
    return {name: read_array(path / name, manifest["files"][name]) for name in names}


def _check_fits(model: Model, path: Path, manifest: dict[str, Any]) -> None:
    names = [embedding.sparse_embedding_name for embedding in model.embeddings]
    found = [table["name"] for table in manifest["tables"]]
    if found != names:
        raise InvalidArgument(f"{path} has the tables {found}, the model has {names}")
    for table, embedding in zip(manifest["tables"], model.embeddings, strict=True):
        if table["vec_size"] != embedding.embedding_vec_size:
            raise InvalidArgument(
                f"{path}: table {table['name']!r} has vectors of {table['vec_size']}, the model "
                f"of {embedding.embedding_vec_size}"
            )
    for name, what in (("dense.weights", "dense weights"), ("dense.states", "optimizer states")):
        own = (
            model.session.dense_weights()
            if name == "dense.weights"
            else (model.session.dense_optimizer_states())
        )
        count = manifest["files"][name]["bytes"] // 4
        if count != own.size:
            raise InvalidArgument(
                f"{path} has {count} {what}, the model has {own.size}: it was saved from other "
                "layers or with another optimizer"
            )
    for index, table in enumerate(manifest["tables"]):
        parts = {part: row_shape(manifest, table, part) for part in table["parts"]}
        own_parts = model.session.embedding_parts(index)
        if parts != own_parts:
            raise InvalidArgument(
                f"{path}: rows of table {table['name']!r} have the parts {list(parts)}, the "
                f"model's {list(own_parts)}: it was saved with another optimizer or embedding type"
            )
    count = len(model.session.non_trainables())
    if len(manifest["statistics"]) != count:
        raise InvalidArgument(
            f"{path} has running statistics of {len(manifest['statistics'])} layers, the model "
            f"has {count}"
        )
    if manifest["seed"] is not None and manifest["seed"] != model.session.seed():
        raise InvalidArgument(
            f"{path} was trained with seed {manifest['seed']}, the model has seed "
            f"{model.session.seed()}: build it with the former, so that new rows and dropout go on "
            "as they would have"
        )


# --- saving in the background ---------------------------------------------------------------------


class Saver:
    """Saves checkpoints of a model into a folder, at once or behind its back.

    Parameters
    ----------
    folder : path-like
    keep_last : int
        Published checkpoints to keep; 0: all.
    background : bool
        save() returns when the state is copied to the host; a thread writes it.
    channel : ProcessGroup, optional
        What the thread talks to other processes through; None: a new one of the model's group.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        keep_last: int = 0,
        background: bool = False,
        channel: ProcessGroup | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.keep_last = keep_last
        self.background = background
        self.channel = channel
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, model: Model, base: Base | None = None) -> None:
        """Save the model, or what changed since ``base``. Collective.

        An error of an earlier save in the background is raised here.
        """
        self.wait()
        group = group_of(model)
        marks = base.marks if base is not None else None
        if self.background and self.channel is None:
            self.channel = group.duplicate("save")
        snapshot = jointly(group, lambda: take(model, self.background, marks), LONG)
        if base is not None:
            snapshot.fields |= from_root(group, lambda: chain_fields(base.path))
            _say_when_all_was_touched(model, snapshot)
        if not self.background:
            write(self.folder, snapshot, self.keep_last, group)
            return
        self._thread = threading.Thread(target=self._write, args=(snapshot,), name="hctr-save")
        self._thread.start()

    def _write(self, snapshot: Snapshot) -> None:
        try:
            write(self.folder, snapshot, self.keep_last, self.channel)
        except BaseException as error:
            self._error = error

    def is_writing(self) -> bool:
        """Whether the background still writes."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the save that is under way; raises its error."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if isinstance(error, CommError):
            raise CommError(*error.args) from error  # made here: the script knows now
        if error is not None:
            raise error


def _say_when_all_was_touched(model: Model, snapshot: Snapshot) -> None:
    for table, stats in zip(snapshot.tables, model.session.table_stats(), strict=True):
        if 0 < table.rows == stats["rows"]:
            log.info(
                f"The delta has all {table.rows} rows of table {table.name!r} of this process: "
                "each was touched since (update_type Global of an optimizer with moments updates "
                "every row in every step)"
            )


def latest(folder: str | os.PathLike[str]) -> Path | None:
    """The newest published checkpoint of a folder, or None."""
    return _latest(Path(folder))
