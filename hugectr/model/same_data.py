# SPDX-License-Identifier: Apache-2.0
"""Whether all processes of a job read the same data, in the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from hugectr.data.file_digest import digest_of_files
from hugectr.data.table_dataset import TableDataset
from hugectr.processes.group import ProcessGroup
from hugectr.processes.sameness import Digest, work_of_same_call
from hugectr.spec.input import Input
from hugectr.spec.reader import DataReaderParams

if TYPE_CHECKING:
    from hugectr._core import ReaderSpec

#: What decides which sample is which. How many threads read it, how far ahead and from which path
#: is a process's own.
_SETTINGS = (
    "format",
    "check",
    "on_bad_data",
    "max_bad_share",
    "columns",
    "shuffle",
    "replicated",
    "raw",
    "eval_raw",
)
_OF_A_PROCESS = "keep_bytes"
_SAME_DATA = (
    "all processes of a job read the same data, of which each trains its devices' part of every "
    "batch: give all of them all samples, in one order"
)

#: Bytes of an array that are looked at: all, or blocks spread evenly over it.
_MOST, _BLOCK = 1 << 30, 1 << 20
#: Rows of a table that are looked at: places spread evenly over it, and rows at each.
_PLACES, _ROWS = 64, 16


def same_data(group: ProcessGroup, params: DataReaderParams, inputs: Input) -> ReaderSpec:
    """The reader as the core takes it, when all processes read the same. Collective.

    Of data in memory, and of files that are ``replicated``, every process takes each batch out of
    its own copy. With other samples on one of them, or the same in another order, devices would ask
    one another for other rows than those they send.

    Parameters
    ----------
    group : ProcessGroup
    params : DataReaderParams
    inputs : Input
        Of the model.

    Raises
    ------
    InvalidArgument
        On all processes: names the first setting, or the source, that is not the same.
    """
    if group.size == 1:
        return params.to_spec(inputs)
    readers: list[ReaderSpec] = []

    def found() -> Mapping[str, Any]:
        readers.append(params.to_spec(inputs))
        spec = cast("Mapping[str, Any]", readers[0])
        data = {name: _shared(spec[name]) for name in _SETTINGS if name in spec}
        for prefix in ("", "eval_"):
            memory = spec.get(f"{prefix}memory")
            source = getattr(params, f"{prefix}source")
            data[f"{prefix}source"] = (
                _digest_of_arrays(memory) if memory is not None else _digest(params, source)
            )
        return {"data": data}

    work_of_same_call(group, "Model.compile", found, _SAME_DATA)
    return readers[0]


def same_restart(
    group: ProcessGroup, call: str, params: DataReaderParams, old: Any, source: str
) -> None:
    """An error on all processes where they do not start the same data over. Collective.

    Only where each reads all of it: those that share the reading meet in every batch.

    Parameters
    ----------
    group : ProcessGroup
    call : str
        As users know it.
    params : DataReaderParams
    old : str, TableDataset or MemoryDataset
        The source that the model was compiled with.
    source : str
        Another one, as ``params`` locates it, or "".
    """
    if group.size == 1 or (not params.replicated and isinstance(old, str)):
        return
    work_of_same_call(group, call, lambda: {"source": _digest(params, source)}, _SAME_DATA)


def _digest(params: DataReaderParams, source: Any) -> Digest | None:
    """Of files only where every process reads all: else a sample is read by one of them."""
    if isinstance(source, TableDataset):
        return _digest_of_table(source)
    if isinstance(source, str) and source and params.replicated:
        form = params.data_reader_type.name.removesuffix("Async")
        files, digest = digest_of_files(form, source)
        return Digest(f"{files} file{'' if files == 1 else 's'}", digest)
    return None


def _shared(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: one for name, one in value.items() if name != _OF_A_PROCESS}
    return value


def _digest_of_arrays(data: Mapping[str, Any]) -> Digest:
    found = hashlib.sha256()
    for name, array in _arrays("", data):
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        blocks = _MOST // _BLOCK
        if flat.size <= _MOST:
            found.update(flat.data)
        else:
            for begin in np.linspace(0, flat.size - _BLOCK, blocks, dtype=np.int64):
                found.update(flat[begin : begin + _BLOCK].data)
    return Digest(f"{len(data['label'])} samples in memory", found.hexdigest())


def _arrays(name: str, value: Any) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """All arrays of nested containers, by their place there."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _arrays(f"{name}.{key}", value[key])
    elif isinstance(value, list | tuple):
        for i, one in enumerate(value):
            yield from _arrays(f"{name}.{i}", one)


def _digest_of_table(data: TableDataset) -> Digest:
    """By values, not by bytes: the same table may lie in memory in several ways."""
    table = data.table.select(data.columns.all)
    found = hashlib.sha256(str(table.schema.remove_metadata()).encode())
    for begin in np.linspace(0, max(0, table.num_rows - _ROWS), _PLACES, dtype=np.int64).tolist():
        found.update(repr(table.slice(begin, _ROWS).to_pylist()).encode("utf-8", "surrogatepass"))
    return Digest(f"a table of {table.num_rows} rows", found.hexdigest())
