# SPDX-License-Identifier: Apache-2.0
"""Where samples come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hugectr.base.arguments import (
    check_bool,
    check_choice,
    check_enum,
    check_float,
    check_int,
    check_ints,
)
from hugectr.base.errors import rejected
from hugectr.base.keywords import named_keywords
from hugectr.base.no_effect import warn_given
from hugectr.data.arrays import MemoryDataset
from hugectr.data.columns import Columns, Shuffle
from hugectr.data.data_source import DataSourceParams
from hugectr.data.table_dataset import TableDataset
from hugectr.spec.enums import Check_t, DataReaderType_t
from hugectr.spec.reader_formats import (
    READER_WITHOUT_EFFECT,
    AsyncParam,
    format_spec,
    reader_shuffle,
)
from hugectr.spec.sources import sources_with_keysets

if TYPE_CHECKING:
    from hugectr._core import ReaderSpec
    from hugectr.spec.input import Input

#: Threads of a reader: each has room for a batch, so that more would end in memory, not in speed.
_MOST_WORKERS = 65_536

Source = str | MemoryDataset | TableDataset
S = TypeVar("S", str, Source)


def one_source(name: str, value: Any) -> Source:
    """A single source; old scripts give it as a list of one."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise rejected(name, value, "one source; several need a keyset each")
        value = value[0]
    if isinstance(value, MemoryDataset | TableDataset):
        return value
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str):
        raise rejected(
            name, value, "a path, or data in memory (from_frame, from_arrow, from_arrays)"
        )
    return value


def _check_place(name: str, value: object, kind: DataReaderType_t) -> None:
    """Nothing, or a DataSourceParams of a place that files of that format are read from."""
    if value is None:
        return
    if not isinstance(value, DataSourceParams):
        raise rejected(name, value, "a hugectr.DataSourceParams")
    if not value.is_local and kind is not DataReaderType_t.Parquet:
        allowed = (
            f"FileSystemType_t.Local for {kind.name} files: copy them to this machine, "
            "or give the data as Parquet, which is read from there"
        )
        raise rejected(name, value, allowed)


