# SPDX-License-Identifier: Apache-2.0
"""Which segments that checkpoints link are read again before other checkpoints go.

A link is one more name of a file: what has rotted in it is as bad by every name. So a checkpoint
loses nothing of what stays where its segments are those of the one that stays. One that has its
rows in other files may be the last good one: before it goes, what stays is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from hugectr.base.errors import DataError
from hugectr.checkpoints.chunks import checked_chunks
from hugectr.checkpoints.manifest import Manifest, read_manifest
from hugectr.checkpoints.shard_names import linked_shards, segment_file

#: A checkpoint of a folder, and what it says.
Found = tuple[Path, Manifest]


def _segments(path: Path, manifest: Manifest) -> Iterator[str]:
    """Names of the linked segments of a checkpoint."""
    for index, table in enumerate(manifest["tables"]):
        for where, linked in linked_shards(index, table):
            for number in range(len(linked["heads"])):
                yield segment_file(number, *where)


def _inodes(path: Path, manifest: Manifest) -> set[int]:
    """Those of all segments that a checkpoint needs, its own and those of what it builds on."""
    device = path.parent.stat().st_dev
    found: set[int] = set()
    links = [(path, manifest)]
    for name in manifest.get("chain", []):
        try:
            links.append((path.parent / name, read_manifest(path.parent / name)))
        except DataError:  # who can not be read shares nothing
            continue
    for link, of_link in links:
        for name in _segments(link, of_link):
            try:
                known = os.lstat(link / name)
            except OSError:
                continue
            if stat.S_ISREG(known.st_mode) and known.st_dev == device:
                found.add(known.st_ino)
    return found


def known_inodes(going: Sequence[Found], staying: Sequence[Found]) -> list[int]:
    """Inodes of segments that need not be read again when some checkpoints of a folder go.

    Parameters
    ----------
    going : sequence of (Path, dict)
        That are to be removed.
    staying : sequence of (Path, dict)
        The others.

    Returns
    -------
    list of int
        Segments that all have that go. When none goes: those that any has, which were read when
        they were linked there.
    """
    if going:
        return sorted(set.intersection(*(_inodes(*one) for one in going)))
    return sorted(set().union(*(_inodes(*one) for one in staying)))


def is_known(path: str | Path, known: Collection[int] | None) -> bool:
    """Whether a segment need not be read again; ``known`` is None where nothing goes at all."""
    if known is None:
        return True
    try:
        return os.lstat(path).st_ino in known
    except OSError:  # whoever links it says what is wrong
        return False


def read_again(folder: Path, chain: Sequence[str], known: Collection[int] | None) -> None:
    """Read the segments of what a delta builds on that are not known.

    Raises
    ------
    DataError
        When one is damaged; names it.
    """
    for name in chain if known is not None else ():
        manifest = read_manifest(folder / name)
        for segment in _segments(folder / name, manifest):
            file = folder / name / segment
            if is_known(file, known):
                continue
            _forget_cached(file)
            try:
                for _ in checked_chunks(file, manifest["files"][segment]):
                    pass
            except DataError as error:
                raise DataError(
                    f"a delta on {name} is not saved, and nothing is removed: {error}"
                ) from error


def _forget_cached(file: Path) -> None:
    """Let the next read come from the disk."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # who reads it says so
        return
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)
