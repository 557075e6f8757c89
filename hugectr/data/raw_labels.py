# SPDX-License-Identifier: Apache-2.0
"""Whether the labels of a Raw file are float32 or int32, where nobody says."""

from __future__ import annotations

import numpy as np

from hugectr.base.errors import DataError
from hugectr.data.regular_file import open_regular

_SAMPLES = 1024
#: The smallest float32 without leading zeros in its mantissa, as an integer: no label is as large.
_LEAST_FLOAT = 0x0080_0000


def has_float_label(path: str, label_dim: int, words: int) -> bool:
    """Whether some label of the first samples is a float32 other than 0.

    Parameters
    ----------
    path : str
        A Raw file. One that can not be read has none: who reads it says what is wrong.
    label_dim : int
        Labels of a sample, its first words.
    words : int
        Words of a sample, 4 bytes each.
    """
    try:
        with open_regular(path) as file:
            head = file.read(4 * words * _SAMPLES)
    except (DataError, OSError):
        return False
    count = len(head) // (4 * words)
    samples = np.frombuffer(head, "<u4", count * words).reshape(count, words)
    return bool((samples[:, :label_dim] >= _LEAST_FLOAT).any())
