# SPDX-License-Identifier: Apache-2.0
"""Arrays of float32, float16 and bfloat16 as ops take them, for tests of ops in 16 bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Real:
    """One element type: how numbers are stored, and how near a result must be to float64.

    bfloat16 has no NumPy type; its bits travel as uint16.
    """

    name: str
    tolerance: float  #: ||found - wanted|| / ||wanted||, wanted from the rounded inputs

    def store(self, values: npt.ArrayLike) -> npt.NDArray[np.generic]:
        """The values rounded to nearest even, as an op takes them."""
        x = np.asarray(values, np.float32)
        if self.name == "float32":
            return x.copy()
        if self.name == "float16":
            return x.astype(np.float16)
        bits = x.view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)

    def values(self, stored: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
        """What a stored array stands for."""
        if self.name == "bfloat16":
            wide = stored.astype(np.uint32) << 16
            return wide.view(np.float32).astype(np.float64)
        return stored.astype(np.float64)

    def empty(self, shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
        """Memory for a result, full of NaN."""
        return self.store(np.full(shape, np.nan, np.float32))


FLOAT32 = Real("float32", 1e-5)
FLOAT16 = Real("float16", 2e-3)
BFLOAT16 = Real("bfloat16", 1e-2)
REALS = [FLOAT32, FLOAT16, BFLOAT16]
HALVES = [FLOAT16, BFLOAT16]
