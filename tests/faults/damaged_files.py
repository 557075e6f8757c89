# SPDX-License-Identifier: Apache-2.0
"""What can happen to a file of a checkpoint."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from hugectr.checkpoints.manifest import read_manifest


def _change(file: Path, place: int, bits: int = 1) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= bits
    file.write_bytes(content)


def _zeroed(file: Path) -> None:
    content = bytearray(file.read_bytes())
    third = len(content) // 3
    # Blocks of zeros are what a crash of the machine leaves; they may be zeros already.
    content[third : 2 * third] = bytes(third) if any(content[third : 2 * third]) else b"\1" * third
    file.write_bytes(content)


def _hole(file: Path) -> None:
    size = file.stat().st_size
    os.truncate(file, size // 2)
    os.truncate(file, size)


def _exchanged_halves(file: Path) -> None:
    content = file.read_bytes()
    half = len(content) // 2
    file.write_bytes(content[half:] + content[:half])


def _sibling(file: Path) -> None:
    """The content of another file of the checkpoint, of the same size where there is one."""
    content = file.read_bytes()
    others = [other for other in sorted(file.parent.iterdir()) if other.read_bytes() != content]
    same = [other for other in others if other.stat().st_size == len(content)]
    shutil.copyfile((same or others)[0], file)


def _swapped(file: Path) -> None:
    """Two files under each other's name."""
    other = next(p for p in sorted(file.parent.iterdir()) if p.read_bytes() != file.read_bytes())
    aside = file.with_name("aside")
    file.rename(aside)
    other.rename(file)
    aside.rename(other)


def _older(file: Path) -> None:
    """The file of that name of another checkpoint of the same model."""
    for other in sorted(file.parents[1].iterdir()):
        found = other / file.name
        if found.is_file() and found.read_bytes() != file.read_bytes():
            shutil.copyfile(found, file)
            return
    _change(file, 0, 255)


def _renamed_case(file: Path) -> None:
    file.rename(file.with_name(file.name.upper()))


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _link(target: str) -> Callable[[Path], None]:
    def way(file: Path) -> None:
        file.unlink()
        file.symlink_to(target)

    return way


def _huge(file: Path) -> None:
    os.truncate(file, 1 << 42)


#: Name -> what is done to a file.
WAYS: dict[str, Callable[[Path], None]] = {
    "bit at the begin": lambda file: _change(file, 0),
    "bit in the middle": lambda file: _change(file, file.stat().st_size // 2, 16),
    "bit at the end": lambda file: _change(file, -1, 128),
    "one byte less": lambda file: os.truncate(file, file.stat().st_size - 1),
    "half": lambda file: os.truncate(file, file.stat().st_size // 2),
    "empty": lambda file: os.truncate(file, 0),
    "one byte more": lambda file: file.write_bytes(file.read_bytes() + b"\0"),
    "twice as long": lambda file: file.write_bytes(file.read_bytes() * 2),
    "4 TB with a hole": _huge,
    "a block of zeros": _zeroed,
    "a hole": _hole,
    "exchanged halves": _exchanged_halves,
    "content of a sibling": _sibling,
    "exchanged with a sibling": _swapped,
    "of another checkpoint": _older,
    "removed": Path.unlink,
    "in capitals": _renamed_case,
    "a folder": _folder,
    "a pipe": _pipe,
    "a link to zeros": _link("/dev/zero"),
    "a link to nothing": _link("nowhere"),
    "a link to itself": lambda file: _link(file.name)(file),
}


def content_of(folder: Path) -> dict[str, bytes | str]:
    """Regular files with their content, others with what they are."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 30
        else "other"
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }


def files_of(path: Path) -> list[str]:
    """All files of a checkpoint that is intact."""
    return ["manifest.json", *read_manifest(path)["files"]]
