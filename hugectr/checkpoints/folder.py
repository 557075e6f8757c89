# SPDX-License-Identifier: Apache-2.0
"""Snapshots written by all processes of a job, and checked.

``step-<number>`` holds ``manifest.json`` and the files it lists. Every process writes its own rows
to a hidden folder; process 0 makes that, writes what all share, and publishes it
(``publication``).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections import deque
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hugectr._core import HeldFolder
from hugectr.base import log
from hugectr.base.errors import DataError, InvalidArgument
from hugectr.checkpoints import schema_files
from hugectr.checkpoints.chunks import (
    CHUNK,
    Array,
    ChunkFile,
    ChunkWriter,
    checked_chunks,
    write_file,
)
from hugectr.checkpoints.delta import chain_of
from hugectr.checkpoints.finite import NonFinite
from hugectr.checkpoints.manifest import (
    Manifest,
    all_files,
    check_sizes,
    read_manifest,
    row_bytes,
    shard_file,
    step_folder,
)
from hugectr.checkpoints.ownership import Writer
from hugectr.checkpoints.publication import Publication
from hugectr.checkpoints.reread import read_again
from hugectr.checkpoints.rows import (
    HeldRows,
    RowSource,
    chunk_rows,
    row_memory,
    stored_parts,
)
from hugectr.checkpoints.shard_names import shard_rows
from hugectr.processes.agreement import LONG, from_root, together
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
    gone : list of RowSource
        Of a delta, where rows went since what it builds on: their keys and slots, of each table.
        The same on all processes: of all tables, or of none.
    schema : dict of str to bytes
        Files of the schema of the data, none where there is none; only process 0's count.
    crc32 : int or None
        Checksum of the manifest, on process 0 when the snapshot is published.
    """

    fields: dict[str, Any]
    dense: dict[str, Array] = field(default_factory=dict)
    tables: list[RowSource] = field(default_factory=list)
    gone: list[RowSource] = field(default_factory=list)
    schema: Mapping[str, bytes] = field(default_factory=dict)
    crc32: int | None = None

    @classmethod
    def of_values(cls, model: str, step: int, seed: int | None = None) -> Snapshot:
        """One of weights and rows alone: of how they were trained it knows nothing."""
        unknown = dict.fromkeys(("data_position", "learning_rate", "loss_scaling"))
        known = {"model": model, "step": step, "seed": seed}
        return cls(known | unknown | {"frozen": [], "fit_epoch": 0, "statistics": []})

    @property
    def arrays(self) -> dict[str, Array]:
        """Everything as arrays: ``dense.weights``, ..., ``table0.key``, ..."""
        found = dict(self.dense)
        for index, table in enumerate(self.tables):
            values = table.read(0, table.rows)
            found |= {f"table{index}.{part}": array for part, array in values.items()}
        return found


def write(
    folder: Path,
    snapshot: Snapshot,
    keep_last: int = 0,
    group: ProcessGroup | None = None,
    *,
    resumed_in: Path | None = None,
    allow_nonfinite: bool = False,
    ways: str = Writer.ways,
) -> Path:
    """Write and publish a snapshot. Collective.

    Parameters
    ----------
    folder : Path
        Of all checkpoints of a run; made when it is not there. One file system for all processes.
    snapshot : Snapshot
    keep_last : int
        Published checkpoints of the run to keep, and what deltas among them need; 0: all.
    group : ProcessGroup, optional
        The processes that write; None: this one.
    resumed_in : Path, optional
        Folder of the checkpoint that the model was resumed from (``ownership.Writer``).
    allow_nonfinite : bool
        Publish infinities and NaN too; the manifest then has ``"finite": false``.
    ways : str
        How who saves could go on from a checkpoint, in words (``ownership.Writer``).

    Returns
    -------
    Path
        The published folder: it is there, with all its files.

    Raises
    ------
    OSError
        Disk full, no right to write, the folder removed: the same on all processes, with the rank
        of the one it happened to. What was published before is untouched.
    InvalidArgument
        When somebody else is saving there, or the folder is another run's.
    DataError
        When values are not finite, a segment that is to be linked is damaged, or files are not
        there any more when they are published.
    """
    group = group or SoloGroup()
    step = snapshot.fields["step"]
    steps = together(group, lambda: step)
    if len(set(steps)) > 1:
        raise InvalidArgument(f"{folder}: the processes are at different steps {steps}")
    run = snapshot.fields.get("run")
    writer = Writer(run, resumed_in, copies=run is None, ways=ways)
    with HeldFolder() as held, contextlib.ExitStack() as stack:
        own: list[Publication] = []  # of process 0 alone

        chain = snapshot.fields.get("chain", [])

        def begin() -> tuple[Path, list[int] | None]:
            own.append(stack.enter_context(Publication(folder, step, writer, held)))
            return own[0].work, own[0].plan_removal(keep_last, chain)

        work, listed = from_root(group, begin)
        known = None if listed is None else frozenset(listed)
        shards = together(group, lambda: _write_shard(work, snapshot, group, known), LONG)

        def publish() -> None:
            fields = _manifest(snapshot, shards)
            fields |= _finite_field(step_folder(folder, step), shards, allow_nonfinite)
            read_again(folder, chain, known)
            snapshot.crc32 = own[0].publish(fields)

        from_root(group, publish, LONG)
    return step_folder(folder, step)


