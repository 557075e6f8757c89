# SPDX-License-Identifier: Apache-2.0
"""The native checkpoint: everything that training goes on from, whole or not at all.

A checkpoint is a folder ``step-<number>`` with ``manifest.json`` and the files it lists: dense
weights and states, running statistics, and for every table keys, vectors, and optimizer states by
key (so it loads on any number of devices). It is written to a hidden folder, synced, and renamed:
after a crash the last published checkpoint is still the last.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hugectr.checkpoint_folder import (
    FORMAT,
    Array,
    Snapshot,
    check_sizes,
    map_file,
    published,
    read_file,
    read_manifest,
    write,
)
from hugectr.errors import InvalidArgument

if TYPE_CHECKING:
    from hugectr import _core
    from hugectr.model import Model

_LOAD_ROWS = 1 << 20  # rows handed to the core in one go

# --- taking and giving back a model's state -------------------------------------------------------


def take(model: Model) -> Snapshot:
    """Copy a model's state to the host; training may go on as soon as it returns."""
    session = model.session
    snapshot = Snapshot(
        {
            "format": FORMAT,
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
    snapshot.arrays["dense.weights"] = session.dense_weights()
    snapshot.arrays["dense.states"] = session.dense_optimizer_states()
    statistics = []
    for name, mean, var in session.non_trainables():
        statistics.append(name)
        snapshot.arrays[f"statistics{len(statistics) - 1}.mean"] = mean
        snapshot.arrays[f"statistics{len(statistics) - 1}.var"] = var
    snapshot.fields["statistics"] = statistics
    tables = []
    for index, embedding in enumerate(model.embeddings):
        bag = session.dump_embedding(index, True)
        parts: dict[str, Array] = {"key": bag["keys"], "vector": bag["vectors"]}
        if bag["slot_ids"] is not None:
            parts["slot"] = bag["slot_ids"]
        parts |= {f"state{i}": state for i, state in enumerate(bag["states"])}
        if bag["last_step"] is not None:
            parts["last_step"] = bag["last_step"]
        for part, values in parts.items():
            snapshot.arrays[f"table{index}.{part}"] = values
        tables.append(
            {
                "name": embedding.sparse_embedding_name,
                "rows": len(bag["keys"]),
                "vec_size": int(bag["vectors"].shape[1]),
                "parts": list(parts),
            }
        )
    snapshot.fields["tables"] = tables
    return snapshot


def give(model: Model, path: Path) -> None:
    """Bring a model to the state of a checkpoint.

    Raises
    ------
    DataError
        When files are missing or damaged; tables may then hold a part of the rows.
    InvalidArgument
        When the checkpoint is of another model; nothing has changed then.
    """
    manifest = read_manifest(path)
    check_sizes(path, manifest)
    _check_fits(model, path, manifest)
    session = model.session
    files = manifest["files"]

    def read(name: str) -> Array:
        return read_file(path, name, files[name])

    dense, states = read("dense.weights"), read("dense.states")
    statistics = [
        (name, read(f"statistics{i}.mean"), read(f"statistics{i}.var"))
        for i, name in enumerate(manifest["statistics"])
    ]
    for index, table in enumerate(manifest["tables"]):
        session.reset_embedding(index)
        for rows in _table_chunks(path, manifest, index, table):
            session.load_embedding(index, rows)
    session.set_dense_weights(dense)
    session.set_dense_optimizer_states(states)
    if statistics:
        session.set_non_trainables(statistics)
    session.set_step(manifest["step"])
    session.set_learning_rate_state(manifest["learning_rate"])
    session.set_loss_scaling_state(manifest["loss_scaling"])
    session.set_data_position(manifest["data_position"])
    model.set_frozen(set(manifest["frozen"]))
    model.fit_epoch = manifest["fit_epoch"]


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
    if manifest["seed"] != model.session.seed():
        raise InvalidArgument(
            f"{path} was trained with seed {manifest['seed']}, the model has seed "
            f"{model.session.seed()}: build it with the former, so that new rows and dropout go on "
            "as they would have"
        )


def _table_chunks(
    path: Path, manifest: dict[str, Any], index: int, table: dict[str, Any]
) -> Iterator[_core.BufferBag]:
    """Rows of a table, a bounded number at a time."""
    files, rows, parts = manifest["files"], table["rows"], table["parts"]
    arrays = {part: map_file(path, f"table{index}.{part}", files) for part in parts}
    for begin in range(0, rows, _LOAD_ROWS):
        end = min(begin + _LOAD_ROWS, rows)
        yield {
            "keys": np.array(arrays["key"][begin:end]),
            "vectors": np.array(arrays["vector"][begin:end]),
            "slot_ids": np.array(arrays["slot"][begin:end]) if "slot" in arrays else None,
            "states": [
                np.array(arrays[part][begin:end]) for part in parts if part.startswith("state")
            ],
            "last_step": (
                np.array(arrays["last_step"][begin:end]) if "last_step" in arrays else None
            ),
        }


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
    """

    def __init__(
        self, folder: str | os.PathLike[str], keep_last: int = 0, background: bool = False
    ) -> None:
        self.folder = Path(folder)
        self.keep_last = keep_last
        self.background = background
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, model: Model) -> None:
        """Save the model; an error of an earlier save in the background is raised here."""
        self.wait()
        snapshot = take(model)
        if not self.background:
            write(self.folder, snapshot, self.keep_last)
            return
        self._thread = threading.Thread(
            target=self._guarded, args=(lambda: write(self.folder, snapshot, self.keep_last),)
        )
        self._thread.start()

    def _guarded(self, work: Callable[[], Path]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error

    def wait(self) -> None:
        """Wait for the save that is under way; raises its error."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error


def latest(folder: str | os.PathLike[str]) -> Path | None:
    """The newest published checkpoint of a folder, or None."""
    found = published(Path(folder))
    return found[-1][1] if found else None
