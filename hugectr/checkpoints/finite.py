# SPDX-License-Identifier: Apache-2.0
"""Whether numbers are finite, at the cost of reading them once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_BLOCK = 1 << 16  # elements: what stays in the cache between the two looks at it
#: Bytes of a float -> signed and unsigned integers of that size, and infinity's bits as them. Bits
#: of positive floats are ordered as they are, those of negative ones lie above them; infinity and
#: what is no number come last of each.
_BITS = {
    2: (np.int16, np.int16(0x7C00), np.uint16, np.uint16(0xFC00)),
    4: (np.int32, np.int32(0x7F800000), np.uint32, np.uint32(0xFF800000)),
    8: (np.int64, np.int64(0x7FF0 << 48), np.uint64, np.uint64(0xFFF0 << 48)),
}


@dataclass(frozen=True)
class NonFinite:
    """Elements of an array that are infinite or no number.

    Attributes
    ----------
    count : int
    first : int
        Place of the first of them.
    """

    count: int
    first: int


def nonfinite(values: npt.NDArray[Any]) -> NonFinite | None:
    """What is not finite in an array; None: everything is, or is no float."""
    if values.dtype.kind != "f":
        return None
    flat = values.reshape(-1)
    signed, plus, unsigned, minus = _BITS[flat.dtype.itemsize]
    for begin in range(0, flat.size, _BLOCK):
        block = flat[begin : begin + _BLOCK]
        # Integers: their largest costs half of what that of floats does, which looks for NaN.
        if block.view(signed).max() >= plus or block.view(unsigned).max() >= minus:
            found = np.flatnonzero(~np.isfinite(flat))
            return NonFinite(found.size, int(found[0]))
    return None
