# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that somebody gave us, copied: what its manifest lists, checked on the way."""

from __future__ import annotations

import shutil
from pathlib import Path

from hugectr.base.errors import DataError
from hugectr.checkpoints.chunks import checked_chunks
from hugectr.checkpoints.manifest import (
    MANIFEST,
    all_files,
    check_sizes,
    manifest_text,
    read_manifest,
)


def verified_copy(path: Path, target: Path) -> None:
    """Copy a full checkpoint; other files of its folder stay where they are.

    Nothing is written before the manifest is checked and every file is there with its size.

    Parameters
    ----------
    path : Path
        Of the checkpoint itself.
    target : Path
        A folder that is not there.

    Raises
    ------
    DataError
        When it is damaged, a delta, or larger than the disk of ``target`` has room for; names the
        file of ``path``; ``target`` is not there then.
    """
    manifest = read_manifest(path)
    if manifest.get("chain"):
        raise DataError(
            f"{path} is a delta, which is no use without others: save a full checkpoint there"
        )
    check_sizes(path, manifest)
    entries = list(all_files(manifest))
    needed = sum(entry["bytes"] for _, entry in entries)
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise DataError(
            f"{path} has {needed} bytes, {target.parent} has room for {free}: name a folder of a "
            "larger disk in TMPDIR"
        )
    target.mkdir()
    try:
        for name, entry in entries:
            file = target / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as copied:
                for piece in checked_chunks(path / name, entry):
                    copied.write(piece)
        (target / MANIFEST).write_bytes(manifest_text(manifest))
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
