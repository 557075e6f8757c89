# SPDX-License-Identifier: Apache-2.0
"""Whether numbers are finite, at the cost of reading them once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_BLOCK = 1 << 16  # elements: what stays in the cache between the largest and the smallest


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
    for begin in range(0, flat.size, _BLOCK):
        block = flat[begin : begin + _BLOCK]
        if not (block.max() < np.inf and block.min() > -np.inf):  # NaN is neither
            found = np.flatnonzero(~np.isfinite(flat))
            return NonFinite(found.size, int(found[0]))
    return None
