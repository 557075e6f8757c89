# SPDX-License-Identifier: Apache-2.0
"""Where samples come from and what a sample holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from hugectr.base.arguments import (
    check_bool,
    check_choice,
    check_enum,
    check_float,
    check_int,
    check_ints,
    check_str,
)
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.keywords import named_keywords
from hugectr.base.no_effect import warn_given
from hugectr.data.arrays import MemoryDataset
from hugectr.data.columns import Columns, Shuffle
from hugectr.data.table_dataset import TableDataset
from hugectr.spec.enums import Check_t, DataReaderSparse_t, DataReaderType_t
from hugectr.spec.labels import checked_labels
from hugectr.spec.memory_data import memory_data
from hugectr.spec.reader_formats import (
    READER_WITHOUT_EFFECT,
    AsyncParam,
    DataSourceParams,
    check_data_source,
    format_spec,
    reader_shuffle,
)
from hugectr.spec.sources import sources_with_keysets

if TYPE_CHECKING:
    from hugectr._core import InputSpec, MemoryData, ReaderSpec, SparseInputSpec

Source = str | MemoryDataset | TableDataset

# Slots of a sparse input: far more than any data has, and few enough to write down each.
MOST_SLOTS = 1 << 20


def one_source(name: str, value: Any) -> Source:
    """A single source; old scripts give it as a list of one."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise rejected(name, value, "one source; several need a keyset each")
        value = value[0]
    if isinstance(value, MemoryDataset | TableDataset):
        return value
    if not isinstance(value, str):
        raise rejected(
            name, value, "a path, or data in memory (from_frame, from_arrow, from_arrays)"
        )
    return value


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
        newlines, or a glob pattern. Parquet: a file, folder, glob pattern, file list or URL. Of
        several, which need a keyset each, ``fit`` trains one after the other; ``source`` is then
        the first, ``sources`` has all.
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
        Where the files are.
    num_workers : int
        Threads that parse. Any number works with any number of files, and gives the same order.
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
        checked("sources", sources)
        checked("keysets", keysets)
        source = sources[0] if sources else one_source(where + "source", self.source)
        if source == "":
            raise rejected(where + "source", "", "a path, or data in memory")
        checked("source", source)
        checked("eval_source", one_source(where + "eval_source", self.eval_source))
        check_enum(where + "check_type", self.check_type, Check_t)
        for name in (
            "cache_eval_data",
            "num_samples",
            "eval_num_samples",
            "resident_batches",
            "read_ahead_mb",
        ):
            checked(name, check_int(where + name, getattr(self, name), 0))
        check_bool(where + "float_label_dense", self.float_label_dense)
        check_bool(where + "replicated", self.replicated)
        checked("num_workers", check_int(where + "num_workers", self.num_workers, 1))
        checked(
            "slot_size_array", check_ints(where + "slot_size_array", list(self.slot_size_array), 0)
        )
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
        check_data_source(where + "data_source_params", self.data_source_params)
        defaults = {item.name: item.default for item in fields(self)}
        warn_given("DataReaderParams", vars(self), defaults, READER_WITHOUT_EFFECT)

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