@named_keywords("DataReaderParams")
@dataclass(frozen=True)
class DataReaderParams:
    """How the training and evaluation data are read.

    Parameters
    ----------
    data_reader_type : DataReaderType_t
        ``Norm``, ``Raw``, ``RawAsync`` or ``Parquet``; of no meaning for data in memory.
    source : str, list of str, TableDataset or MemoryDataset
        Training data. Norm: a file list. Raw, RawAsync: a file, several paths separated by
        newlines, glob patterns among them. Parquet: a file, folder, glob pattern, file list or URL;
        what a pattern matches or a list names may be folders, such as Spark's. Of several, which
        need a keyset each, ``fit`` trains one after the other; ``source`` is then the first,
        ``sources`` has all.
    keyset : str or list of str
        Of the embedding training cache: files of the keys of each source.
    eval_source : str, TableDataset or MemoryDataset
        The evaluation data; empty: no evaluation.
    check_type : Check_t
        Whether the files carry checksums.
    num_samples, eval_num_samples : int
        Raw, RawAsync: samples that the files must hold; 0: as many as they do. Where slots may hold
        several keys, the size of that many decides whether they hold one or all; else one.
    float_label_dense : bool
        Raw, RawAsync: labels and dense features are float32, else int32 (dense become log(x + 1)).
    slot_size_array : list of int
        RawAsync, Parquet, and Raw if ``add_slot_offsets``: the sum of the sizes of the slots before
        it is added to the keys of a slot; empty: nothing.
    async_param : AsyncParam
        Of RawAsync.
    cache_eval_data, read_file_sequentially
        Accepted and without effect.
    data_source_params : DataSourceParams, optional
        Where the files are: Parquet data may be elsewhere than on this machine.
    num_workers : int
        Threads that parse, up to 65536. Any number works with any number of files, and gives the
        same order.
    resident_batches : int
        Training batches to read once, keep in device memory and train on again and again; 0: read
        as training goes. Needs ``repeat_dataset``.
    on_bad_data : {"error", "skip"}
        What a damaged sample does: stop with a DataError, or be counted and passed over. A label
        that the loss does not take, and what is not a finite number, is damage too.
    max_bad_share : float
        With ``"skip"``: the largest share of the samples, 0 to 1, that may be passed over; a run
        that meets more is a DataError. Counted over all that was read since the data began, for
        training and evaluation apart, and against no fewer than 1,000 samples before a pass is
        over. Data of which nothing at all counts is always an error.
    columns : Columns or None
        Parquet: which column is what; None: as ``_metadata.json`` beside the files says.
    shuffle : bool or Shuffle
        Whether and how training samples change places; not for Norm.
    read_ahead_mb : int
        Parquet, RawAsync: decoded data held in memory, in MB. Beyond it nothing is decoded ahead;
        what the next batch needs always is, so that a row group larger than this is still read.
    add_slot_offsets : bool, optional
        Raw, RawAsync: whether the sums of ``slot_size_array`` are added to the keys. None: not for
        Raw, as in v3.3, but for RawAsync, and for Raw in a JSON config.
    replicated : bool
        In a job of several processes: every process decodes all data, and none sends samples to
        another. Otherwise each block of the data is decoded by one of them.
    """

    data_reader_type: DataReaderType_t
    source: str | Sequence[str] | MemoryDataset | TableDataset
    keyset: str | Sequence[str] = ""
    eval_source: str | MemoryDataset | TableDataset = ""
    check_type: Check_t = Check_t.Non
    cache_eval_data: int = 0
    num_samples: int = 0
    eval_num_samples: int = 0
    float_label_dense: bool = False
    num_workers: int = 12
    slot_size_array: Sequence[int] = ()
    async_param: AsyncParam = field(default_factory=AsyncParam)
    on_bad_data: str = "error"
    max_bad_share: float = 0.1
    columns: Columns | None = None
    shuffle: bool | Shuffle | None = None
    resident_batches: int = 0
    read_ahead_mb: int = 512
    replicated: bool = False
    add_slot_offsets: bool | None = None
    read_file_sequentially: bool = False
    data_source_params: DataSourceParams | None = None
    sources: tuple[str, ...] = field(init=False, default=())
    keysets: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        def checked(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        where = "DataReaderParams: "
        check_enum(where + "data_reader_type", self.data_reader_type, DataReaderType_t)
        sources, keysets = sources_with_keysets(where, self.source, self.keyset)
        checked("keysets", keysets)
        _check_place(where + "data_source_params", self.data_source_params, self.data_reader_type)
        source = sources[0] if sources else one_source(where + "source", self.source)
        if source == "":
            raise rejected(where + "source", "", "a path, or data in memory")
        evaluation = one_source(where + "eval_source", self.eval_source)
        checked("source", self.located(source))
        checked("eval_source", self.located(evaluation))
        checked("sources", tuple(self.located(name) for name in sources))
        check_enum(where + "check_type", self.check_type, Check_t)
        for name in (
            "cache_eval_data",
            "num_samples",
            "eval_num_samples",
            "resident_batches",
            "read_ahead_mb",
        ):
            value = getattr(self, name)
            whole = name == "cache_eval_data" and isinstance(value, bool)  # v2: True for all
            checked(name, int(value) if whole else check_int(where + name, value, 0))
        check_bool(where + "float_label_dense", self.float_label_dense)
        check_bool(where + "replicated", self.replicated)
        workers = check_int(where + "num_workers", self.num_workers, 1, _MOST_WORKERS)
        checked("num_workers", workers)
        checked("slot_size_array", check_ints(where + "slot_size_array", self.slot_size_array, 0))
        if not isinstance(self.async_param, AsyncParam):
            raise rejected(where + "async_param", self.async_param, "a hugectr.AsyncParam")
        check_choice(where + "on_bad_data", self.on_bad_data, ("error", "skip"))
        share = check_float(where + "max_bad_share", self.max_bad_share, 0.0, 1.0)
        checked("max_bad_share", share)
        if self.columns is not None and not isinstance(self.columns, Columns):
            raise rejected(where + "columns", self.columns, "a hugectr.data.Columns")
        checked("shuffle", reader_shuffle(where + "shuffle", self))
        if self.add_slot_offsets is not None:
            check_bool(where + "add_slot_offsets", self.add_slot_offsets)
        check_bool(where + "read_file_sequentially", self.read_file_sequentially)
        defaults = {item.name: item.default for item in fields(self)}
        warn_given("DataReaderParams", vars(self), defaults, READER_WITHOUT_EFFECT)

    def located(self, source: S) -> S:
        """A source as ``data_source_params`` locates it: a path, a URL, or data in memory."""
        if self.data_source_params is None or not isinstance(source, str):
            return source
        return self.data_source_params.located(source)

    @property
    def has_eval_source(self) -> bool:
        """Whether there is evaluation data."""
        return self.eval_source != ""

    def to_spec(self, inputs: Input) -> ReaderSpec:
        """The settings as the core reads them."""
        spec: ReaderSpec = {
            "check": "Sum" if self.check_type is Check_t.Sum else "None",
            "on_bad_data": self.on_bad_data,
            "max_bad_share": self.max_bad_share,
            "num_workers": self.num_workers,
            "resident_batches": self.resident_batches,
            "read_ahead_bytes": self.read_ahead_mb << 20,
            "replicated": self.replicated,
        }
        for prefix, source in (("", self.source), ("eval_", self.eval_source)):
            if isinstance(source, MemoryDataset):
                where = f"DataReaderParams: {prefix}source"
                spec[prefix + "memory"] = inputs.memory_data(where, source)  # type: ignore[literal-required]
            else:
                spec[prefix + "source"] = source if isinstance(source, str) else ""  # type: ignore[literal-required]
        spec |= format_spec(self, inputs)
        if isinstance(self.shuffle, Shuffle):
            spec["shuffle"] = self.shuffle.to_spec()
        return spec
