# SPDX-License-Identifier: Apache-2.0
"""The manifest of a native checkpoint: what is in it, and in which files.

Every table lies in shards, one a process that saved it. A shard's rows are sorted by (slot, key)
and cut into chunks of ``chunk_rows``; every file has a CRC-32 a chunk, so that any process can read
and check any chunk by itself. Format 3 says which model and run the checkpoint is of. Format 2 did
not; format 1 had one shard and a CRC-32 a file besides. ``manifest_schema`` has the fields.
"""

from __future__ import annotations

import json
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.base.errors import DataError, InvalidArgument
from hugectr.base.regular_file import read_bounded
from hugectr.checkpoints.bfloat16 import ITEM_BYTES, in_memory
from hugectr.checkpoints.manifest_schema import (
    FORMATS,
    LINKED_FORMAT,
    Manifest,
    checked,
)
from hugectr.checkpoints.shard_names import shard_file

#: The newest that is read.
FORMAT = FORMATS[-1]
MANIFEST = "manifest.json"
#: Folder of the schema of the data, in a checkpoint that has one.
SCHEMA = "schema"
#: After the name of a step that is saved again, while it takes the place of the one before.
AGAIN = ".again"
_STEP = re.compile(r"step-([0-9]{10})(\.again)?")
#: Bytes of the largest manifest that is read; 10 TB of tables take about 50 MB.
_LARGEST = 256 << 20


