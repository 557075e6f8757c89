# SPDX-License-Identifier: Apache-2.0
"""Where the ticks of an axis are, and what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits at most: 0.4312, 12.5k, 3e-07."""
    for size, letter in _PREFIXES:
        if abs(value) >= 10 * size or (abs(value) >= size and size > 1e3):
            return f"{value / size:.{digits}g}{letter}"
    return f"{value:.{digits}g}"


def labels(values: Sequence[float]) -> list[str]:
    """Numbers with as many digits as tell them apart."""
    texts: list[str] = []
    for digits in range(4, 10):
        texts = [number(value, digits) for value in values]
        if len(set(texts)) == len(values):
            break
    return texts


def ticks(low: float, high: float, wanted: int, whole: bool = False) -> list[float]:
    """Round numbers that lie between two values.

    Parameters
    ----------
    low, high : float
        ``low < high``.
    wanted : int
        About how many.
    whole : bool
        Integers alone.
    """
    rough = (high - low) / max(1, wanted)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= rough * 0.999)
    if whole:
        step = max(1.0, math.ceil(step - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def span(values: Sequence[float], margin: float = 0.0) -> tuple[float, float]:
    """Least and largest finite value, a little apart where they are one.

    Parameters
    ----------
    values : sequence of float
    margin : float
        What to leave free on both sides, as a share.
    """
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        apart = abs(low) * 0.05 or 0.5
        return low - apart, high + apart
    free = (high - low) * margin
    return low - free, high + free
