# SPDX-License-Identifier: Apache-2.0
"""Data sets in the formats that the readers take."""

from hugectr.data.arrays import MemoryDataset, from_arrays
from hugectr.data.norm import NormHeader, read_norm_header, write_file_list, write_norm

__all__ = [
    "MemoryDataset",
    "NormHeader",
    "from_arrays",
    "read_norm_header",
    "write_file_list",
    "write_norm",
]
