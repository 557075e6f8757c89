# SPDX-License-Identifier: Apache-2.0
"""Weights of a native checkpoint for other programs: safetensors, NumPy's own files, Parquet.

Dense weights go by tensor name (``fc1.weight``), tables as ``<table>.key``, ``<table>.slot`` and
``<table>.vector``, rows sorted by (slot, key). Optimizer states stay behind.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hugectr.base.replaced import refuse_other_folder, whole_folder
from hugectr.checkpoints.chunks import Array, read_array
from hugectr.checkpoints.merge import Link, MergedRows, links_of
from hugectr.vectors.table_files import (
    file_stem,
    is_table,
    write_numpy,
    write_parquet,
    write_safetensors,
)

_DENSE = "dense.npz"


def dense_tensors(link: Link) -> dict[str, Array]:
    """Dense weights by name; ``dense`` alone, flat, when the checkpoint does not name them."""
    path, manifest = link
    flat = read_array(path / "dense.weights", manifest["files"]["dense.weights"])
    tensors, place = {}, 0
    for tensor in manifest.get("dense_tensors", []):
        count = int(np.prod(tensor["shape"], dtype=np.int64))
        tensors[tensor["name"]] = flat[place : place + count].reshape(tensor["shape"])
        place += count
    return tensors if place == flat.size else {"dense": flat}


def _tables(links: list[Link]) -> list[MergedRows]:
    count = len(links[-1][1]["tables"])
    return [MergedRows(links, index, ["vector"]) for index in range(count)]


@contextmanager
def _whole(path: Path, folder: Path, ending: str) -> Iterator[tuple[Path, list[MergedRows]]]:
    """Where to write a folder with ``dense.npz``, which is there, and the tables to write."""

    def names_of(folder: Path) -> set[str]:
        if not zipfile.is_zipfile(folder / _DENSE):
            return set()
        return {_DENSE, *(name for name in os.listdir(folder) if is_table(folder / name, ending))}

    refuse_other_folder("convert", folder, "earlier export of the same kind", names_of)
    links = links_of(path)
    with whole_folder(folder) as beside:
        _write_npz(beside / _DENSE, dense_tensors(links[-1]))
        yield beside, _tables(links)


def to_safetensors(path: Path, file: Path) -> None:
    """Write one safetensors file, a table's rows at a time as they are read.

    Parameters
    ----------
    path : Path
        A checkpoint; of a delta all it builds on is read.
    file : Path
    """
    links = links_of(path)
    step = {"step": str(links[-1][1]["step"])}
    write_safetensors(file, _tables(links), dense_tensors(links[-1]), step)


def _write_npz(file: Path, tensors: dict[str, Array]) -> None:
    with zipfile.ZipFile(file, "w") as archive:  # what numpy.load calls npz
        for name, values in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def to_numpy(path: Path, folder: Path) -> None:
    """Write ``dense.npz`` and ``<table>.<part>.npy``.

    Parameters
    ----------
    path : Path
        A checkpoint; of a delta all it builds on is read.
    folder : Path
        Made when it is not there; an earlier export is replaced, once all is written.
    """
    with _whole(path, folder, ".npy") as (beside, tables):
        for rows in tables:
            write_numpy(beside, rows)


def to_parquet(path: Path, folder: Path) -> None:
    """Write ``dense.npz`` and ``<table>.parquet``, rows as ``vectors.table_files`` has them.

    Parameters
    ----------
    path : Path
        A checkpoint; of a delta all it builds on is read.
    folder : Path
        Made when it is not there; an earlier export is replaced, once all is written.
    """
    with _whole(path, folder, ".parquet") as (beside, tables):
        for rows in tables:
            write_parquet(beside / f"{file_stem(rows.name)}.parquet", rows)
