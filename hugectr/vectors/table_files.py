# SPDX-License-Identifier: Apache-2.0
"""Rows of tables as files of other programs, written a block at a time.

safetensors is written here and not by the library of that name, which takes all tensors of a file
at once, in memory; NumPy's and pyarrow's formats are written by them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hugectr.base.errors import InvalidArgument
from hugectr.base.replaced import refuse_other_file
from hugectr.vectors.names import TableNames

Array = npt.NDArray[Any]
#: Part of a row -> dtype, and shape of one row of it.
Parts = Mapping[str, tuple[str, tuple[int, ...]]]

FORMATS = ("parquet", "safetensors", "numpy")
_SAFETENSORS_TYPES = {"float32": "F32", "int64": "I64", "uint64": "U64"}


class Rows(Protocol):
    """Rows of one table, sorted, in blocks of any size: part -> values."""

    @property
    def name(self) -> str:
        """Of the table."""
        ...

    @property
    def parts(self) -> Parts:
        """What a row is made of."""
        ...

    def count(self) -> int:
        """How many there are."""
        ...

    def blocks(self) -> Iterator[dict[str, Array]]:
        """The rows; once."""
        ...


def format_of(path: Path) -> str:
    """The format that the ending of a path means; without a known one, a folder of NumPy's."""
    ending = path.suffix.removeprefix(".")
    return ending if ending in FORMATS[:2] else "numpy"


def write_rows(path: Path, format: str, rows: Rows, names: TableNames | None = None) -> None:
    """Write one table; with names, Parquet has column and category of each key too."""
    if format == "parquet":
        write_parquet(path, rows, names)
    elif format == "safetensors":
        write_safetensors(path, [rows], {})
    else:
        write_numpy(path, rows)


def refuse_other_table(path: Path, format: str, table: str = "") -> None:
    """Whether a table may be written there: nothing is, or what was exported before.

    Raises
    ------
    InvalidArgument
        When something else is there, such as data of the user's.
    """
    if format == "parquet":
        refuse_other_file("export", path, "Parquet file of a table's rows", _is_parquet_of_rows)
    elif format == "safetensors":
        refuse_other_file("export", path, "safetensors file of tables", _is_safetensors_of_rows)
    elif path.exists() and not path.is_dir():
        raise InvalidArgument(f"export: {path} is there and no folder, which NumPy's files go into")
    else:
        for part in ("key", "slot", "vector"):
            file = path / f"{file_stem(table)}.{part}.npy"
            refuse_other_file("export", file, "array of NumPy", _is_array)


def is_table(path: Path, ending: str) -> bool:
    """Whether a file is one of those that a table is written as: ``.parquet`` or ``.npy``."""
    if not path.name.endswith(ending):
        return False
    if ending == ".parquet":
        return _is_parquet_of_rows(path)
    return path.name.split(".")[-2] in ("key", "slot", "vector") and _is_array(path)


