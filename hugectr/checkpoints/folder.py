# SPDX-License-Identifier: Apache-2.0
"""The folder of a native checkpoint: written whole or not at all, by all processes of a job.

``step-<number>`` holds ``manifest.json`` and the files it lists. It is written under a hidden name,
synced and renamed; what carries a hidden name is never read. Every process writes its own rows;
process 0 makes the folder, writes what all share, publishes, and clears away.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hugectr import log
from hugectr.agreement import LONG, from_root, together
from hugectr.checkpoints.chunks import (
    CHUNK,
    Array,
    ChunkFile,
    ChunkWriter,
    checked_chunks,
    write_file,
)
from hugectr.checkpoints.delta import chain_of
from hugectr.checkpoints.manifest import (
    FORMAT,
    MANIFEST,
    Manifest,
    check_sizes,
    manifest_sum,
    manifest_text,
    published,
    read_manifest,
    row_bytes,
    shard_file,
    step_folder,
)
from hugectr.checkpoints.rows import HeldRows, RowSource, chunk_rows, row_memory
from hugectr.errors import DataError, InvalidArgument
from hugectr.processes.group import ProcessGroup
from hugectr.processes.solo import SoloGroup

_BUFFERS = 4  # chunks of a table in memory: read, or waiting for the disk


@dataclass
class Snapshot:
    """A model's state at one step, as one process sees it.

    Attributes
    ----------
    fields : dict
        What goes into the manifest besides tables and files; only process 0's counts.
    dense : dict of str to ndarray
        Content of the files that all processes share; only process 0's counts.
    tables : list of RowSource
        This process's rows of each table.
    """

    fields: dict[str, Any]
    dense: dict[str, Array] = field(default_factory=dict)
    tables: list[RowSource] = field(default_factory=list)

    @property
    def arrays(self) -> dict[str, Array]:
        """Everything as arrays: ``dense.weights``, ..., ``table0.key``, ..."""
        found = dict(self.dense)
        for index, table in enumerate(self.tables):
            values = table.read(0, table.rows)
            found |= {f"table{index}.{part}": array for part, array in values.items()}
        return found


def write(
    folder: Path, snapshot: Snapshot, keep_last: int = 0, group: ProcessGroup | None = None
) -> Path:
    """Write and publish a snapshot. Collective.

    Parameters
    ----------
    folder : Path
        Of all checkpoints of a run; made when it is not there. One file system for all processes.
    snapshot : Snapshot
    keep_last : int
        Published checkpoints to keep, and what deltas among them need; 0: all.
    group : ProcessGroup, optional
        The processes that write; None: this one.

    Returns
    -------
    Path
        The published folder.

    Raises
    ------
    OSError
        Disk full, no right to write: the same on all processes, with the rank of the one it
        happened to. What was published before is untouched.
    """
    group = group or SoloGroup()
    step = snapshot.fields["step"]
    steps = together(group, lambda: step)
    if len(set(steps)) > 1:
        raise InvalidArgument(f"{folder}: the processes are at different steps {steps}")
    target = step_folder(folder, step)
    work = from_root(group, lambda: begin(folder, target.name))
    try:
        shards = together(group, lambda: _write_shard(work, snapshot, group), LONG)
        from_root(
            group, lambda: publish(work, target, _manifest(snapshot, shards), keep_last), LONG
        )
    except BaseException:
        if group.rank == 0:
            shutil.rmtree(work, ignore_errors=True)
        raise
    return target


def begin(folder: Path, name: str) -> Path:
    """Clear away what killed runs left, and make the hidden folder to write to."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(".saving-*"):  # of runs that were killed while saving
        shutil.rmtree(path, ignore_errors=True)
    work = folder / f".saving-{name}-{uuid.uuid4().hex[:8]}"
    work.mkdir()
    return work


def _write_shard(work: Path, snapshot: Snapshot, group: ProcessGroup) -> dict[str, Any]:
    """Write this process's files; returns its part of the manifest."""
    if not work.is_dir():
        raise FileNotFoundError(
            f"{work} was made by process 0 and is not seen here: checkpoints of a job need a "
            "folder that all processes share"
        )
    tables = []
    with ChunkWriter() as writer:
        files: dict[str, tuple[ChunkFile, str, tuple[int, ...]]] = {}
        if group.rank == 0:
            for name, values in snapshot.dense.items():
                file = write_file(work / name, values, writer)
                files[name] = file, str(values.dtype), values.shape
        for index, table in enumerate(snapshot.tables):
            names = {part: shard_file(index, part, group.rank, group.size) for part in table.parts}
            files |= _write_table(work, table, names, writer)
            tables.append({"rows": table.rows, "files": names})
        writer.finish()
        entries = {name: file.entry(dtype, shape) for name, (file, dtype, shape) in files.items()}
    return {"tables": tables, "files": entries}