@named_keywords("DataReaderSparseParam")
class DataReaderSparseParam:
    """One sparse input: some slots that are read, and usually looked up, together.

    Parameters
    ----------
    top_name : str
        Name of the input, the bottom of a SparseEmbedding.
    nnz_per_slot : int or list of int
        Largest number of keys of each slot; an int stands for all slots.
    is_fixed_length : bool
        Every slot of every sample has exactly ``nnz_per_slot`` keys.
    slot_num : int
        Number of slots.

    Notes
    -----
    The v3.0 form ``DataReaderSparseParam(DataReaderSparse_t, max_feature_num, max_nnz, slot_num)``
    also works; Input's ``sparse_names`` then gives the names. A slot may hold ``max_nnz`` keys,
    plus whatever ``max_feature_num`` allows beyond ``slot_num * max_nnz``.
    """

    def __init__(
        self,
        top_name: str | DataReaderSparse_t = "",
        nnz_per_slot: int | Sequence[int] | None = None,
        is_fixed_length: bool | int = False,
        slot_num: int = 0,
        *,
        data_type: DataReaderSparse_t | None = None,
        max_feature_num: int | None = None,
        max_nnz: int | None = None,
    ) -> None:
        where = "DataReaderSparseParam: "
        self.slot_num = check_int(where + "slot_num", slot_num, 1, MOST_SLOTS)
        if isinstance(top_name, DataReaderSparse_t):
            data_type, top_name = top_name, ""
            if max_feature_num is None and isinstance(nnz_per_slot, int):
                max_feature_num, nnz_per_slot = nnz_per_slot, None
                if max_nnz is None:
                    max_nnz, is_fixed_length = int(is_fixed_length), False
        if max_feature_num is not None:
            features = check_int(where + "max_feature_num", max_feature_num, 1)
            most = features if max_nnz is None else check_int(where + "max_nnz", max_nnz, 1)
            excess = max(0, features - self.slot_num * most)
            nnz_per_slot = min(most + excess, features)
        elif data_type is not None:
            raise rejected(where + "max_feature_num", None, "an integer >= 1")
        self.top_name = check_str(where + "top_name", top_name)
        self.is_fixed_length = check_bool(where + "is_fixed_length", is_fixed_length)
        if nnz_per_slot is None:
            raise rejected(where + "nnz_per_slot", None, "an integer >= 1 or a list of them")
        if isinstance(nnz_per_slot, Sequence):
            self.nnz_per_slot = check_ints(where + "nnz_per_slot", nnz_per_slot, 1)
            if len(self.nnz_per_slot) != self.slot_num:
                raise rejected(
                    where + "nnz_per_slot",
                    nnz_per_slot,
                    f"one number, or slot_num = {self.slot_num} of them",
                )
        else:
            self.nnz_per_slot = [check_int(where + "nnz_per_slot", nnz_per_slot, 1)] * self.slot_num

    @property
    def max_feature_num(self) -> int:
        """Largest number of keys of a sample."""
        return sum(self.nnz_per_slot)

    @property
    def max_nnz(self) -> int:
        """Largest number of keys of a slot."""
        return max(self.nnz_per_slot)

    def to_spec(self) -> SparseInputSpec:
        """The input as the core reads it."""
        return {
            "top_name": self.top_name,
            "nnz_per_slot": self.nnz_per_slot,
            "is_fixed_length": self.is_fixed_length,
            "slot_num": self.slot_num,
        }

    def __repr__(self) -> str:
        return (
            f"DataReaderSparseParam({self.top_name!r}, {self.nnz_per_slot}, "
            f"{self.is_fixed_length}, {self.slot_num})"
        )


def _reader_of_input(
    kind: DataReaderType_t | None, reader: dict[str, Any]
) -> DataReaderParams | None:
    """The reader that an Input of v3.0 describes; None for later ones."""
    if kind is not None:
        return DataReaderParams(kind, **{"add_slot_offsets": True, **reader})
    for name, value in reader.items():
        if name in DataReaderParams.__dataclass_fields__:
            raise rejected("Input: " + name, value, "only with data_reader_type")
        raise TypeError(f"Input: there is no argument {name!r}; see help(hugectr.Input)")
    return None