def _is_parquet_of_rows(path: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return {"key", "vector"} <= set(pq.read_schema(path).names)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def _is_safetensors_of_rows(path: Path) -> bool:
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            return False
        header = json.loads(file.read(size))
    if not isinstance(header, dict):
        return False
    keys = [name.removesuffix(".key") for name in header if name.endswith(".key")]
    metadata = header.get("__metadata__", {})
    # Others note steps too, beside what else they say.
    if not isinstance(metadata, dict) or not metadata.keys() <= {"step"}:
        return False
    return bool(metadata) or any(f"{name}.vector" in header for name in keys)


def _is_array(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(6) == b"\x93NUMPY"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Where to write a file that is to be there whole, or as it was before."""
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


class SafetensorsFile:
    """A safetensors file whose tensors are filled row by row, in any order among them.

    Parameters
    ----------
    path : Path
    tensors : sequence of (name, dtype, shape)
    metadata : dict of str
    """

    def __init__(
        self,
        path: Path,
        tensors: Sequence[tuple[str, str, tuple[int, ...]]],
        metadata: dict[str, str],
    ) -> None:
        header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
        place = 0
        # 8-byte types first: then all data is aligned.
        for name, dtype, shape in sorted(tensors, key=lambda t: -np.dtype(t[1]).itemsize):
            if name in header:
                raise InvalidArgument(f"{path}: two tensors have the name {name!r}")
            begin = place
            place += int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
            header[name] = {
                "dtype": _SAFETENSORS_TYPES[dtype],
                "shape": list(shape),
                "data_offsets": [begin, place],
            }
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        start = 8 + len(text)
        self._places = {
            name: start + told["data_offsets"][0]
            for name, told in header.items()
            if name != "__metadata__"
        }
        self._end = start + place
        self._file = open(path, "wb")  # noqa: SIM115
        self._file.write(len(text).to_bytes(8, "little") + text)

    def append(self, name: str, values: Array) -> None:
        """The next rows of a tensor."""
        self._file.seek(self._places[name])
        self._file.write(np.ascontiguousarray(values).data)
        self._places[name] += values.nbytes

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._file.truncate(self._end)
        self._file.close()


def write_safetensors(
    path: Path,
    tables: Sequence[Rows],
    dense: dict[str, Array],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write tables as ``<table>.<part>``, and tensors by name, into one file."""
    tensors = [
        (f"{rows.name}.{part}", dtype, (count, *shape))
        for rows, count in [(rows, rows.count()) for rows in tables]
        for part, (dtype, shape) in rows.parts.items()
    ]
    tensors += [(name, str(values.dtype), values.shape) for name, values in dense.items()]
    refuse_other_table(path, "safetensors")
    with whole_file(path) as partial, SafetensorsFile(partial, tensors, metadata or {}) as file:
        for rows in tables:
            for block in rows.blocks():
                for part in rows.parts:
                    file.append(f"{rows.name}.{part}", block[part])
        for name, values in dense.items():
            file.append(name, values)


def file_stem(table: str) -> str:
    """What files of a table are called: its name, with ``%2F`` for a slash (and ``%25`` for %)."""
    return table.replace("%", "%25").replace("/", "%2F")


def write_numpy(folder: Path, rows: Rows) -> None:
    """Write ``<table>.<part>.npy`` into a folder, which is made where it is not there.

    All of them are there whole, or as they were before.
    """
    refuse_other_table(folder, "numpy", rows.name)
    folder.mkdir(parents=True, exist_ok=True)
    count = rows.count()
    files: dict[str, Any] = {}
    with ExitStack() as whole:
        for part, (dtype, shape) in rows.parts.items():
            path = folder / f"{file_stem(rows.name)}.{part}.npy"
            file = files[part] = open(whole.enter_context(whole_file(path)), "wb")  # noqa: SIM115
            whole.callback(file.close)
            described = np.lib.format.dtype_to_descr(np.dtype(dtype))
            np.lib.format.write_array_header_1_0(
                file, {"descr": described, "fortran_order": False, "shape": (count, *shape)}
            )
        for block in rows.blocks():
            for part, file in files.items():
                file.write(np.ascontiguousarray(block[part]).data)
        for file in files.values():
            file.flush()  # a disk that is full says so before the first of them is replaced


def write_parquet(path: Path, rows: Rows, names: TableNames | None = None) -> None:
    """Write ``key``, ``slot`` where there is one, ``vector``; with names, ``column``, ``category``.

    A vector is a list of fixed size; a block of rows is a row group.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = []
    for part, (dtype, shape) in rows.parts.items():
        kind = pa.from_numpy_dtype(np.dtype(dtype))
        fields.append((part, pa.list_(kind, shape[0]) if shape else kind))
    named = [] if names is None else [("column", pa.string()), ("category", pa.string())]
    schema = pa.schema([*fields, *named])

    def columns(block: dict[str, Array]) -> list[Any]:
        arrays = []
        for part, kind in fields:
            values = np.ascontiguousarray(block[part])
            flat = pa.array(values.reshape(-1))
            whole = values.ndim == 1
            arrays.append(
                flat if whole else pa.FixedSizeListArray.from_arrays(flat, kind.list_size)
            )
        if names is not None:
            for told in names.categories_of(block["key"], block.get("slot")):
                arrays.append(pa.array(told, pa.string()))
        return arrays

    refuse_other_table(path, "parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial, pq.ParquetWriter(partial, schema) as writer:
        for block in rows.blocks():
            writer.write_batch(pa.RecordBatch.from_arrays(columns(block), schema=schema))