def step_folder(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is published."""
    return folder / f"step-{step:010d}"


def published(folder: Path) -> list[tuple[int, Path]]:
    """Step and place of every published checkpoint of a folder, oldest first.

    A step is there once: under its own name, or else with ``AGAIN``.
    """
    listed = _steps_in(folder)
    while True:
        found = {step: path for step, path in listed if (path / MANIFEST).is_file()}
        before, listed = listed, ([] if found else _steps_in(folder))
        # Where all that were listed are gone, a job that keeps few has saved another meanwhile.
        if found or listed == before:
            return sorted(found.items())


def _steps_in(folder: Path) -> list[tuple[int, Path]]:
    """What is called as a checkpoint is; of a step twice a name of its own comes last."""
    if not folder.is_dir():
        return []
    paths = sorted(folder.iterdir(), reverse=True)
    matches = ((_STEP.fullmatch(path.name), path) for path in paths)
    return [(int(match[1]), path) for match, path in matches if match]


def latest(folder: Path) -> Path | None:
    """The newest published checkpoint of a folder, or None."""
    found = published(folder)
    return found[-1][1] if found else None


def checkpoint_at(path: Path, where: str) -> Path:
    """The checkpoint that a path names: itself, or the newest of a folder of them.

    Raises
    ------
    InvalidArgument
        When there is none; ``where`` is the call.
    """
    if (path / MANIFEST).is_file():
        return path
    newest = latest(path)
    if newest is None:
        why = "" if path.exists() else "; there is no such folder"
        raise InvalidArgument(f"{where}: {path} is no checkpoint and has none in it{why}")
    return newest


def format_of(manifest: Manifest) -> int:
    """The format that a manifest needs: earlier versions read all but linked rows."""
    has_linked = any("linked" in shard for t in manifest["tables"] for shard in t["shards"])
    return LINKED_FORMAT if has_linked else LINKED_FORMAT - 1


def manifest_sum(manifest: Manifest) -> int:
    """Checksum of the manifest's content, however it is laid out."""
    rest = {name: value for name, value in manifest.items() if name != "crc32"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def manifest_text(manifest: Manifest) -> bytes:
    """The manifest as it lies in its file."""
    return json.dumps(manifest | {"crc32": manifest_sum(manifest)}, indent=1).encode()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a checkpoint folder, checked, in the form of the newest format.

    Raises
    ------
    DataError
        When it is missing, damaged, or of a later format.
    """
    file = path / MANIFEST
    try:
        manifest = json.loads(read_bounded(file, _LARGEST))
        if type(manifest) is not dict or type(manifest.get("format")) is not int:
            raise ValueError("it is no object with a format")
        version = manifest["format"]
        intact = manifest_sum(manifest) == manifest.get("crc32")
        if version > FORMAT:
            also = "" if intact else ", or the file is damaged: its checksum is wrong"
            raise DataError(
                f"{file} has format {version}, this version reads 1 to {FORMAT}: update hugectr"
                + also
            )
        if not intact:
            raise DataError(f"{file} is damaged: its checksum is wrong; take another checkpoint")
        if version not in FORMATS:
            raise DataError(f"{file} has format {version}, formats are 1 to {FORMAT}")
        checked(manifest, version)
        named = _STEP.fullmatch(path.name)
        if named and int(named[1]) != manifest["step"]:
            raise ValueError(f"it is of step {manifest['step']}, its folder of another")
        return manifest
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"{file} can not be read ({error}): take another checkpoint") from error


def all_files(manifest: Manifest) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and entry of every file of a checkpoint but the manifest itself."""
    yield from manifest["files"].items()
    for name, entry in manifest.get("schema", {}).items():
        yield f"{SCHEMA}/{name}", entry


def check_sizes(path: Path, manifest: Manifest) -> None:
    """Whether every file is there and as long as the manifest says."""
    for name, entry in all_files(manifest):
        file = path / name
        try:
            known = file.stat()
            found = f"has {known.st_size} bytes"
            if not stat.S_ISREG(known.st_mode):
                found = "is no regular file"
            elif known.st_size == entry["bytes"]:
                continue
        except FileNotFoundError:
            found = "is missing"
        except OSError as error:
            found = f"can not be read ({error})"
        raise DataError(
            f"{file} {found}, the manifest says {entry['bytes']} bytes: take another checkpoint"
        )


@dataclass(frozen=True)
class RowUnit:
    """Rows of a table that are read in one go: a chunk of a shard.

    Attributes
    ----------
    shard : int
    begin, end : int
        Rows of the shard, or of its linked shard.
    linked : int or None
        Of those that the shard has; None: rows in files of their own.
    """

    shard: int
    begin: int
    end: int
    linked: int | None = None


def row_units(table: dict[str, Any]) -> Iterator[RowUnit]:
    """All chunks of a table, shard by shard."""
    step = table["chunk_rows"]
    for number, shard in enumerate(table["shards"]):
        for begin in range(0, shard["rows"], step):
            yield RowUnit(number, begin, min(begin + step, shard["rows"]))
        for linked, entry in enumerate(shard.get("linked", [])):
            for begin in range(0, entry["rows"], step):
                yield RowUnit(number, begin, min(begin + step, entry["rows"]), linked)


def row_shape(manifest: Manifest, table: dict[str, Any], part: str) -> tuple[str, tuple[int, ...]]:
    """dtype of a part in memory, and shape of one row of it."""
    entry = manifest["files"][table["shards"][0]["files"][part]]
    return in_memory(entry["dtype"]), tuple(entry["shape"][1:])


def stored_vector_type(manifest: Manifest, table: dict[str, Any]) -> str:
    """dtype of a table's vectors in its files."""
    return str(manifest["files"][table["shards"][0]["files"]["vector"]]["dtype"])


def row_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of one row of a part, in memory or in a file as ``dtype`` says."""
    size = ITEM_BYTES.get(dtype) or np.dtype(dtype).itemsize
    return int(size * np.prod(shape, dtype=np.int64))


__all__ = [
    "FORMAT",
    "MANIFEST",
    "SCHEMA",
    "Manifest",
    "RowUnit",
    "all_files",
    "check_sizes",
    "checkpoint_at",
    "format_of",
    "latest",
    "manifest_sum",
    "manifest_text",
    "published",
    "read_manifest",
    "row_bytes",
    "row_shape",
    "row_units",
    "shard_file",
    "step_folder",
    "stored_vector_type",
]
