# SPDX-License-Identifier: Apache-2.0
"""The folder of a native checkpoint: written whole or not at all, checked when it is read.

``step-<number>`` holds ``manifest.json`` and the files it lists, each with its size and CRC-32. It
is written under a hidden name, synced and renamed; what carries a hidden name is never read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.errors import DataError

FORMAT = 1
MANIFEST = "manifest.json"
_STEP = re.compile(r"step-(\d{10})")
_CHUNK = 8 << 20  # bytes written, read or checked in one go

Array = npt.NDArray[Any]


@dataclass
class Snapshot:
    """A model's state on the host at one step.

    Attributes
    ----------
    fields : dict
        What goes into the manifest besides the list of files.
    arrays : dict of str to ndarray
        Content of each file.
    """

    fields: dict[str, Any]
    arrays: dict[str, Array] = field(default_factory=dict)


def step_folder(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is published."""
    return folder / f"step-{step:010d}"


def published(folder: Path) -> list[tuple[int, Path]]:
    """Step and place of every published checkpoint of a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = []
    for path in folder.iterdir():
        match = _STEP.fullmatch(path.name)
        if match and (path / MANIFEST).is_file():
            found.append((int(match[1]), path))
    return sorted(found)


def write(folder: Path, snapshot: Snapshot, keep_last: int = 0) -> Path:
    """Write and publish a snapshot.

    Parameters
    ----------
    folder : Path
        Of all checkpoints of a run; made when it is not there.
    snapshot : Snapshot
    keep_last : int
        Published checkpoints to keep; 0: all.

    Returns
    -------
    Path
        The published folder.

    Raises
    ------
    OSError
        Disk full, no right to write: what was published before is untouched.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder)
    target = step_folder(folder, snapshot.fields["step"])
    work = folder / f".saving-{target.name}-{uuid.uuid4().hex[:8]}"
    work.mkdir()
    try:
        files = {}
        for name, values in snapshot.arrays.items():
            files[name] = _write_file(work / name, values)
        manifest = snapshot.fields | {"files": files}
        text = json.dumps(manifest | {"crc32": _manifest_sum(manifest)}, indent=1)
        _write_file(work / MANIFEST, np.frombuffer(text.encode(), np.uint8))
        _sync(work)
        if target.exists():  # the same step saved again
            _retire(target)
        work.rename(target)
        _sync(folder)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    if keep_last > 0:
        for _, old in published(folder)[:-keep_last]:
            _retire(old)
    return target


def _retire(path: Path) -> None:
    """Remove a checkpoint so that no half of it is ever taken for one."""
    hidden = path.with_name(f".saving-{path.name}-old")
    path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """What earlier runs left when they were killed while saving."""
    for path in folder.glob(".saving-*"):
        shutil.rmtree(path, ignore_errors=True)


def _write_file(path: Path, values: Array) -> dict[str, Any]:
    data = _bytes_of(np.ascontiguousarray(values))
    checksum = 0
    with open(path, "wb", buffering=0) as file:
        for begin in range(0, len(data), _CHUNK):
            chunk = data[begin : begin + _CHUNK]
            checksum = zlib.crc32(chunk, checksum)
            while chunk:
                chunk = chunk[file.write(chunk) :]
        os.fsync(file.fileno())
    return {
        "bytes": len(data),
        "crc32": checksum,
        "dtype": str(values.dtype),
        "shape": list(values.shape),
    }


def _bytes_of(values: Array) -> memoryview:
    return memoryview(values.reshape(-1).view(np.uint8).data) if values.size else memoryview(b"")


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _manifest_sum(manifest: dict[str, Any]) -> int:
    """Checksum of the manifest's content, however it is laid out."""
    rest = {name: value for name, value in manifest.items() if name != "crc32"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint folder.

    Raises
    ------
    DataError
        When it is missing, damaged, or of a later format.
    """
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        version = manifest["format"]
        for name, entry in manifest["files"].items():
            if "/" in name or not isinstance(entry["bytes"], int) or "crc32" not in entry:
                raise ValueError(f"entry {name!r}")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{file} can not be read ({error}): take another checkpoint") from error
    if _manifest_sum(manifest) != manifest.get("crc32"):
        raise DataError(f"{file} is damaged: its checksum is wrong; take another checkpoint")
    if version != FORMAT:
        raise DataError(f"{file} has format {version}, this version reads {FORMAT}: update hugectr")
    return dict(manifest)


def check_sizes(path: Path, manifest: dict[str, Any]) -> None:
    """Whether every file is there and as long as the manifest says."""
    for name, entry in manifest["files"].items():
        file = path / name
        size = file.stat().st_size if file.is_file() else None
        if size != entry["bytes"]:
            found = "is missing" if size is None else f"has {size} bytes"
            raise DataError(
                f"{file} {found}, the manifest says {entry['bytes']} bytes: take another checkpoint"
            )


def verify(path: Path) -> dict[str, Any]:
    """Check all files of a checkpoint against its manifest, which is returned.

    Raises
    ------
    DataError
        Naming the first file that is wrong.
    """
    manifest = read_manifest(path)
    check_sizes(path, manifest)
    for name, entry in manifest["files"].items():
        checksum = 0
        with open(path / name, "rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                checksum = zlib.crc32(chunk, checksum)
        _check_sum(path / name, checksum, entry)
    return manifest


def _check_sum(file: Path, checksum: int, entry: dict[str, Any]) -> None:
    if checksum != entry["crc32"]:
        raise DataError(
            f"{file} is damaged: its checksum is {checksum:08x}, the manifest says "
            f"{entry['crc32']:08x}; take another checkpoint"
        )


def read_file(path: Path, name: str, entry: dict[str, Any]) -> Array:
    data = (path / name).read_bytes()
    _check_sum(path / name, zlib.crc32(data), entry)
    return np.frombuffer(data, entry["dtype"]).reshape(entry["shape"])


def map_file(path: Path, name: str, files: dict[str, Any]) -> Array:
    """A checked file as an array that stays on disk."""
    entry = files[name]
    if entry["bytes"] == 0:
        return np.zeros(entry["shape"], entry["dtype"])
    values = np.memmap(path / name, entry["dtype"], "r", shape=tuple(entry["shape"]))
    checksum, data = 0, _bytes_of(values)
    for begin in range(0, len(data), _CHUNK):
        checksum = zlib.crc32(data[begin : begin + _CHUNK], checksum)
    _check_sum(path / name, checksum, entry)
    return values
