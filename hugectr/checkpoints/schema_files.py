# SPDX-License-Identifier: Apache-2.0
"""The schema of the training data in a checkpoint: files of a folder of its own, as bytes.

What is in them is the business of ``hugectr.data``; here they are written, checked and copied.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hugectr.checkpoints.chunks import ChunkFile, ChunkWriter, checked_chunks, write_file
from hugectr.checkpoints.manifest import SCHEMA, Manifest


def write(work: Path, files: Mapping[str, bytes], writer: ChunkWriter) -> dict[str, ChunkFile]:
    """Have the files of a schema written, by name; nothing for one that has none.

    Parameters
    ----------
    work : Path
        Folder of the checkpoint.
    files : dict of str to bytes
    writer : ChunkWriter
    """
    if files:
        (work / SCHEMA).mkdir()
    return {
        name: write_file(work / SCHEMA / name, np.frombuffer(content, np.uint8), writer)
        for name, content in files.items()
    }


def sync(work: Path, written: Mapping[str, ChunkFile]) -> None:
    """Wait until the disk has the names of the files too."""
    if not written:
        return
    handle = os.open(work / SCHEMA, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def entries(written: Mapping[str, ChunkFile]) -> dict[str, dict[str, Any]]:
    """What the manifest says of them, when the writer has finished."""
    kept = ("bytes", "chunk_bytes", "crc32")
    found = {}
    for name, file in written.items():
        entry = file.entry("uint8", (file.bytes,))
        found[name] = {field: entry[field] for field in kept}
    return found


def read(path: Path, manifest: Manifest) -> dict[str, bytes]:
    """The files of a checkpoint's schema, checked; none: it has none.

    Raises
    ------
    DataError
        Naming the file that is damaged.
    """
    return {
        name: b"".join(checked_chunks(path / SCHEMA / name, entry))
        for name, entry in manifest.get("schema", {}).items()
    }
