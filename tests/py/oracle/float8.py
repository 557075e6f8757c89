# SPDX-License-Identifier: Apache-2.0
"""Numbers of fp8 and tensors rounded to them: a table of all numbers, and no bit tricks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

E4M3, E5M2 = "e4m3", "e5m2"


def _table(mantissa: int, bias: int, largest: float) -> npt.NDArray[np.float64]:
    """The numbers from 0 on, in the order of their bits."""
    found = []
    for bits in range(128):
        exponent, part = divmod(bits, 2**mantissa)
        if exponent == 0:
            value = part * 2.0 ** (1 - bias - mantissa)
        else:
            value = (2**mantissa + part) * 2.0 ** (exponent - bias - mantissa)
        if value <= largest:
            found.append(value)
    return np.array(found)


NUMBERS = {E4M3: _table(3, 7, 448.0), E5M2: _table(2, 15, 57344.0)}


def scale_of(x: npt.ArrayLike, kind: str) -> float:
    """The least power of two that takes the largest finite number into the range."""
    values = np.abs(np.asarray(x, np.float64))
    most = values[np.isfinite(values)].max(initial=0.0)
    scale = 2.0**-126
    while most / scale > NUMBERS[kind][-1]:
        scale *= 2.0
    return float(scale)


def rounded(x: npt.ArrayLike, kind: str) -> npt.NDArray[np.float64]:
    """The nearest number times the scale, of two the one of even bits; NaN where not finite."""
    x = np.asarray(x, np.float64)
    table, scale = NUMBERS[kind], scale_of(x, kind)
    sizes = np.where(np.isfinite(x), np.abs(x), 0.0) / scale
    above = np.clip(np.searchsorted(table, sizes), 1, len(table) - 1)
    low, high = sizes - table[above - 1], table[above] - sizes
    up = (high < low) | ((high == low) & (above % 2 == 0))
    nearest = table[np.where(up, above, above - 1)]
    return np.where(np.isfinite(x), np.copysign(nearest * scale, x), np.nan)
