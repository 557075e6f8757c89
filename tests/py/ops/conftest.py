# SPDX-License-Identifier: Apache-2.0
"""Tests of ops run on every device there is, with the same oracle."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

Stored = npt.NDArray[np.generic]


@pytest.fixture(autouse=True)
def every_device(run_on_device: None) -> None:
    """See ``run_on_device``."""


@pytest.fixture(params=[0, 16, 5], ids=["packed", "strided", "odd-stride"])
def lay_out(request: pytest.FixtureRequest) -> Callable[[Stored], Stored]:
    """``lay_out(array)``: the same rows contiguous, 16 elements apart, and 5 elements apart.

    For arrays of any element type, see ``oracle.reals``. Rows of whole 16 bytes keep their
    alignment in the first two.
    """

    def make(array: Stored) -> Stored:
        row_size = int(np.prod(array.shape[1:]))
        wide = np.full((array.shape[0], row_size + request.param), 7, array.dtype)
        inner = np.empty(array.shape[1:], array.dtype).strides
        rows = np.lib.stride_tricks.as_strided(wide, array.shape, (wide.strides[0], *inner))
        rows[...] = array
        return rows

    return make