class Input:
    """What a sample holds: the first thing added to a model.

    Parameters
    ----------
    label_dim : int or list of int
        Labels of a sample; of several label tensors the columns of each.
    label_name : str or list of str
        Name of the label tensor, (batch, label_dim); or of each.
    dense_dim : int
        Dense features of a sample, possibly 0.
    dense_name : str
        Name of the dense tensor, (batch, dense_dim).
    data_reader_sparse_param_array : list of DataReaderSparseParam
        The sparse inputs in the order of the data.
    sparse_names : list of str
        v3.0 form: names of the sparse inputs.
    label_dims, label_names : list
        The same as lists for label_dim and label_name: the columns of the data's labels, in their
        order.
    label_weights : list of float
        What the loss of each label counts in the sum; 1 each unless given. Needs several labels.
    group_name : str
        The label of one column whose values are the groups, such as users, that
        ``MetricsType.GAUC`` ranks within: whole numbers up to 16,777,216 are told apart.
    data_reader_type : DataReaderType_t, optional
        v3.0 form: the input says where its samples come from, not ``DataReaderParams``.
    **reader
        v3.0 form: the other arguments of those; ``slot_size_array`` adds slot offsets.

    Attributes
    ----------
    label_dims, label_names : list
        Of all label tensors; ``label_dim`` is the sum, ``label_name`` the first name.
    label_weights : list of float
        One a label tensor.
    """

    def __init__(
        self,
        label_dim: int | Sequence[int] | None = None,
        label_name: str | Sequence[str] | None = None,
        dense_dim: int = 0,
        dense_name: str = "dense",
        data_reader_sparse_param_array: Sequence[DataReaderSparseParam] = (),
        sparse_names: Sequence[str] | None = None,
        *,
        label_dims: Sequence[int] | None = None,
        label_names: Sequence[str] | None = None,
        label_weights: Sequence[float] | None = None,
        group_name: str = "",
        data_reader_type: DataReaderType_t | None = None,
        **reader: Any,
    ) -> None:
        where = "Input: "
        self.reader_params = _reader_of_input(data_reader_type, reader)
        labels = checked_labels(
            where,
            label_dim if label_dims is None else label_dims,
            label_name if label_names is None else label_names,
            label_weights,
        )
        self.label_dims, self.label_names, self.label_weights = labels
        self.label_dim, self.label_name = sum(self.label_dims), self.label_names[0]
        self.group_name = check_str(where + "group_name", group_name)
        if group_name and group_name not in self.label_names:
            raise rejected(where + "group_name", group_name, f"one of {self.label_names}")
        self.dense_dim = check_int(where + "dense_dim", dense_dim, 0)
        self.dense_name = check_str(where + "dense_name", dense_name, empty=False)
        self.sparse = list(data_reader_sparse_param_array)
        for i, param in enumerate(self.sparse):
            name = f"{where}data_reader_sparse_param_array[{i}]"
            if not isinstance(param, DataReaderSparseParam):
                raise rejected(name, param, "a hugectr.DataReaderSparseParam")
        if sparse_names is not None:
            if len(sparse_names) != len(self.sparse):
                raise rejected(where + "sparse_names", sparse_names, f"{len(self.sparse)} names")
            for param, name in zip(self.sparse, sparse_names, strict=True):
                param.top_name = check_str(where + "sparse_names", name, empty=False)
        for i, param in enumerate(self.sparse):
            if not param.top_name:
                raise rejected(f"{where}top_name of sparse input {i}", "", "a non-empty string")
        names = [*self.label_names, self.dense_name, *(param.top_name for param in self.sparse)]
        for name in names:
            if names.count(name) > 1:
                raise InvalidArgument(
                    f"{where}two parts are called {name!r}: give each its own name"
                )

    def sparse_param(self, top_name: str) -> DataReaderSparseParam | None:
        """The sparse input of that name."""
        return next((param for param in self.sparse if param.top_name == top_name), None)

    def memory_data(self, where: str, data: MemoryDataset, labels: bool = True) -> MemoryData:
        """Data in memory, in the order of this input and checked against it.

        Parameters
        ----------
        where : str
            What the data is, for messages.
        data : MemoryDataset
        labels : bool
            Whether they are needed.
        """
        return memory_data(self, where, data, labels)

    def to_spec(self) -> InputSpec:
        """The input as the core reads it."""
        spec: InputSpec = {
            "label_name": self.label_name,
            "dense_name": self.dense_name,
            "label_dim": self.label_dim,
            "dense_dim": self.dense_dim,
            "sparse": [param.to_spec() for param in self.sparse],
            "group_name": self.group_name,
        }
        if len(self.label_names) > 1:
            spec["labels"] = list(zip(self.label_names, self.label_dims, strict=True))
        return spec
