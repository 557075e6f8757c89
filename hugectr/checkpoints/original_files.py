# SPDX-License-Identifier: Apache-2.0
"""Files of the original layout: their names, what kind they are, and writing them.

Beside the dense weights lie the running statistics of BatchNorm, as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import DataError, InvalidArgument, did_you_mean, rejected
from hugectr.base.json_form import list_of, number, record
from hugectr.base.places import folder_place
from hugectr.base.regular_file import read_bounded
from hugectr.checkpoints.chunks import Array, bytes_of
from hugectr.checkpoints.manifest import row_bytes
from hugectr.checkpoints.rows import SCORES, Parts

Paths = str | Path | Sequence[str | Path] | Mapping[str, str | Path]
NonTrainables = list[tuple[str, npt.NDArray[np.float64], npt.NDArray[np.float32]]]

_VALUES = list_of(number())
_STATISTICS = record({"layers": list_of(record({"mean": _VALUES, "var": _VALUES}))})

#: Part of a row -> its file in the folder of a table.
TABLE_FILES = {"key": "key", "slot": "slot_id", "vector": "emb_vector"}


@dataclass(frozen=True)
class CheckpointFiles:
    """Names of the files of one checkpoint.

    Parameters
    ----------
    prefix : str
        May hold a folder.
    iteration : int
    """

    prefix: str
    iteration: int

    @property
    def dense(self) -> str:
        """Dense weights."""
        return f"{self.prefix}_dense_{self.iteration}.model"

    @property
    def dense_optimizer(self) -> str:
        """Optimizer states of the dense weights."""
        return f"{self.prefix}_opt_dense_{self.iteration}.model"

    def sparse(self, index: int) -> str:
        """Folder of an embedding table."""
        return f"{self.prefix}{index}_sparse_{self.iteration}.model"

    def sparse_optimizer(self, index: int) -> str:
        """Optimizer states of an embedding table."""
        return f"{self.prefix}{index}_opt_sparse_{self.iteration}.model"


def statistics_file(dense_file: str | Path) -> Path:
    """Running statistics that belong to a dense model file."""
    return Path(f"{dense_file}.ntp.json")


def write_statistics(dense_file: str | Path, values: NonTrainables) -> None:
    """Write BatchNorm running statistics beside a dense model file; nothing when there are none."""
    if not values:
        return
    layers = [
        {"type": "BatchNorm", "mean": mean.tolist(), "var": var.tolist()} for _, mean, var in values
    ]
    text = json.dumps({"layers": layers}, indent=2)
    statistics_file(dense_file).write_text(text + "\n", encoding="utf-8")


class TableFiles:
    """Files of one table, written in pieces at any place.

    Parameters
    ----------
    parts : Parts
        Of a row; its last step and its score have no place in this layout.
    folder, states_file : str
        The latter where ``parts`` has states.
    """

    def __init__(self, parts: Parts, folder: str, states_file: str = "") -> None:
        self.parts: Parts = {
            part: kind for part, kind in parts.items() if part not in ("last_step", *SCORES)
        }
        self._states_file, self._has_states_file = Path(states_file), bool(states_file)
        self._folder = Path(folder)
        self._states: dict[str, int] = {}  # part -> bytes a row of the states before it
        before = 0
        for part, kind in self.parts.items():
            if part.startswith("state"):
                self._states[part] = before
                before += row_bytes(*kind)
        self._handles: dict[str, int] = {}

    def _paths(self) -> dict[str, Path]:
        found = {p: self._folder / name for p, name in TABLE_FILES.items() if p in self.parts}
        return found | ({"states": self._states_file} if self._has_states_file else {})

    def create(self) -> None:
        """Make them, empty; what an older table there had and this one has not, goes."""
        folder_place("path of a table", self._folder)
        for path in self._paths().values():
            path.write_bytes(b"")
        for part, name in TABLE_FILES.items():
            if part not in self.parts:
                (self._folder / name).unlink(missing_ok=True)

    def open(self) -> None:
        """Open them for writing."""
        for part, path in self._paths().items():
            self._handles[part] = os.open(path, os.O_WRONLY)

    def write(self, values: dict[str, Array], first: int, total: int) -> None:
        """Write rows from place ``first`` on, of so many rows in all."""
        for part, array in values.items():
            size = row_bytes(*self.parts[part])
            place, handle = first * size, part
            if part in self._states:  # one state after the other
                place, handle = self._states[part] * total + first * size, "states"
            rest = bytes_of(np.ascontiguousarray(array))
            while rest:
                try:
                    written = os.pwrite(self._handles[handle], rest, place)
                except OSError as error:
                    path = str(self._paths()[handle])
                    raise OSError(error.errno, error.strerror, path) from error
                place, rest = place + written, rest[written:]

    def close(self) -> None:
        """Close what is open."""
        while self._handles:
            os.close(self._handles.popitem()[1])


#: Running statistics of a layer with a million units, as text.
_LARGEST_STATISTICS = 256 << 20


def saved_statistics(file: Path) -> list[tuple[Array, Array]]:
    """Mean and variance of each layer in a file of running statistics.

    Raises
    ------
    DataError
        Names the file and what is wrong with it.
    """
    try:
        content = json.loads(read_bounded(file, _LARGEST_STATISTICS))
        _STATISTICS("", content)
        return [
            (np.asarray(layer["mean"], np.float64), np.asarray(layer["var"], np.float32))
            for layer in content["layers"]
        ]
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(
            f"{file}: running statistics of BatchNorm can not be read ({error}); it is written "
            "beside the dense model file and must be moved with it"
        ) from None


def read_statistics(dense_file: str | Path, current: NonTrainables) -> NonTrainables:
    """Read the running statistics of a model.

    Parameters
    ----------
    dense_file : path
        Dense model file they lie beside.
    current : list of (layer, mean, var)
        The model's own: layer names and sizes that the file must fit.

    Raises
    ------
    DataError
        Names the file, the layer, what was found and what was expected.
    """
    file = statistics_file(dense_file)
    layers = saved_statistics(file)
    if len(layers) != len(current):
        raise DataError(
            f"{file}: found {len(layers)} layers, the model has {len(current)} BatchNorm"
        )
    result: NonTrainables = []
    for (name, own, _), (mean, var) in zip(current, layers, strict=True):
        for key, values in (("mean", mean), ("var", var)):
            if values.size != own.size:
                raise DataError(
                    f"{file}: {key} of layer {name!r} has {values.size} values, "
                    f"the model has {own.size}"
                )
        result.append((name, mean, var))
    return result


def check_sparse_path(name: str, path: Any) -> str:
    """A table's folder (3.1+) or single file (3.0 and before) that exists.

    Raises
    ------
    InvalidArgument
        When there is nothing, or a folder without the files of a table.
    """
    if not isinstance(path, str | Path):
        raise rejected(name, path, "the path of a saved table")
    place = Path(path)
    if place.is_file():
        return str(path)
    if not place.is_dir():
        raise rejected(name, str(path), "an existing folder or file of a saved table")
    missing = [part for part in ("key", "emb_vector") if not (place / part).is_file()]
    if missing:
        raise rejected(
            name, str(path), f"a folder with the files key and emb_vector; missing: {missing}"
        )
    return str(path)


def table_paths(
    where: str,
    paths: Paths,
    names: Sequence[str],
) -> list[tuple[int, str | Path]]:
    """Which path belongs to which table.

    Parameters
    ----------
    where : str
        What messages call the call.
    paths : list or dict
        One path a table in the model's order, or table name -> path for some of them.
    names : list of str
        Names of the model's tables.

    Returns
    -------
    list of (int, path)
        Table index and path.
    """
    if isinstance(paths, Mapping):
        result: list[tuple[int, str | Path]] = []
        for name, path in paths.items():
            if name not in names:
                allowed = f"one of {list(names)}{did_you_mean(str(name), names)}"
                raise rejected(f"{where}: embedding", name, allowed)
            result.append((list(names).index(name), path))
        return result
    if isinstance(paths, str | Path):
        paths = [paths]
    if len(paths) != len(names):
        raise InvalidArgument(
            f"{where}: found {len(paths)} paths, allowed: one for each of the {len(names)} "
            f"embeddings {list(names)}, or a dict of some of them"
        )
    return list(enumerate(paths))
