# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

CASES = [
    ((9, 1), 1),
    ((9, 13), 1),
    ((300, 200), 1),
    ((70, 429), 1),
    ((6, 5, 3), 1),
    ((37, 26, 16), 1),
    ((6, 5, 19), 2),
    ((37, 26, 16), 2),
]


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_reduce_sum_fwd(rows, rng, shape, axis):
    x = rows(shape)
    wanted = x.astype(np.float64).sum(axis=axis, keepdims=True)
    y = rows(np.full(wanted.shape, np.nan))
    _core.run_op("reduce_sum_fwd", {"x": x, "y": y}, {"axis": axis})
    assert np.linalg.norm(y - wanted) <= 1e-5 * np.linalg.norm(x)


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_reduce_sum_bwd(rows, shape, axis):
    reduced = tuple(1 if i == axis else n for i, n in enumerate(shape))
    dy = rows(reduced)
    dx = rows(np.full(shape, np.nan))
    _core.run_op("reduce_sum_bwd", {"dy": dy, "dx": dx}, {"axis": axis})
    np.testing.assert_array_equal(dx, np.broadcast_to(dy, shape))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_reduce_sum_in_16_bits(rng, real, layout, shape, axis):
    x = LaidOut(real, rng.standard_normal(shape), layout)
    wanted = x.values.sum(axis=axis, keepdims=True)
    y = blank(real, wanted.shape, layout)
    _core.run_op("reduce_sum_fwd", {"x": x.view, "y": y.view}, {"axis": axis})
    y.check_gaps()
    assert_near(y.values, wanted, real.tolerance)
    dy, dx = LaidOut(real, wanted, layout), blank(real, shape, layout)
    _core.run_op("reduce_sum_bwd", {"dy": dy.view, "dx": dx.view}, {"axis": axis})
    dx.check_gaps()
    np.testing.assert_array_equal(dx.values, np.broadcast_to(dy.values, shape))


def test_reduce_sum_wants_an_axis_of_the_row():
    x, y = np.zeros((4, 3), np.float32), np.zeros((1, 3), np.float32)
    with pytest.raises(_core.InvalidArgument, match="axis is 0, must be 1"):
        _core.run_op("reduce_sum_fwd", {"x": x, "y": y}, {"axis": 0})
