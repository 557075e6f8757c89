# SPDX-License-Identifier: Apache-2.0
"""Tables of embedding collections in the files of v3's ``embedding_dump`` (4.2 and later).

``<path>/embedding_collection_<e>/`` has ``meta_data`` and, of each table t, ``key<t>`` and
``weight<t>``:

- ``meta_data``: int32[5] = tables, key type (0 uint32, 1 int64), value type (0 float32, 1 float16),
  0, longest vector; int32 id of each table; uint64 number of its keys; int32 length of its vectors.
- ``key<t>``, ``weight<t>``: int32[32], the first two of which are 1 (keys) or 2 (weights) and t,
  the others 0; then keys in the key type, or rows of values.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import DataError
from hugectr.base.regular_file import read_bounded
from hugectr.checkpoints.chunks import Array, bytes_of, read_range
from hugectr.checkpoints.rows import Parts

#: Bytes before the first key or row.
HEAD = 128
_KEYS, _WEIGHTS = 1, 2
_KEY_TYPES: tuple[type[np.generic], ...] = (np.uint32, np.int64)
_VALUE_TYPES: tuple[type[np.generic], ...] = (np.float32, np.float16)
#: Of meta_data: a million tables.
_LARGEST_META = 16 << 20


def collection_folder(path: str | Path, number: int) -> Path:
    """Where the tables of a collection lie."""
    return Path(path) / f"embedding_collection_{number}"


def _head(kind: int, table: int) -> bytes:
    return struct.pack("<32i", kind, table, *[0] * 30)


@dataclass(frozen=True)
class CollectionMeta:
    """What ``meta_data`` says.

    Attributes
    ----------
    i64_keys, half : bool
    counts, vec_sizes : dict of int
        Table id -> keys, and length of a vector.
    """

    i64_keys: bool
    half: bool
    counts: dict[int, int]
    vec_sizes: dict[int, int]

    def write(self, folder: Path) -> None:
        """Write the file."""
        ids = list(self.counts)
        longest = max(self.vec_sizes.values(), default=0)
        content = struct.pack("<5i", len(ids), int(self.i64_keys), int(self.half), 0, longest)
        content += np.array(ids, "<i4").tobytes()
        content += np.array(list(self.counts.values()), "<u8").tobytes()
        content += np.array([self.vec_sizes[i] for i in ids], "<i4").tobytes()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "meta_data").write_bytes(content)

    @classmethod
    def read(cls, folder: Path) -> CollectionMeta:
        """Read it.

        Raises
        ------
        DataError
            It is not there, or not what it should be.
        """
        file = folder / "meta_data"
        try:
            data = read_bounded(file, _LARGEST_META)
        except (OSError, ValueError) as error:
            raise DataError(f"{file} can not be read ({error})") from None
        if len(data) < 20:
            raise DataError(f"{file} has {len(data)} bytes, at least 20 are expected")
        tables, keys, values = struct.unpack_from("<3i", data)
        if tables < 0 or keys not in (0, 1) or values not in (0, 1):
            raise DataError(
                f"{file}: found {tables} tables, key type {keys} and value type {values}; the "
                "types must be 0 or 1"
            )
        if len(data) != 20 + 16 * tables:
            raise DataError(
                f"{file} has {len(data)} bytes, {20 + 16 * tables} are expected of {tables} tables"
            )
        ids = np.frombuffer(data, "<i4", tables, 20).tolist()
        counts = np.frombuffer(data, "<u8", tables, 20 + 4 * tables).tolist()
        sizes = np.frombuffer(data, "<i4", tables, 20 + 12 * tables).tolist()
        if len(set(ids)) != tables:
            raise DataError(f"{file}: table ids {ids} are not distinct")
        return cls(
            keys == 1,
            values == 1,
            dict(zip(ids, counts, strict=True)),
            dict(zip(ids, sizes, strict=True)),
        )


class CollectionTableFiles:
    """Files of one table, written in pieces at any place (as ``TableFiles``).

    Parameters
    ----------
    parts : Parts
        Of a row; keys and vectors are written.
    folder : Path
    table : int
        Its id.
    i64_keys : bool
    """

    def __init__(self, parts: Parts, folder: Path, table: int, i64_keys: bool) -> None:
        self.parts: Parts = {part: parts[part] for part in ("key", "vector")}
        self._heads = {"key": _head(_KEYS, table), "vector": _head(_WEIGHTS, table)}
        self._paths = {"key": folder / f"key{table}", "vector": folder / f"weight{table}"}
        self._types = {"key": _KEY_TYPES[i64_keys], "vector": np.float32}
        self._handles: dict[str, int] = {}

    def create(self) -> None:
        """Make them, with their heads and nothing else."""
        for part, path in self._paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._heads[part])

    def open(self) -> None:
        """Open them for writing."""
        for part, path in self._paths.items():
            self._handles[part] = os.open(path, os.O_WRONLY)

    def write(self, values: dict[str, Array], first: int, total: int) -> None:
        """Write rows from place ``first`` on."""
        for part, array in values.items():
            rows: Array = np.ascontiguousarray(array.astype(self._types[part], copy=False))
            rest, place = bytes_of(rows), HEAD + first * (rows.nbytes // max(1, len(rows)))
            while rest:
                try:
                    written = os.pwrite(self._handles[part], rest, place)
                except OSError as error:
                    path = str(self._paths[part])
                    raise OSError(error.errno, error.strerror, path) from error
                place, rest = place + written, rest[written:]

    def close(self) -> None:
        """Close what is open."""
        while self._handles:
            os.close(self._handles.popitem()[1])


class SavedCollectionTable:
    """Files of one table, read in ranges of rows.

    Parameters
    ----------
    folder : Path
    meta : CollectionMeta
        Of the folder.
    table : int
        Its id.
    vec_size : int
        Of the model's table.

    Raises
    ------
    DataError
        When they do not fit ``meta_data``, each other or the model.
    """

    def __init__(self, folder: Path, meta: CollectionMeta, table: int, vec_size: int) -> None:
        if table not in meta.counts:
            raise DataError(
                f"{folder / 'meta_data'} has no table {table}; it has {sorted(meta.counts)}"
            )
        if meta.vec_sizes[table] != vec_size:
            raise DataError(
                f"{folder / 'meta_data'}: vectors of table {table} have length "
                f"{meta.vec_sizes[table]}, the model's have {vec_size}"
            )
        self.rows = meta.counts[table]
        self._vec_size = vec_size
        self._key: npt.DTypeLike = _KEY_TYPES[meta.i64_keys]
        self._value: npt.DTypeLike = _VALUE_TYPES[meta.half]
        self._keys = self._opened(folder / f"key{table}", _head(_KEYS, table), self._key, 1)
        self._weights = self._opened(
            folder / f"weight{table}", _head(_WEIGHTS, table), self._value, vec_size
        )

    def _opened(self, file: Path, head: bytes, kind: npt.DTypeLike, width: int) -> Path:
        if not file.is_file():
            raise DataError(f"{file} is not there")
        size, wanted = file.stat().st_size, HEAD + self.rows * width * np.dtype(kind).itemsize
        if size != wanted:
            raise DataError(
                f"{file} has {size} bytes, but its {self.rows} rows take {wanted} with their head"
            )
        found = bytes(read_range(file, 0, HEAD))
        if found[:8] != head[:8]:
            kinds = struct.unpack_from("<2i", found)
            raise DataError(
                f"{file} begins with kind and table {kinds}, {struct.unpack_from('<2i', head)} are "
                "expected"
            )
        return file

    def _read(self, file: Path, kind: npt.DTypeLike, width: int, begin: int, end: int) -> Array:
        row = width * np.dtype(kind).itemsize
        data = read_range(file, HEAD + begin * row, HEAD + end * row)
        return np.frombuffer(data, kind)

    def read(self, begin: int, end: int) -> dict[str, Array]:
        """Rows [begin, end): keys as int64, vectors as float32."""
        keys = self._read(self._keys, self._key, 1, begin, end)
        values = self._read(self._weights, self._value, self._vec_size, begin, end)
        return {
            "key": keys.astype(np.int64, copy=False),
            "vector": values.astype(np.float32, copy=False).reshape(end - begin, self._vec_size),
        }


def chosen_tables(names: Sequence[str], wanted: Sequence[str]) -> list[tuple[int, str]]:
    """Ids and names of a collection's tables that are wanted; all when none are named."""
    return [(i, name) for i, name in enumerate(names) if not wanted or name in wanted]
