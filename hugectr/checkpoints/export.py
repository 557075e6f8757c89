# SPDX-License-Identifier: Apache-2.0
"""Weights of a native checkpoint for other programs: safetensors, or NumPy's own files.

Dense weights go by tensor name (``fc1.weight``), tables as ``<table>.key``, ``<table>.slot`` and
``<table>.vector``, rows sorted by (slot, key). Optimizer states stay behind.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.base.errors import InvalidArgument
from hugectr.checkpoints.chunks import Array, read_array
from hugectr.checkpoints.merge import Link, MergedRows, links_of

_SAFETENSORS_TYPES = {"float32": "F32", "int64": "I64", "uint64": "U64"}


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


def _tables(links: list[Link]) -> Iterator[tuple[str, MergedRows, list[str]]]:
    for index in range(len(links[-1][1]["tables"])):
        rows = MergedRows(links, index, ["vector"])
        yield rows.name, rows, list(rows.parts)


def to_safetensors(path: Path, file: Path) -> None:
    """Write one safetensors file, a table's rows at a time as they are read.

    Parameters
    ----------
    path : Path
        A checkpoint; of a delta all it builds on is read.
    file : Path
    """
    links = links_of(path)
    dense = dense_tensors(links[-1])
    header: dict[str, Any] = {"__metadata__": {"step": str(links[-1][1]["step"])}}
    place = 0

    def add(name: str, dtype: str, shape: tuple[int, ...]) -> int:
        nonlocal place
        if name in header:
            raise InvalidArgument(f"{path}: two tensors have the name {name!r}")
        begin = place
        place += int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
        header[name] = {
            "dtype": _SAFETENSORS_TYPES[dtype],
            "shape": list(shape),
            "data_offsets": [begin, place],
        }
        return begin

    # 8-byte types first: then all data is aligned.
    places: dict[str, int] = {}
    tables = [(name, rows, parts, rows.count()) for name, rows, parts in _tables(links)]
    for wide in (True, False):
        for name, rows, parts, count in tables:
            for part in parts:
                dtype, shape = rows.parts[part]
                if (np.dtype(dtype).itemsize == 8) == wide:
                    places[f"{name}.{part}"] = add(f"{name}.{part}", dtype, (count, *shape))
    for name, values in dense.items():
        places[name] = add(name, str(values.dtype), values.shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    with open(file, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name, rows, parts, _ in tables:
            for block in rows.blocks():
                for part in parts:
                    out.seek(start + places[f"{name}.{part}"])
                    out.write(np.ascontiguousarray(block[part]).data)
                    places[f"{name}.{part}"] += block[part].nbytes
        for name, values in dense.items():
            out.seek(start + places[name])
            out.write(np.ascontiguousarray(values).data)
        out.truncate(start + place)


def to_numpy(path: Path, folder: Path) -> None:
    """Write ``dense.npz`` and ``<table>.<part>.npy``.

    Parameters
    ----------
    path : Path
        A checkpoint; of a delta all it builds on is read.
    folder : Path
        Made when it is not there.
    """
    links = links_of(path)
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "dense.npz", "w") as archive:  # what numpy.load calls npz
        for name, values in dense_tensors(links[-1]).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, values, allow_pickle=False)
    for name, rows, parts in _tables(links):
        count, done = rows.count(), 0
        files = {part: _begin_npy(folder, name, part, count, rows) for part in parts}
        try:
            for block in rows.blocks():
                for part in parts:
                    files[part].write(np.ascontiguousarray(block[part]).data)
                done += len(block["key"])
        finally:
            for out in files.values():
                out.close()


def _begin_npy(folder: Path, name: str, part: str, count: int, rows: MergedRows) -> Any:
    dtype, shape = rows.parts[part]
    file = open(folder / f"{name}.{part}.npy", "wb")  # noqa: SIM115
    described = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(
        file, {"descr": described, "fortran_order": False, "shape": (count, *shape)}
    )
    return file
