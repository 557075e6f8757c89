# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import REALS
from oracle.row_layouts import assert_near

from hugectr import _core

CASES = [
    ((9, 13), 0, [8]),
    ((9, 13), 1, [0, 12, 0]),
    ((9, 16), 0, [3, 3, 0]),
    ((7, 5, 16), 1, [4, 0, 4]),
    ((7, 5, 16), 2, [1, 15]),
    ((7, 5, 3), 0, [6, 6]),
    ((3, 2, 4, 8), 2, [3, 1]),
]


@pytest.mark.parametrize("real", REALS, ids=lambda real: real.name)
@pytest.mark.parametrize(("shape", "axis", "indices"), CASES)
def test_take(rng, lay_out, real, shape, axis, indices):
    x = lay_out(real.store(rng.standard_normal(shape)))
    wanted = real.values(x).take(indices, axis)
    y = lay_out(real.empty(wanted.shape))
    _core.run_op("take_fwd", {"x": x, "y": y}, {"indices": indices, "axis": axis})
    np.testing.assert_array_equal(real.values(y), wanted)

    dx = lay_out(real.empty(shape))
    _core.run_op("take_bwd", {"dy": y, "dx": dx}, {"indices": indices, "axis": axis})
    gradient = np.zeros(shape)
    np.add.at(gradient, (*[slice(None)] * axis, indices), wanted)
    assert_near(real.values(dx), gradient, real.tolerance)


def test_a_gradient_sums_what_was_picked_often(rng):
    dy = rng.standard_normal((1300, 200)).astype(np.float32)
    indices = rng.integers(0, 4, len(dy))
    dx = np.full((4, 200), np.nan, np.float32)
    _core.run_op("take_bwd", {"dy": dy, "dx": dx}, {"indices": indices.tolist(), "axis": 0})
    wanted = np.zeros(dx.shape)
    np.add.at(wanted, indices, dy.astype(np.float64))
    assert_near(dx, wanted, 1e-5)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"indices": [3], "axis": 1}, r"index 3 is not in \[0, 3\)"),
        ({"indices": [0], "axis": 2}, r"axis is 2, must be in \[0, 2\)"),
        ({"indices": [], "axis": 1}, "indices is empty"),
    ],
)
def test_what_is_wrong_is_named(attributes, message):
    x = np.zeros((4, 3), np.float32)
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.run_op("take_fwd", {"x": x, "y": x[:, :1].copy()}, attributes)
