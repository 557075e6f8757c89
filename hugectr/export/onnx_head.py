# SPDX-License-Identifier: Apache-2.0
"""Whether a file is ONNX, by the fields it is made of; the package onnx is not needed for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

#: Fields of a ModelProto that every one has: its version and its graph.
_VERSION, _GRAPH = 1, 7
_MOST_FIELDS = 10_000


def _varint(file: BinaryIO) -> int:
    """A number of protobuf."""
    found = 0
    for place in range(10):
        byte = file.read(1)
        if not byte:
            raise ValueError("the file ends in a number")
        found |= (byte[0] & 0x7F) << (7 * place)
        if byte[0] < 0x80:
            return found
    raise ValueError("a number of more than ten bytes")


def is_onnx(path: Path) -> bool:
    """Whether the fields of a file are those of an ONNX model, to its last byte.

    Raises
    ------
    OSError
        When it can not be read.
    ValueError
        When it is no message of protobuf.
    """
    size = os.path.getsize(path)
    fields = set()
    with open(path, "rb") as file:
        for _ in range(_MOST_FIELDS):
            if file.tell() == size:
                break
            tag = _varint(file)
            field, kind = tag >> 3, tag & 7
            fields.add((field, kind))
            if kind == 0:
                _varint(file)
            elif kind in (1, 5):
                file.seek(8 if kind == 1 else 4, os.SEEK_CUR)
            elif kind == 2:
                file.seek(_varint(file), os.SEEK_CUR)
            else:
                return False
        return file.tell() == size and {(_VERSION, 0), (_GRAPH, 2)} <= fields
