# SPDX-License-Identifier: Apache-2.0
"""Keys of the first samples of a source, read by the rules that its reader goes by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hugectr.base.errors import DataError
from hugectr.data.arrays import MemoryDataset, first_samples
from hugectr.data.file_samples import csr_of_slots
from hugectr.data.inspect_columns import RawShape, keys_of_column, read_raw
from hugectr.data.norm_table import norm_table
from hugectr.data.parquet import ParquetBlocks
from hugectr.data.regular_file import regular_file_size
from hugectr.data.table_dataset import IN_MEMORY

if TYPE_CHECKING:
    from hugectr._core import RawReading, ReaderSpec

Keys = npt.NDArray[np.int64]
#: Of some samples: keys of each slot in each sample, (samples, slots), and all keys of each slot.
_Part = tuple[Keys, list[Keys]]


@dataclass(frozen=True)
class SampleShape:
    """What a model's Input says of a sample.

    Attributes
    ----------
    front : int
        Labels and dense features.
    inputs : sequence of (str, sequence of int)
        Name of each sparse input, and how many keys its slots may have.
    i64 : bool
        Keys of Norm files are int64, else uint32.
    """

    front: int
    inputs: Sequence[tuple[str, Sequence[int]]]
    i64: bool

    @property
    def hotness(self) -> tuple[int, ...]:
        """Most keys of every slot."""
        return tuple(nnz for _, slots in self.inputs for nnz in slots)


@dataclass(frozen=True)
class FirstKeys:
    """Keys of some samples.

    Attributes
    ----------
    samples : int
    sparse : mapping of str to (ndarray of int64, ndarray of uint64)
        Of each sparse input keys and row offsets, as of a ``MemoryDataset``.
    """

    samples: int
    sparse: Mapping[str, tuple[Keys, npt.NDArray[np.uint64]]]


def keys_of_dataset(data: MemoryDataset, limit: int) -> FirstKeys:
    """Those of data in memory.

    Parameters
    ----------
    data : MemoryDataset
    limit : int
        Samples at most.
    """
    found = first_samples(data, min(limit, data.samples))
    return FirstKeys(found.samples, found.sparse)


def keys_of_source(spec: ReaderSpec, shape: SampleShape, limit: int) -> FirstKeys:
    """Those of files or of a table in memory.

    Parameters
    ----------
    spec : ReaderSpec
        What the core reads by: which column is what, how many keys a slot of Raw files holds, and
        what is added to the keys of a slot.
    shape : SampleShape
    limit : int
        Samples at most.

    Raises
    ------
    DataError, InvalidArgument, OSError
        When the source can not be read so.
    """
    readers = {"Norm": _norm, "Raw": _raw, "Arrow": _arrow}
    parts = list(readers[spec["format"]](spec, shape, limit))
    if not parts:
        raise DataError(f"{spec['source']!r} has no samples")
    counts = np.concatenate([count for count, _ in parts])
    slots = [np.concatenate(keys) for keys in zip(*(keys for _, keys in parts), strict=True)]
    if len(slots) != len(shape.hotness):
        raise DataError(
            f"{spec['source']!r}: a sample has {len(slots)} slots, the model's Input "
            f"{len(shape.hotness)}"
        )
    offsets = _slot_offsets(spec) or [0] * len(slots)
    moved = [keys + offset for keys, offset in zip(slots, offsets, strict=True)]
    sparse, first = {}, 0
    for name, of_input in shape.inputs:
        part = slice(first, first + len(of_input))
        sparse[name] = csr_of_slots(counts[:, part], moved[part])
        first += len(of_input)
    return FirstKeys(len(counts), sparse)


def _slot_offsets(spec: ReaderSpec) -> Sequence[int]:
    """What is added to the keys of each slot; empty: nothing."""
    raw, columns = spec.get("raw"), spec.get("columns")
    if raw is not None:
        return raw["slot_offsets"]
    return columns["slot_offsets"] if columns is not None else ()


def _norm(spec: ReaderSpec, shape: SampleShape, limit: int) -> Iterator[_Part]:
    table = norm_table(spec["source"], 8 if shape.i64 else 4, limit)
    yield table.counts, table.keys


def _raw(spec: ReaderSpec, shape: SampleShape, limit: int) -> Iterator[_Part]:
    paths, reading = spec["source"].split("\n"), spec["raw"]
    assert reading is not None, "the format has said so"
    sizes = [regular_file_size(path) for path in paths]
    hotness = _hotness_of_raw(reading, shape, spec["source"], sum(sizes))
    for path, size in zip(paths, sizes, strict=True):
        if size and limit > 0:
            table = read_raw(path, RawShape(shape.front, 0, hotness), limit)
            limit -= len(table.counts)
            yield table.counts, table.keys


def _hotness_of_raw(
    reading: RawReading, shape: SampleShape, source: str, size: int
) -> tuple[int, ...]:
    """Keys of each slot in files of so many bytes: the core's rule."""
    most = shape.hotness
    if reading.get("keys") == "All":
        return most
    if not reading["num_samples"]:  # nobody says how many samples there are: a slot has one key
        return (1,) * len(most)
    raw = RawShape(shape.front, 0, most, num_samples=reading["num_samples"])
    return raw.hotness_in(source.replace("\n", ", "), size)


def _arrow(spec: ReaderSpec, shape: SampleShape, limit: int) -> Iterator[_Part]:
    mapping, source = spec["columns"], spec["source"]
    assert mapping is not None, "the format has said so"
    names = mapping["slots"]
    blocks = spec["arrow"] if source == IN_MEMORY else ParquetBlocks(list(dict.fromkeys(names)))
    assert blocks is not None, "the format has said so"
    most = dict(zip(names, shape.hotness, strict=True))
    for block in range(len(blocks.open(source)[1])):
        if limit <= 0:
            break
        table = pa.Table.from_batches([blocks.read(block).slice(0, limit)])
        limit -= table.num_rows
        found = {name: keys_of_column(name, table.column(name)) for name in dict.fromkeys(names)}
        for name in mapping["sequences"]:
            found[name] = _last_keys(*found[name], most[name])
        yield (
            np.stack([found[name][0] for name in names], axis=1),
            [found[name][1] for name in names],
        )


def _last_keys(counts: Keys, keys: Keys, most: int) -> tuple[Keys, Keys]:
    """Those that count of lists that may be longer."""
    from_end = np.repeat(np.cumsum(counts), counts) - np.arange(len(keys))
    return np.minimum(counts, most), keys[from_end <= most]