def _write_table(
    work: Path, table: RowSource, names: dict[str, str], writer: ChunkWriter
) -> dict[str, tuple[ChunkFile, str, tuple[int, ...]]]:
    step = chunk_rows(table.parts, CHUNK)
    files = {}
    for part, (dtype, shape) in table.parts.items():
        file = writer.open(work / names[part], step * row_bytes(dtype, shape))
        files[names[part]] = file, dtype, (table.rows, *shape)
    # The same memory over and over: the first touch of new memory costs more than the write.
    free = [row_memory(table.parts, min(step, table.rows)) for _ in range(_BUFFERS)]
    busy: deque[list[Future[None]]] = deque()
    for number, begin in enumerate(range(0, table.rows, step)):
        if len(busy) == _BUFFERS:
            for written in busy.popleft():
                written.result()
        values = table.read(begin, min(begin + step, table.rows), free[number % _BUFFERS])
        busy.append(
            [writer.put(files[name][0], number, values[part]) for part, name in names.items()]
        )
    return files


def _manifest(snapshot: Snapshot, shards: list[dict[str, Any]]) -> Manifest:
    tables = []
    files: dict[str, Any] = {}
    for index, table in enumerate(snapshot.tables):
        parts = [shard["tables"][index] for shard in shards]
        tables.append(
            {
                "name": table.name,
                "rows": sum(part["rows"] for part in parts),
                "vec_size": table.parts["vector"][1][0],
                "parts": list(table.parts),
                "chunk_rows": chunk_rows(table.parts, CHUNK),
                "shards": parts,
            }
        )
    for shard in shards:
        files |= shard["files"]
    return snapshot.fields | {"tables": tables, "files": files}


def publish(work: Path, target: Path, fields: Manifest, keep_last: int) -> None:
    """Make a hidden folder with all its files a checkpoint.

    Parameters
    ----------
    work, target : Path
    fields : dict
        The manifest without format and checksum.
    keep_last : int
        As in ``write``.

    Raises
    ------
    InvalidArgument
        When the target is there and deltas build on it.
    """
    manifest = fields | {"format": FORMAT}
    with ChunkWriter() as writer:
        write_file(work / MANIFEST, np.frombuffer(manifest_text(manifest), np.uint8), writer)
        writer.finish()
    _sync(work)
    if target.exists():  # the same step saved again
        if _is_needed(target, manifest_sum(manifest)):
            shutil.rmtree(work)
            return
        _retire(target)
    work.rename(target)
    _sync(target.parent)
    if keep_last > 0:
        _retire_all_but(target.parent, keep_last)


def _is_needed(target: Path, new_sum: int) -> bool:
    """Whether the published checkpoint must stay, because deltas build on it.

    Raises
    ------
    InvalidArgument
        When what would replace it is something else.
    """
    for _, path in published(target.parent):
        if path != target and target.name in _chain(path):
            if read_manifest(target)["crc32"] != new_sum:
                raise InvalidArgument(
                    f"{target} can not be replaced: the delta {path.name} builds on it; save to "
                    "another folder, or remove that delta and what builds on it"
                )
            return True
    return False


def _chain(path: Path) -> set[str]:
    """What a checkpoint builds on; of a damaged one that is nothing that could be used."""
    try:
        return set(read_manifest(path).get("chain", []))
    except DataError as error:
        log.warning(str(error))
        return set()


def _retire_all_but(folder: Path, keep_last: int) -> None:
    found = [path for _, path in published(folder)]
    kept = {path.name for path in found[-keep_last:]}
    for path in found[-keep_last:]:
        kept |= _chain(path)
    for path in found[:-keep_last]:
        if path.name not in kept:
            _retire(path)


def _retire(path: Path) -> None:
    """Remove a checkpoint so that no half of it is ever taken for one."""
    hidden = path.with_name(f".saving-{path.name}-old")
    path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def verify(path: str | os.PathLike[str]) -> Manifest:
    """Check all of a checkpoint: every file, and for a delta all it builds on.

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    DataError
        Naming the first file that is wrong.
    """
    manifest: Manifest = {}
    for link in chain_of(Path(path)):
        manifest = read_manifest(link)
        check_sizes(link, manifest)
        for name, entry in manifest["files"].items():
            for _ in checked_chunks(link / name, entry):
                pass
    return manifest


def held(snapshot: Snapshot) -> Snapshot:
    """The snapshot with all rows in memory of their own, so that training may go on."""
    tables: list[RowSource] = [
        HeldRows(table.name, table.read(0, table.rows)) for table in snapshot.tables
    ]
    return Snapshot(snapshot.fields, snapshot.dense, tables)
