# SPDX-License-Identifier: Apache-2.0
"""Data sets in the formats that the readers take."""

from typing import TYPE_CHECKING

from hugectr.base.lazy import lazy_names

if TYPE_CHECKING:
    from hugectr.data.arrays import MemoryDataset, from_arrays
    from hugectr.data.columns import Columns, Shuffle
    from hugectr.data.data_source import DataSourceParams, FileSystemType_t
    from hugectr.data.norm import NormHeader, read_norm_header, write_file_list, write_norm
    from hugectr.data.parquet_metadata import write_metadata
    from hugectr.data.schema import (
        CategoricalField,
        DenseField,
        EncodedData,
        GroupField,
        IgnoredField,
        InputLayer,
        LabelField,
        ListField,
        Schema,
        SequenceField,
        SparseInput,
        TimestampField,
        WeightField,
    )
    from hugectr.data.table_dataset import TableDataset
    from hugectr.data.tables import from_arrow, from_frame, key_of

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "hugectr.data.arrays": ("MemoryDataset", "from_arrays"),
        "hugectr.data.columns": ("Columns", "Shuffle"),
        "hugectr.data.data_source": ("DataSourceParams", "FileSystemType_t"),
        "hugectr.data.norm": ("NormHeader", "read_norm_header", "write_file_list", "write_norm"),
        "hugectr.data.parquet_metadata": ("write_metadata",),
        "hugectr.data.schema": (
            "CategoricalField",
            "DenseField",
            "EncodedData",
            "GroupField",
            "IgnoredField",
            "InputLayer",
            "LabelField",
            "ListField",
            "Schema",
            "SequenceField",
            "SparseInput",
            "TimestampField",
            "WeightField",
        ),
        "hugectr.data.table_dataset": ("TableDataset",),
        "hugectr.data.tables": ("from_arrow", "from_frame", "key_of"),
    },
)

__all__ = [
    "CategoricalField",
    "Columns",
    "DataSourceParams",
    "DenseField",
    "EncodedData",
    "FileSystemType_t",
    "GroupField",
    "IgnoredField",
    "InputLayer",
    "LabelField",
    "ListField",
    "MemoryDataset",
    "NormHeader",
    "Schema",
    "SequenceField",
    "Shuffle",
    "SparseInput",
    "TableDataset",
    "TimestampField",
    "WeightField",
    "from_arrays",
    "from_arrow",
    "from_frame",
    "key_of",
    "read_norm_header",
    "write_file_list",
    "write_metadata",
    "write_norm",
]
