# SPDX-License-Identifier: Apache-2.0
"""Files that a conversion keeps for going on: written whole or not at all, read back checked."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from hugectr.base.errors import DataError
from hugectr.data.regular_file import open_regular

#: What reading damaged arrays or JSON ends in. Not want of memory: checksums are looked at first.
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def damaged(path: Path) -> DataError:
    """The error for a file of ``.progress`` that holds what was never written."""
    return DataError(f"{path} is damaged: remove {path.parent} to start over")


def synced(path: Path) -> None:
    """Wait until the disk has what is in a file: names come to it before bytes do."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def write_kept(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, whenever the power goes."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all."""
    write_kept(path, json.dumps(content).encode())


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The file; what reading damage ends in is a DataError that names it."""
    with open_regular(path) as file:
        try:
            yield file
        except _DAMAGE as error:
            raise damaged(path) from error


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    DataError
        When it is damaged.
    """
    with _opened(path) as file:
        found = json.loads(file.read())
    if not isinstance(found, dict):
        raise damaged(path)
    return found


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name, whole or not at all."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_kept(path, content.getvalue())


def read_arrays(path: Path) -> dict[str, Any]:
    """Read arrays by name.

    Raises
    ------
    DataError
        When they are damaged.
    """
    with _opened(path) as file:
        with zipfile.ZipFile(file) as members:
            if members.testzip():
                raise damaged(path)
        file.seek(0)
        with np.load(file, allow_pickle=False) as data:
            return {name: data[name] for name in data.files}