def _finite_field(
    target: Path, shards: list[dict[str, Any]], allow_nonfinite: bool
) -> dict[str, bool]:
    found = [text for shard in shards for text in shard["nonfinite"]]
    if not found:
        return {}
    text = f"values that are infinite or no number: {'; '.join(found[:4])}"
    if not allow_nonfinite:
        raise DataError(
            f"{target} is not published, it has {text}. Go on from the last checkpoint, with a "
            "smaller learning rate or a longer warm-up; or save with allow_nonfinite=True"
        )
    log.warning(f"{target} has {text}")
    return {"finite": False}


def _write_shard(
    work: Path, snapshot: Snapshot, group: ProcessGroup, known: Collection[int] | None
) -> dict[str, Any]:
    """Write this process's files; returns its part of the manifest."""
    if not work.is_dir():
        raise FileNotFoundError(
            f"{work} was made by process 0 and is not seen here: checkpoints of a job need a "
            "folder that all processes share"
        )
    tables: list[dict[str, Any]] = []
    linked: dict[str, Any] = {}
    with ChunkWriter() as writer:
        files: dict[str, tuple[ChunkFile, str, tuple[int, ...]]] = {}
        if group.rank == 0:
            for name, values in snapshot.dense.items():
                file = write_file(work / name, values, writer)
                files[name] = file, str(values.dtype), values.shape
            schema = schema_files.write(work, snapshot.schema, writer)
        else:
            schema = {}
        for index, table in enumerate(snapshot.tables):
            names = {part: shard_file(index, part, group.rank, group.size) for part in table.parts}
            files |= _write_table(work, table, names, writer)
            tables.append({"rows": table.rows, "files": names})
            if table.linked:
                places = [(index, group.rank, group.size, n) for n in range(len(table.linked))]
                for place, one in zip(places, table.linked, strict=True):
                    files |= one.write(work, place, chunk_rows(table.parts, CHUNK), writer)
                    linked |= one.share(work, place, writer, known)
                tables[-1]["linked"] = [one.described() for one in table.linked]
        gone = []
        for index, table in enumerate(snapshot.gone):
            names = {
                part: shard_file(index, part, group.rank, group.size, "gone")
                for part in table.parts
            }
            files |= _write_table(work, table, names, writer)
            gone.append({"rows": table.rows, "files": names})
        writer.finish()
        schema_files.sync(work, schema)
        entries = {name: file.entry(dtype, shape) for name, (file, dtype, shape) in files.items()}
        bad = {name: file.nonfinite for name, (file, _, _) in files.items() if file.nonfinite}
    found = [_in_words(snapshot, tables, name, bad[name]) for name in bad]
    return {
        "tables": tables,
        "gone": gone,
        "files": entries | linked,
        "nonfinite": found,
        "schema": schema_files.entries(schema),
    }


def _in_words(snapshot: Snapshot, tables: list[dict[str, Any]], name: str, bad: NonFinite) -> str:
    """Where a file has values that are not finite."""
    for table, described in zip(snapshot.tables, tables, strict=True):
        for part, file in described["files"].items():
            if file == name:
                row = bad.first // math.prod(table.parts[part][1])
                values = table.read(row, row + 1)
                slot = f" of slot {values['slot'][0]}" if "slot" in values else ""
                key = f"first of key {values['key'][0]}{slot}"
                return f"table {table.name!r}, {part}: {bad.count}, {key}"
    end = 0
    for tensor in snapshot.fields.get("dense_tensors", []) if name == "dense.weights" else []:
        end += math.prod(tensor["shape"])
        if bad.first < end:
            return f"{name}: {bad.count}, first in {tensor['name']!r}"
    return f"{name}: {bad.count}, first at place {bad.first}"


def _write_table(
    work: Path, table: RowSource, names: dict[str, str], writer: ChunkWriter
) -> dict[str, tuple[ChunkFile, str, tuple[int, ...]]]:
    step = chunk_rows(table.parts, CHUNK)
    files = {}
    for part, (dtype, shape) in stored_parts(table.parts, table.vector_type).items():
        file = writer.open(work / names[part], step * row_bytes(dtype, shape), dtype)
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
    tables = [
        _table_entry(table, table, [shard["tables"][index] for shard in shards])
        for index, table in enumerate(snapshot.tables)
    ]
    gone = [
        _table_entry(snapshot.tables[index], table, [shard["gone"][index] for shard in shards])
        for index, table in enumerate(snapshot.gone)
    ]
    files: dict[str, Any] = {}
    schema: dict[str, Any] = {}
    for shard in shards:
        files |= shard["files"]
        schema |= shard["schema"]
    of_schema = {"schema": schema} if schema else {}
    of_gone = {"gone": gone} if gone else {}
    return snapshot.fields | {"tables": tables, "files": files} | of_gone | of_schema


def _table_entry(table: RowSource, rows: RowSource, shards: list[dict[str, Any]]) -> dict[str, Any]:
    """What the manifest says of a table, or of rows that went of it."""
    return {
        "name": table.name,
        "rows": sum(map(shard_rows, shards)),
        "vec_size": table.parts["vector"][1][0],
        "parts": list(rows.parts),
        **({} if table.placement is None else {"placement": table.placement}),
        "chunk_rows": chunk_rows(rows.parts, CHUNK),
        "shards": shards,
    }


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
        for name, entry in all_files(manifest):
            for _ in checked_chunks(link / name, entry):
                pass
    return manifest


def held(snapshot: Snapshot) -> Snapshot:
    """The snapshot with all rows in memory of their own, so that training may go on."""
    tables: list[RowSource] = [
        HeldRows(
            table.name,
            table.read(0, table.rows),
            table.placement,
            table.vector_type,
            table.linked,
        )
        for table in snapshot.tables
    ]
    return Snapshot(
        snapshot.fields, snapshot.dense, tables, gone=snapshot.gone, schema=snapshot.schema
    )
