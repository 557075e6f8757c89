# SPDX-License-Identifier: Apache-2.0
"""Delta checkpoints: the rows touched since an earlier checkpoint, which names the way back.

A delta holds everything a full checkpoint does but for the rows that did not change. Its manifest
has ``chain``: the full checkpoint and all deltas before it, oldest first, with the checksums of
their manifests. Replaying the chain gives the very state that a full checkpoint would hold: a delta
has every row that was touched and, as ``gone``, the keys of the rows that were erased or evicted,
which are taken away before its rows are put in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hugectr.base.errors import DataError
from hugectr.checkpoints.manifest import Manifest, read_manifest


@dataclass(frozen=True)
class Base:
    """What the next delta may build on: a checkpoint, and the marks taken with it.

    Attributes
    ----------
    path : Path
        The published checkpoint.
    marks : tuple of int
        One a table.
    crc32 : int or None
        Checksum of its manifest; None: known to process 0 alone.
    """

    path: Path
    marks: tuple[int, ...]
    crc32: int | None = None

    def is_there(self) -> bool:
        """Whether it is still what it was."""
        try:
            return bool(read_manifest(self.path)["crc32"] == self.crc32)
        except DataError:
            return False


def chain_fields(base: Path) -> dict[str, list[str] | list[int]]:
    """What the manifest of a delta says about the checkpoint it builds on.

    Raises
    ------
    DataError
        When that is gone or damaged.
    """
    manifest = read_manifest(base)
    return {
        "chain": [*manifest.get("chain", []), base.name],
        "chain_crc32": [*manifest.get("chain_crc32", []), manifest["crc32"]],
    }


def read_chain(path: Path) -> list[tuple[Path, Manifest]]:
    """The checkpoints to replay and their manifests, oldest first; ``path`` is the last.

    Raises
    ------
    DataError
        When one of them is missing, damaged, or not the one that the delta was made from.
    """
    manifest = read_manifest(path)
    chain = manifest.get("chain", [])
    links = []
    for place, (name, wanted) in enumerate(
        zip(chain, manifest.get("chain_crc32", []), strict=True)
    ):
        link = path.parent / name
        if not link.is_dir():
            raise DataError(
                f"{path} is a delta and needs {link}, which is not there: copy deltas together "
                "with what they build on, or take a full checkpoint"
            )
        earlier = read_manifest(link)
        if earlier["crc32"] != wanted or earlier.get("chain", []) != chain[:place]:
            raise DataError(
                f"{link} is not the checkpoint that the delta {path.name} was made from: take "
                "another checkpoint"
            )
        links.append((link, earlier))
    return [*links, (path, manifest)]


def chain_of(path: Path) -> list[Path]:
    """The checkpoints of ``read_chain``."""
    return [link for link, _ in read_chain(path)]
