# SPDX-License-Identifier: Apache-2.0
"""The manifest of a native checkpoint: what is in it, and in which files.

Format 2: every table lies in shards, one a process that saved it. A shard's rows are sorted by
(slot, key) and cut into chunks of ``chunk_rows``; every file has a CRC-32 a chunk, so that any
process can read and check any chunk by itself. Format 1 had one shard and a CRC-32 a file.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.errors import DataError

FORMAT = 2
MANIFEST = "manifest.json"
#: After the name of a step that is saved again, while it takes the place of the one before.
AGAIN = ".again"
_STEP = re.compile(r"step-(\d{10})(\.again)?")
_ROWS_OF_FORMAT_1 = 1 << 16  # rows read in one go; its files have no chunks

Manifest = dict[str, Any]


def step_folder(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is published."""
    return folder / f"step-{step:010d}"


def published(folder: Path) -> list[tuple[int, Path]]:
    """Step and place of every published checkpoint of a folder, oldest first.

    A step is there once: under its own name, or else with ``AGAIN``.
    """
    if not folder.is_dir():
        return []
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir(), reverse=True):  # a name of its own comes last
        match = _STEP.fullmatch(path.name)
        if match and (path / MANIFEST).is_file():
            found[int(match[1])] = path
    return sorted(found.items())


def latest(folder: Path) -> Path | None:
    """The newest published checkpoint of a folder, or None."""
    found = published(folder)
    return found[-1][1] if found else None


def shard_file(table: int, part: str, shard: int, shards: int) -> str:
    """Name of a part of a table's shard; ``shard`` counts from 0, the name from 1."""
    return f"table{table}.{part}.{shard + 1}-of-{shards}"


def manifest_sum(manifest: Manifest) -> int:
    """Checksum of the manifest's content, however it is laid out."""
    rest = {name: value for name, value in manifest.items() if name != "crc32"}
    return zlib.crc32(json.dumps(rest, sort_keys=True).encode())


def manifest_text(manifest: Manifest) -> bytes:
    """The manifest as it lies in its file."""
    return json.dumps(manifest | {"crc32": manifest_sum(manifest)}, indent=1).encode()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a checkpoint folder, in the form of format 2.

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
    if manifest_sum(manifest) != manifest.get("crc32"):
        raise DataError(f"{file} is damaged: its checksum is wrong; take another checkpoint")
    if version not in (1, FORMAT):
        raise DataError(
            f"{file} has format {version}, this version reads 1 and {FORMAT}: update hugectr"
        )
    if version == 1:
        for index, table in enumerate(manifest["tables"]):
            table["chunk_rows"] = _ROWS_OF_FORMAT_1
            files = {part: f"table{index}.{part}" for part in table["parts"]}
            table["shards"] = [{"rows": table["rows"], "files": files}]
    return dict(manifest)


def check_sizes(path: Path, manifest: Manifest) -> None:
    """Whether every file is there and as long as the manifest says."""
    for name, entry in manifest["files"].items():
        file = path / name
        size = file.stat().st_size if file.is_file() else None
        if size != entry["bytes"]:
            found = "is missing" if size is None else f"has {size} bytes"
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
        Rows of the shard.
    """

    shard: int
    begin: int
    end: int


def row_units(table: dict[str, Any]) -> Iterator[RowUnit]:
    """All chunks of a table, shard by shard."""
    step = table["chunk_rows"]
    for number, shard in enumerate(table["shards"]):
        for begin in range(0, shard["rows"], step):
            yield RowUnit(number, begin, min(begin + step, shard["rows"]))


def row_shape(manifest: Manifest, table: dict[str, Any], part: str) -> tuple[str, tuple[int, ...]]:
    """dtype of a part, and shape of one row of it."""
    entry = manifest["files"][table["shards"][0]["files"][part]]
    return entry["dtype"], tuple(entry["shape"][1:])


def row_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes of one row of a part."""
    return int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
