# SPDX-License-Identifier: Apache-2.0
"""Random keys: uniform, or by a power law that makes the first keys of a slot the frequent ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hugectr.spec.enums import Distribution_t, PowerLaw_t

_ALPHA = {PowerLaw_t.Long: 0.9, PowerLaw_t.Medium: 1.1, PowerLaw_t.Short: 1.3}


def power_law_alpha(power_law_type: PowerLaw_t, alpha: float) -> float:
    """The exponent of a named power law; ``alpha`` itself for ``PowerLaw_t.Specific``."""
    return _ALPHA.get(power_law_type, alpha)


def draw_keys(
    generator: np.random.Generator,
    count: int,
    low: int,
    size: int,
    distribution: Distribution_t,
    alpha: float,
) -> npt.NDArray[Any]:
    """Draw keys from [low, low + size).

    Parameters
    ----------
    generator : Generator
    count : int
        Keys to draw.
    low, size : int
        Range of the keys.
    distribution : Distribution_t
    alpha : float
        Exponent of the power law, > 0 and != 1; key low + r has about the weight (r + 1)^-alpha.

    Returns
    -------
    ndarray of int64, (count,)
    """
    if distribution == Distribution_t.Uniform:
        return generator.integers(low, low + size, count, dtype=np.int64)
    # Inverse of the distribution function of y^-alpha on [1, size]; rounding makes it a key.
    x = generator.random(count)
    y = ((float(size) ** (1 - alpha) - 1) * x + 1) ** (1 / (1 - alpha))
    ranks: npt.NDArray[np.int64] = np.clip(np.rint(y), 1, size).astype(np.int64)
    return ranks + (low - 1)
