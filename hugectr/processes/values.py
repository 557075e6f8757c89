# SPDX-License-Identifier: Apache-2.0
"""Plain values as bytes and back: all that processes tell each other.

Nothing in the bytes names code. A value takes no more memory than a small multiple of the bytes
that are there, however large the numbers in them are, and containers nest to ``MAX_DEPTH``.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

#: Containers in containers.
MAX_DEPTH = 32
#: Bytes of an integer.
_MAX_INTEGER = 64
_MAX_DIMENSIONS = 32
_LENGTH = struct.Struct("<Q")
_FLOAT = struct.Struct("<d")
_DTYPES = ("?", "<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")
_ALLOWED = (
    "None, bool, int, float, str, bytes, Path, list, tuple, dict (keys: str or int) and arrays of "
    "numbers"
)


def encode(value: Any) -> bytes:
    """A value as bytes.

    Parameters
    ----------
    value : object
        None, bool, int, float, str, bytes, Path, list, tuple, dict with keys of str or int, NumPy
        numbers (which arrive as Python's) and arrays of numbers.

    Raises
    ------
    TypeError
        For anything else.
    """
    parts: list[bytes] = []
    _write(value, parts, 0)
    return b"".join(parts)


def decode(data: bytes | bytearray | memoryview) -> Any:
    """The value that ``encode`` made bytes of.

    Raises
    ------
    ValueError
        When the bytes are none of ``encode``.
    """
    reader = _Reader(memoryview(data))
    value = reader.value(0)
    if len(reader.rest):
        raise ValueError(f"{len(reader.rest)} bytes follow the value")
    return value


def _write(value: Any, parts: list[bytes], depth: int) -> None:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        parts.append(b"N")
    elif isinstance(value, bool):
        parts.append(b"T" if value else b"F")
    elif isinstance(value, int):
        size = value.bit_length() // 8 + 1
        if size > _MAX_INTEGER:
            raise TypeError(f"processes share integers of at most {8 * _MAX_INTEGER - 1} bits")
        parts += [b"I", bytes([size]), value.to_bytes(size, "little", signed=True)]
    elif isinstance(value, float):
        parts += [b"D", _FLOAT.pack(value)]
    elif isinstance(value, str):
        _write_bytes(b"S", _text(value), parts)
    elif isinstance(value, Path):
        _write_bytes(b"P", _text(str(value)), parts)
    elif isinstance(value, bytes):
        _write_bytes(b"B", value, parts)
    elif isinstance(value, np.ndarray):
        _write_array(value, parts)
    elif isinstance(value, list | tuple | dict):
        _write_container(value, parts, depth + 1)
    else:
        raise TypeError(f"processes share {_ALLOWED}; found {type(value).__name__}")


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")  # names of files may hold anything


def _write_bytes(kind: bytes, data: bytes, parts: list[bytes]) -> None:
    parts += [kind, _LENGTH.pack(len(data)), data]


def _write_container(
    value: list[Any] | tuple[Any, ...] | dict[Any, Any], parts: list[bytes], depth: int
) -> None:
    if depth > MAX_DEPTH:
        raise TypeError(f"processes share containers that nest to {MAX_DEPTH}")
    kind = b"M" if isinstance(value, dict) else b"L" if isinstance(value, list) else b"U"
    parts += [kind, _LENGTH.pack(len(value))]
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str | int):
                raise TypeError(f"processes share {_ALLOWED}; found a key of {type(key).__name__}")
            _write(key, parts, depth)
            _write(item, parts, depth)
    else:
        for item in value:
            _write(item, parts, depth)


def _write_array(array: np.ndarray[Any, Any], parts: list[bytes]) -> None:
    kind = array.dtype.newbyteorder("<")
    name = "?" if kind == np.dtype(bool) else f"<{kind.kind}{kind.itemsize}"
    if name not in _DTYPES or array.dtype.hasobject:
        raise TypeError(f"processes share {_ALLOWED}; found an array of {array.dtype}")
    dimensions = b"".join(_LENGTH.pack(length) for length in array.shape)
    parts += [b"A", bytes([_DTYPES.index(name), array.ndim]), dimensions]
    parts.append(array.astype(kind, copy=False).tobytes())


class _Reader:
    """What has not been read yet."""

    def __init__(self, rest: memoryview) -> None:
        self.rest = rest

    def value(self, depth: int) -> Any:
        kind = bytes(self._take(1))
        if kind in (b"N", b"T", b"F"):
            return {b"N": None, b"T": True, b"F": False}[kind]
        if kind == b"I":
            size = self._take(1)[0]
            if not 0 < size <= _MAX_INTEGER:
                raise ValueError(f"an integer of {size} bytes")
            return int.from_bytes(self._take(size), "little", signed=True)
        if kind == b"D":
            return _FLOAT.unpack(self._take(8))[0]
        if kind in (b"S", b"P"):
            text = str(self._take(self._length()), "utf-8", "surrogatepass")
            return text if kind == b"S" else Path(text)
        if kind == b"B":
            return bytes(self._take(self._length()))
        if kind == b"A":
            return self._array()
        if kind in (b"L", b"U", b"M"):
            return self._container(kind, depth + 1)
        raise ValueError(f"no kind of value: {kind!r}")

    def _take(self, count: int) -> memoryview:
        if count > len(self.rest):
            raise ValueError(f"{count} bytes are announced where {len(self.rest)} are left")
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def _length(self) -> int:
        length: int = _LENGTH.unpack(self._take(8))[0]
        return length

    def _container(self, kind: bytes, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError(f"containers nest deeper than {MAX_DEPTH}")
        count = self._length()
        if count > len(self.rest):  # an item takes a byte at least
            raise ValueError(f"{count} items are announced where {len(self.rest)} bytes are left")
        if kind != b"M":
            items = [self.value(depth) for _ in range(count)]
            return items if kind == b"L" else tuple(items)
        found: dict[Any, Any] = {}
        for _ in range(count):
            key = self.value(depth)
            if not isinstance(key, str | int) or key in found:
                raise ValueError("a key that is no text or number, or that comes twice")
            found[key] = self.value(depth)
        return found

    def _array(self) -> np.ndarray[Any, Any]:
        number, dimensions = self._take(2)
        if number >= len(_DTYPES) or dimensions > _MAX_DIMENSIONS:
            raise ValueError(f"an array of kind {number} with {dimensions} dimensions")
        shape = [self._length() for _ in range(dimensions)]
        kind = np.dtype(_DTYPES[number])
        # Of the product alone, zeros would hide lengths that no array can have.
        if math.prod(max(1, length) for length in shape) * kind.itemsize >= 1 << 62:
            raise ValueError(f"an array of shape {shape}")
        data = self._take(math.prod(shape) * kind.itemsize)
        return np.frombuffer(bytearray(data), kind).reshape(shape)  # its own, as arrays are
