# SPDX-License-Identifier: Apache-2.0
"""What each data format needs of the reader's settings, as the core reads it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.no_effect import warn_given, warn_no_effect
from hugectr.data.arrays import MemoryDataset
from hugectr.data.columns import Shuffle, check_shuffle, prefix_sums
from hugectr.data.patterns import is_pattern, raw_paths
from hugectr.data.raw_words import are_floats
from hugectr.data.table_dataset import IN_MEMORY, TableBlocks, TableDataset
from hugectr.spec.enums import Alignment_t, DataReaderType_t

if TYPE_CHECKING:
    from hugectr._core import RawReading, ReaderSpec
    from hugectr.spec.input import Input
    from hugectr.spec.reader import DataReaderParams


_READS_AHEAD = "blocks of io_block_size bytes are read ahead by num_threads threads"
#: Settings of AsyncParam that mean nothing here, and why.
_ASYNC_WITHOUT_EFFECT = {
    "num_batches_per_thread": _READS_AHEAD,
    "io_depth": _READS_AHEAD,
    "io_alignment": "the file system's own alignment is used",
    "aligned_type": "dense features need no padding",
    "max_num_requests_per_thread": _READS_AHEAD,
}


_SECTOR = 512  # bytes: v3's blocks are multiples of it


@dataclass(frozen=True)
class AsyncParam:
    """Settings of the RawAsync reader.

    Parameters
    ----------
    num_threads : int
        Threads that read blocks ahead, past the page cache where the file system can.
    io_block_size : int
        Bytes of a block, about: a block holds whole samples. Less than the 512 of a sector is what
        4.1 has in this place, ``max_num_requests_per_thread``, and leaves the default.
    shuffle : bool
        Whether blocks change places (``DataReaderParams.shuffle`` says more).
    keep_resident_mb : int
        Data no larger than this stay in memory after their first reading; 0: never.
    multi_hot_reader : bool, optional
        RawAsync: every slot of a sample holds all of its nnz_per_slot keys, whatever the size of
        the files. None: where ``is_dense_float`` is given, as in 23.04.
    is_dense_float : bool, optional
        Dense features are float32, else int32 (log(x + 1)). None: float32 with
        ``multi_hot_reader``, else what the first samples of the file show; they show it of labels
        too. ``DataReaderParams.float_label_dense`` says it of both.
    num_batches_per_thread, io_depth, io_alignment, aligned_type, max_num_requests_per_thread
        Of the original's reader; accepted and without effect.
    """

    num_threads: int = 16
    num_batches_per_thread: int = 4
    io_block_size: int = 512000
    io_depth: int = 4
    io_alignment: int = 512
    shuffle: bool = False
    aligned_type: Alignment_t = Alignment_t.Non
    multi_hot_reader: bool | None = None
    is_dense_float: bool | None = None
    keep_resident_mb: int = 0
    max_num_requests_per_thread: int = 0

    def __post_init__(self) -> None:
        defaults = {item.name: item.default for item in fields(self)}
        warn_given("AsyncParam", vars(self), defaults, _ASYNC_WITHOUT_EFFECT)
        if self.io_block_size < _SECTOR:  # 4.1's, by position
            name = f"max_num_requests_per_thread={self.io_block_size}"
            warn_no_effect("AsyncParam", name, _READS_AHEAD)
            object.__setattr__(self, "io_block_size", defaults["io_block_size"])


READER_WITHOUT_EFFECT = {
    "cache_eval_data": "evaluation batches are read ahead; AsyncParam(keep_resident_mb=...) keeps "
    "Raw data in memory",
    "read_file_sequentially": "files are always read in one order, whatever num_workers is",
}


def reader_shuffle(name: str, params: DataReaderParams) -> Shuffle | None:
    """How training samples change places: what was given, checked, or what AsyncParam says."""
    shuffle, kind = check_shuffle(name, params.shuffle), params.data_reader_type
    if kind is DataReaderType_t.RawAsync and params.async_param.shuffle:
        shuffle = shuffle or Shuffle()
    if shuffle and isinstance(params.source, str) and kind is DataReaderType_t.Norm:
        allowed = "False for Norm files, which are read in order; use Raw or Parquet"
        raise rejected(name, params.shuffle, allowed)
    return shuffle


def format_spec(params: DataReaderParams, inputs: Input) -> ReaderSpec:
    """The part of the ReaderSpec that depends on the format of ``source`` and ``eval_source``."""
    tables = [s for s in (params.source, params.eval_source) if isinstance(s, TableDataset)]
    if tables:
        return _table_spec(params, inputs, tables)
    if all(s == "" or isinstance(s, MemoryDataset) for s in (params.source, params.eval_source)):
        return {"format": "Norm"}  # of no meaning: there is no file
    if params.data_reader_type is DataReaderType_t.Parquet:
        return _parquet_spec(params, inputs)
    if params.data_reader_type in (DataReaderType_t.Raw, DataReaderType_t.RawAsync):
        return _raw_spec(params, inputs)
    return _norm_spec(params)


def _tops(inputs: Input) -> dict[str, int]:
    return {param.top_name: param.slot_num for param in inputs.sparse}


def _table_spec(params: DataReaderParams, inputs: Input, tables: list[TableDataset]) -> ReaderSpec:
    for name in ("source", "eval_source"):
        source = getattr(params, name)
        if source != "" and not isinstance(source, TableDataset):
            raise rejected(f"DataReaderParams: {name}", source, "a table like the other source")
    if any(table.columns != tables[0].columns for table in tables):
        raise InvalidArgument(
            "DataReaderParams: source and eval_source are tables with different columns"
        )
    spec: ReaderSpec = {
        "format": "Arrow",
        "columns": tables[0].columns.to_spec(_tops(inputs), prefix_sums(params.slot_size_array)),
    }
    if isinstance(params.source, TableDataset):
        spec["source"], spec["arrow"] = IN_MEMORY, TableBlocks(params.source)
    if isinstance(params.eval_source, TableDataset):
        spec["eval_source"], spec["eval_arrow"] = IN_MEMORY, TableBlocks(params.eval_source)
    return spec


def _norm_spec(params: DataReaderParams) -> ReaderSpec:
    for name in ("source", "eval_source"):
        source = getattr(params, name)
        if isinstance(source, str) and is_pattern(source):
            allowed = (
                "the path of a file list; hugectr.data.write_file_list(PATH, "
                "sorted(glob.glob(PATTERN))) writes one of data files"
            )
            raise rejected(f"DataReaderParams of Norm: {name}", source, allowed)
    return {"format": "Norm"}


def _parquet_spec(params: DataReaderParams, inputs: Input) -> ReaderSpec:
    # Here: pyarrow is a third of the time of `import hugectr`, and other formats need none of it.
    from hugectr.data.parquet import ParquetBlocks, columns_of_metadata

    tops = _tops(inputs)
    columns = params.columns or columns_of_metadata(str(params.source), tops)
    mapping = columns.to_spec(tops, prefix_sums(params.slot_size_array))
    spec: ReaderSpec = {"format": "Arrow", "columns": mapping}
    spec["arrow"] = ParquetBlocks(columns.all)
    spec["eval_arrow"] = ParquetBlocks(columns.all)
    return spec


def _is_multi_hot(param: AsyncParam) -> bool:
    given = param.multi_hot_reader
    return param.is_dense_float is not None if given is None else given


def _float_parts(params: DataReaderParams, paths: str, inputs: Input) -> tuple[bool, bool]:
    """Whether labels and dense features of RawAsync files are float32."""
    if params.float_label_dense or not paths:
        return params.float_label_dense, params.float_label_dense
    first, dense_end = paths.split("\n")[0], inputs.label_dim + inputs.dense_dim
    words = dense_end + sum(param.max_feature_num for param in inputs.sparse)
    label = are_floats(first, words, 0, inputs.label_dim)
    if params.async_param.is_dense_float is not None:
        return label, params.async_param.is_dense_float
    if _is_multi_hot(params.async_param):
        return label, True
    return label, are_floats(first, words, inputs.label_dim, dense_end)


def _raw_spec(params: DataReaderParams, inputs: Input) -> ReaderSpec:
    direct = params.data_reader_type is DataReaderType_t.RawAsync
    if not direct and params.add_slot_offsets is None and prefix_sums(params.slot_size_array):
        why = "Raw keys are taken as they are, as in v3.3; add_slot_offsets=True moves them"
        warn_no_effect("DataReaderParams of Raw", "slot_size_array", why)
    adds_offsets = direct if params.add_slot_offsets is None else params.add_slot_offsets
    spec: ReaderSpec = {"format": "Raw"}
    for prefix, samples in (("", params.num_samples), ("eval_", params.eval_num_samples)):
        source = getattr(params, prefix + "source")
        paths = "\n".join(raw_paths(source)) if isinstance(source, str) and source else ""
        raw: RawReading = {
            "num_samples": samples,
            "float_label": params.float_label_dense,
            "float_dense": params.float_label_dense,
            "slot_offsets": prefix_sums(params.slot_size_array) if adds_offsets else [],
            "direct": direct,
            "on_bad_data": params.on_bad_data,
        }
        if direct:
            if _is_multi_hot(params.async_param):
                raw["keys"] = "All"
            raw["float_label"], raw["float_dense"] = _float_parts(params, paths, inputs)
            raw["block_bytes"] = max(params.async_param.io_block_size, 1)
            raw["keep_bytes"] = params.async_param.keep_resident_mb << 20
        spec[prefix + "raw"] = raw  # type: ignore[literal-required]
        if paths:
            spec[prefix + "source"] = paths  # type: ignore[literal-required]
    if direct:
        spec["decode_threads"] = params.async_param.num_threads
    return spec
