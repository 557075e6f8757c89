# SPDX-License-Identifier: Apache-2.0
"""Native checkpoints <-> files of the original layout, without a model and in bounded memory.

The original layout has no data position, seed, schedule or loss scaling, and no last step of lazy
Adam; converted to native these stay unknown, and a model that resumes keeps its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.base import log
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints.chunks import Array, read_array
from hugectr.checkpoints.folder import Snapshot, write
from hugectr.checkpoints.linked import HeldLink
from hugectr.checkpoints.merge import MergedRows, links_of
from hugectr.checkpoints.original_files import (
    CheckpointFiles,
    TableFiles,
    saved_statistics,
    statistics_file,
    write_statistics,
)
from hugectr.checkpoints.rows import Parts, RowSource


def to_original(path: Path, prefix: str) -> CheckpointFiles:
    """Write a native checkpoint as files of the original layout.

    Parameters
    ----------
    path : Path
        A checkpoint; of a delta all it builds on is read.
    prefix : str
        What the names of the files begin with; may hold a folder.

    Returns
    -------
    CheckpointFiles
        Names of the files; the iteration is the step.
    """
    links = links_of(path)
    place, manifest = links[-1]

    def dense(name: str) -> Array:
        return read_array(place / name, manifest["files"][name])

    names = CheckpointFiles(prefix, manifest["step"])
    Path(names.dense).parent.mkdir(parents=True, exist_ok=True)
    dense("dense.weights").tofile(names.dense)
    dense("dense.states").tofile(names.dense_optimizer)
    statistics = [
        (str(layer), dense(f"statistics{i}.mean"), dense(f"statistics{i}.var"))
        for i, layer in enumerate(manifest["statistics"])
    ]
    write_statistics(names.dense, statistics)
    for index in range(len(manifest["tables"])):
        _write_table(MergedRows(links, index), names.sparse(index), names.sparse_optimizer(index))
    return names


def _write_table(rows: MergedRows, folder: str, states_file: str) -> None:
    if "last_step" in rows.parts:
        log.warning(f"{folder}: the original layout has no place for the last step of lazy Adam")
    files = TableFiles(rows.parts, folder, states_file)
    files.create()
    count, done = rows.count(), 0
    try:
        files.open()
        for block in rows.blocks():
            files.write({part: block[part] for part in files.parts}, done, count)
            done += len(block["key"])
    finally:
        files.close()


class OriginalTable:
    """Rows of a table in the original layout, in the order of a native checkpoint.

    Parameters
    ----------
    name : str
    folder : str
        With key, emb_vector and, for Localized tables, slot_id.
    states_file : str
        Optimizer states; none when it is not there.

    Raises
    ------
    DataError
        When sizes do not fit each other; keys that are there twice.
    """

    def __init__(self, name: str, folder: str, states_file: str) -> None:
        self.name = name
        self.placement: str | None = None
        self.vector_type = "float32"
        self.linked: Sequence[HeldLink] = ()
        place = Path(folder)
        # Only mapped at first: files that do not fit each other take no memory.
        keys = _map(place / "key", np.int64)
        slots = _map(place / "slot_id", np.uint64) if (place / "slot_id").exists() else None
        vectors = _map(place / "emb_vector")
        self.rows = len(keys)
        if self.rows == 0 or vectors.size == 0 or vectors.size % self.rows:
            raise DataError(
                f"{folder}: emb_vector has {vectors.size} float32 for {self.rows} keys; a table "
                "without rows can not be converted: its vector size is unknown"
            )
        dim = vectors.size // self.rows
        if slots is not None and len(slots) != self.rows:
            raise DataError(f"{folder}: key has {self.rows} rows, slot_id {len(slots)}")
        keys, slots = np.array(keys), None if slots is None else np.array(slots)
        self._order = np.lexsort([keys] if slots is None else [keys, slots])
        self._columns: dict[str, Array] = {"key": keys}
        if slots is not None:
            self._columns["slot"] = slots
        self._check_once(folder)
        self._columns["vector"] = vectors.reshape(self.rows, dim)
        states = _map(Path(states_file)) if Path(states_file).exists() else np.zeros(0, np.float32)
        width = 1 if states.size == self.rows else dim  # one number a row, or as the vectors
        if states.size % (self.rows * width):
            raise DataError(
                f"{states_file} has {states.size} float32, no multiple of the {vectors.size} of "
                f"{folder}/emb_vector and not one for each of the {self.rows} rows"
            )
        for number, state in enumerate(states.reshape(-1, self.rows, width)):
            self._columns[f"state{number}"] = state
        self.parts: Parts = {
            part: (values.dtype.name, values.shape[1:]) for part, values in self._columns.items()
        }

    def _check_once(self, folder: str) -> None:
        same = np.ones(max(0, self.rows - 1), bool)
        for values in self._columns.values():
            in_order = values[self._order]
            same &= in_order[1:] == in_order[:-1]
        if same.any():
            key = self._columns["key"][self._order][1:][same][0]
            raise DataError(f"{folder}: key {key} is there more than once")

    def read(
        self, begin: int, end: int, into: Mapping[str, Array] | None = None
    ) -> Mapping[str, Array]:
        """Rows [begin, end) in the order of (slot, key)."""
        chosen = self._order[begin:end]
        return {part: np.asarray(values[chosen]) for part, values in self._columns.items()}


def _map(path: Path, dtype: Any = np.float32) -> Array:
    kind = np.dtype(dtype)
    if not path.is_file() or path.stat().st_size % kind.itemsize:
        raise DataError(f"{path} is missing, or no whole number of {kind}")
    if path.stat().st_size == 0:
        return np.zeros(0, kind)
    return np.memmap(path, kind, "r")


def from_original(
    dense_file: Path, folder: Path, tables: Sequence[str], seed: int | None = None
) -> Path:
    """Write files of the original layout as a native checkpoint.

    Parameters
    ----------
    dense_file : Path
        ``<prefix>_dense_<iteration>.model``; the other files lie beside it.
    folder : Path
        Of checkpoints, to publish it in; the step is the iteration.
    tables : list of str
        Names of the model's tables, in its order.
    seed : int, optional
        Of the model; None: unknown, any model may resume.

    Returns
    -------
    Path
        The checkpoint.
    """
    found = re.fullmatch(r"(.*)_dense_([0-9]{1,10})\.model", str(dense_file))
    if not found or not dense_file.is_file():
        raise InvalidArgument(
            f"{dense_file}: give the file <prefix>_dense_<iteration>.model of the original layout"
        )
    names = CheckpointFiles(found[1], int(found[2]))
    there = 0
    while Path(names.sparse(there)).is_dir():
        there += 1
    if len(tables) != there:
        raise InvalidArgument(
            f"{dense_file} has {there} tables beside it: give --tables with a name for each, found "
            f"{list(tables)}"
        )
    snapshot = Snapshot.of_values(Path(found[1]).name, names.iteration, seed)
    snapshot.dense["dense.weights"] = _map(dense_file)
    snapshot.dense["dense.states"] = _map(Path(names.dense_optimizer))
    if statistics_file(names.dense).exists():
        for number, (mean, var) in enumerate(saved_statistics(statistics_file(names.dense))):
            snapshot.fields["statistics"].append(None)  # the file has no names: by order
            snapshot.dense[f"statistics{number}.mean"] = mean
            snapshot.dense[f"statistics{number}.var"] = var
    sources: list[RowSource] = [
        OriginalTable(name, names.sparse(index), names.sparse_optimizer(index))
        for index, name in enumerate(tables)
    ]
    snapshot.tables = sources
    return write(folder, snapshot)
