# SPDX-License-Identifier: Apache-2.0
"""Arrays of any element type with their rows apart, for tests of ops that honour row strides."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from oracle.reals import Real

#: Rows one after the other; at a distance that 16-byte accesses like; at one that they do not.
LAYOUTS = ["packed", "aligned", "odd"]


class LaidOut:
    """Numbers stored as ``real`` in a layout; ``view`` is what an op takes."""

    def __init__(self, real: Real, numbers: npt.ArrayLike, layout: str) -> None:
        stored = real.store(numbers)
        row = int(np.prod(stored.shape[1:]))
        stride = {"packed": row, "aligned": (row + 7) // 8 * 8 + 8, "odd": (row + 2) // 2 * 2 + 5}
        self._real = real
        self._row = row
        self._wide = np.broadcast_to(
            real.store(np.full(1, 7.0)), (len(stored), stride[layout])
        ).copy()
        self.view = np.lib.stride_tricks.as_strided(
            self._wide, stored.shape, (self._wide.strides[0], *stored.strides[1:])
        )
        self.view[...] = stored

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The numbers that are stored, as float64."""
        return self._real.values(np.ascontiguousarray(self.view))

    def check_gaps(self) -> None:
        """Fails when something was written between the rows."""
        assert (self._real.values(self._wide[:, self._row :].copy()) == 7.0).all()


def blank(real: Real, shape: tuple[int, ...], layout: str) -> LaidOut:
    """Memory for a result, full of NaN."""
    return LaidOut(real, np.full(shape, np.nan), layout)


def assert_near(
    found: npt.ArrayLike, wanted: npt.ArrayLike, tolerance: float, scale: float = 0.0
) -> None:
    """Distance of the whole arrays at most ``tolerance`` of the wanted one (or of ``scale``)."""
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    assert a.shape == b.shape
    assert np.isfinite(a).all(), "not finite"
    distance = np.linalg.norm(a - b) / max(np.linalg.norm(b), scale, 1e-30)
    assert distance <= tolerance, f"distance {distance:.2e}, at most {tolerance}"
