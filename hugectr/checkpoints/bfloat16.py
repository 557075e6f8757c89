# SPDX-License-Identifier: Apache-2.0
"""bfloat16 in files of checkpoints.

NumPy does not have it: in memory such numbers are float32, which has all of them, and their upper
16 bits are what files hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.checkpoints.direct_file import aligned_empty

BFLOAT16 = "bfloat16"
#: Type of what a file holds -> bytes of one.
ITEM_BYTES = {"uint8": 1, BFLOAT16: 2, "float32": 4, "float64": 8, "int64": 8, "uint64": 8}


def in_memory(dtype: str) -> str:
    """Type of the arrays that what is stored as ``dtype`` becomes."""
    return "float32" if dtype == BFLOAT16 else dtype


def stored(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Values as a file of ``dtype`` holds them.

    Parameters
    ----------
    values : ndarray
        For ``"bfloat16"`` of float32; what is none of bfloat16 is rounded to nearest even.
    dtype : str
    """
    if dtype != BFLOAT16:
        return values
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    upper = aligned_empty(values.shape, np.uint16)
    np.right_shift(bits, 16, out=upper, casting="unsafe")
    if (bits & np.uint32(0xFFFF)).any():  # a table of bfloat16 has none
        rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
        upper[...] = np.where(np.isnan(values), upper | 0x40, rounded)
    return upper


def from_bytes(data: bytearray | memoryview, dtype: str) -> npt.NDArray[Any]:
    """What a file of ``dtype`` holds in these bytes."""
    if dtype != BFLOAT16:
        return np.frombuffer(data, dtype)
    return (np.frombuffer(data, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
