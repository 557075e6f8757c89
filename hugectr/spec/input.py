# SPDX-License-Identifier: Apache-2.0
"""What a sample holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hugectr.base.arguments import check_bool, check_int, check_ints, check_str, listed
from hugectr.base.errors import InvalidArgument, rejected
from hugectr.base.keywords import named_keywords
from hugectr.data.arrays import MemoryDataset
from hugectr.spec.enums import DataReaderSparse_t, DataReaderType_t
from hugectr.spec.labels import checked_labels
from hugectr.spec.memory_data import memory_data
from hugectr.spec.reader import DataReaderParams

if TYPE_CHECKING:
    from hugectr._core import InputSpec, MemoryData, SparseInputSpec

# Slots of a sparse input: far more than any data has, and few enough to write down each.
MOST_SLOTS = 1 << 20
#: Keys that a slot of a sample may have, and dense features: int32.
MOST_KEYS = MOST_DENSE = 2**31 - 1


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
        That every slot has ``nnz_per_slot`` keys. A hint: slots with fewer are read as they are.
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
        nnz_per_slot = listed(nnz_per_slot)
        if isinstance(nnz_per_slot, list):
            self.nnz_per_slot = check_ints(where + "nnz_per_slot", nnz_per_slot, 1, MOST_KEYS)
            if len(self.nnz_per_slot) != self.slot_num:
                raise rejected(
                    where + "nnz_per_slot",
                    nnz_per_slot,
                    f"one number, or slot_num = {self.slot_num} of them",
                )
        else:
            most = check_int(where + "nnz_per_slot", nnz_per_slot, 1, MOST_KEYS)
            self.nnz_per_slot = [most] * self.slot_num

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
        ``MetricsType.GAUC`` ranks within: whole numbers up to 16,777,216 are told apart. Data in
        memory may have them as its ``group`` instead (a schema's GroupField): any integers.
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
        self.dense_dim = check_int(where + "dense_dim", dense_dim, 0, MOST_DENSE)
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
