# SPDX-License-Identifier: Apache-2.0
"""Another number of shards, or one full checkpoint out of a chain of deltas: ``model reshard``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hugectr._core import HeldFolder, row_owners
from hugectr.checkpoints import schema_files
from hugectr.checkpoints.chunks import (
    CHUNK,
    Array,
    ChunkFile,
    ChunkWriter,
    read_array,
    write_file,
)
from hugectr.checkpoints.manifest import row_bytes, shard_file, step_folder
from hugectr.checkpoints.merge import Link, MergedRows, links_of
from hugectr.checkpoints.ownership import Writer
from hugectr.checkpoints.publication import Publication
from hugectr.checkpoints.rows import chunk_rows, stored_parts
from hugectr.checkpoints.shard_names import linked_names


class ShardFiles:
    """The files of one shard, written as its rows come.

    Parameters
    ----------
    work : Path
        Folder to write to.
    names : dict of str to str
        Part -> file.
    rows : MergedRows
        Of the table.
    writer : ChunkWriter
    """

    def __init__(
        self, work: Path, names: dict[str, str], rows: MergedRows, writer: ChunkWriter
    ) -> None:
        self.names, self.rows = names, 0
        self._parts = stored = stored_parts(rows.parts, rows.vector_type)
        self._writer = writer
        self.step = chunk_rows(rows.parts, CHUNK)
        self._files: dict[str, ChunkFile] = {
            part: writer.open(work / names[part], self.step * row_bytes(dtype, shape), dtype)
            for part, (dtype, shape) in stored.items()
        }
        self._waiting: list[dict[str, Array]] = []
        self._count = self._chunks = 0

    def add(self, values: dict[str, Array]) -> None:
        """Rows behind those that came before."""
        self._waiting.append(values)
        self._count += len(values["key"])
        if self._count >= self.step:
            self._write(self._count - self._count % self.step)

    def _write(self, count: int) -> None:
        joined = {
            part: np.concatenate([values[part] for values in self._waiting]) for part in self._parts
        }
        for first in range(0, count, self.step):
            for part, file in self._files.items():
                chunk = joined[part][first : min(first + self.step, count)]
                self._writer.put(file, self._chunks, chunk)
            self._chunks += 1
        self._waiting = [{part: values[count:].copy() for part, values in joined.items()}]
        self._count -= count
        self.rows += count

    def finish(self) -> None:
        """Write what is left."""
        if self._count:
            self._write(self._count)

    def entries(self) -> dict[str, dict[str, Any]]:
        """What the manifest says; after the writer has finished."""
        return {
            self.names[part]: self._files[part].entry(dtype, (self.rows, *shape))
            for part, (dtype, shape) in self._parts.items()
        }


def reshard(path: Path, folder: Path, shards: int) -> Path:
    """Write a checkpoint again, full and with another number of shards, in bounded memory.

    Rows go to the shards that as many processes of one device each would save.

    Parameters
    ----------
    path : Path
        A checkpoint; of a delta all it builds on is read.
    folder : Path
        Folder of checkpoints to publish it in.
    shards : int

    Returns
    -------
    Path
        The new checkpoint.

    Raises
    ------
    DataError
        When a file is damaged.
    InvalidArgument
        When the folder is another run's, somebody saves there, or it has that step and deltas
        build on it.
    """
    links = links_of(path)
    manifest = links[-1][1]
    writer = Writer(manifest.get("run"), path.resolve().parent, copies=True)
    step = manifest["step"]
    with HeldFolder() as held, Publication(folder, step, writer, held) as publication:
        content = _write_files(links, publication.work, shards)
        fields = {
            name: value
            for name, value in manifest.items()
            if name not in ("tables", "gone", "files", "crc32", "chain", "chain_crc32")
        }
        publication.publish(fields | content)
    return step_folder(folder, step)


def _write_files(links: list[Link], work: Path, shards: int) -> dict[str, Any]:
    """Write everything; ``tables`` and ``files`` of the manifest."""
    manifest = links[-1][1]
    with ChunkWriter() as writer:
        plain = _copy_dense(links[-1], work, writer)
        schema = schema_files.write(work, schema_files.read(*links[-1]), writer)
        tables = [
            _write_table(
                MergedRows(links, index), table.get("placement"), work, index, shards, writer
            )
            for index, table in enumerate(manifest["tables"])
        ]
        writer.finish()
        schema_files.sync(work, schema)
        files: dict[str, Any] = {
            name: file.entry(manifest["files"][name]["dtype"], manifest["files"][name]["shape"])
            for name, file in plain.items()
        }
    described = []
    for table, parts in zip(manifest["tables"], tables, strict=True):
        for part in parts:
            files |= part.entries()
        described.append(
            table
            | {
                "rows": sum(part.rows for part in parts),
                "chunk_rows": parts[0].step,
                "shards": [{"rows": part.rows, "files": part.names} for part in parts],
            }
        )
    return {"tables": described, "files": files}


def _copy_dense(link: Link, work: Path, writer: ChunkWriter) -> dict[str, ChunkFile]:
    """Files that are no part of a table."""
    path, manifest = link
    in_tables = {
        name
        for table in [*manifest["tables"], *manifest.get("gone", [])]
        for shard in table["shards"]
        for name in shard["files"].values()
    }
    for index, table in enumerate(manifest["tables"]):
        in_tables.update(linked_names(index, table))
    return {
        name: write_file(work / name, read_array(path / name, entry), writer)
        for name, entry in manifest["files"].items()
        if name not in in_tables
    }


def _write_table(
    rows: MergedRows,
    placement: str | None,
    work: Path,
    index: int,
    shards: int,
    writer: ChunkWriter,
) -> list[ShardFiles]:
    files = [
        ShardFiles(work, {p: shard_file(index, p, shard, shards) for p in rows.parts}, rows, writer)
        for shard in range(shards)
    ]
    for block in rows.blocks():
        owners = row_owners(placement, block["key"], block.get("slot"), shards)
        for shard, file in enumerate(files):
            chosen = owners == shard
            if chosen.any():
                file.add({part: values[chosen] for part, values in block.items()})
    for file in files:
        file.finish()
    return files
