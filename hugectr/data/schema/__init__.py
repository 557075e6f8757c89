# SPDX-License-Identifier: Apache-2.0
"""Which column is what: from a frame or a file with text, gaps, numbers and lists to samples."""

from hugectr.data.schema.encode import EncodedData
from hugectr.data.schema.fields import (
    CategoricalField,
    DenseField,
    GroupField,
    IgnoredField,
    LabelField,
    ListField,
    SequenceField,
    TimestampField,
    WeightField,
)
from hugectr.data.schema.input_layer import InputLayer, SparseInput
from hugectr.data.schema.schema import Schema

__all__ = [
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
]
