# SPDX-License-Identifier: Apache-2.0
"""Whether words of a Raw file are float32 or int32, where nobody says."""

from __future__ import annotations

import numpy as np

from hugectr.base.errors import DataError
from hugectr.data.regular_file import open_regular

_SAMPLES = 1024
#: Bits of float32 numbers whose absolute value is 2**-63 to 2**63. As int32 they are 0.5 to 1.6
#: milliards, or that below the least: no label, count or amount of a feature is.
_LEAST, _BEHIND = 0x2000_0000, 0x5F80_0000


def are_floats(path: str, words: int, begin: int, end: int) -> bool:
    """Whether most words of the first samples that are not 0 are float32.

    Parameters
    ----------
    path : str
        A Raw file. One that can not be read has none: who reads it says what is wrong.
    words : int
        Words of a sample, 4 bytes each.
    begin, end : int
        Which of them are looked at.
    """
    try:
        with open_regular(path) as file:
            head = file.read(4 * words * _SAMPLES)
    except (DataError, OSError):
        return False
    count = len(head) // (4 * words)
    samples = np.frombuffer(head, "<u4", count * words).reshape(count, words)[:, begin:end]
    bits = samples[samples != 0] & 0x7FFF_FFFF
    floats = np.count_nonzero((bits >= _LEAST) & (bits < _BEHIND))
    return bool(2 * floats > len(bits))
