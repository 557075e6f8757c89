# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES

from hugectr import _core

SLOTS = [[0], [3, 1], [2, 2, 0], [4, 3, 2, 1, 0]]


@pytest.mark.parametrize("slots", SLOTS)
def test_select_slots_fwd(rows, slots):
    x = rows((9, 5, 3))
    y = rows(np.zeros((9, 3 * len(slots))))
    _core.run_op("select_slots_fwd", {"x": x, "y": y}, {"slots": slots})
    np.testing.assert_array_equal(y, x[:, slots].reshape(9, -1))


@pytest.mark.parametrize("slots", SLOTS)
def test_select_slots_bwd(rows, assert_close, slots):
    dy = rows((9, 3 * len(slots)))
    dx = rows(np.full((9, 5, 3), np.nan))
    wanted = np.zeros((9, 5, 3))
    for i, slot in enumerate(slots):
        wanted[:, slot] += dy[:, 3 * i : 3 * i + 3]
    _core.run_op("select_slots_bwd", {"dy": dy, "dx": dx}, {"slots": slots})
    assert_close(dx, wanted)


def test_slot_outside_is_named():
    x, y = np.zeros((2, 5, 3), np.float32), np.zeros((2, 3), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"slot 5 is not in \[0, 5\)"):
        _core.run_op("select_slots_fwd", {"x": x, "y": y}, {"slots": [5]})


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("dim", [3, 8, 16])
@pytest.mark.parametrize("slots", [*SLOTS, [1] * 7 + [0]])
def test_select_slots_in_16_bits(rng, assert_close, lay_out, real, dim, slots):
    x = lay_out(real.store(rng.standard_normal((9, 5, dim))))
    y = lay_out(real.empty((9, dim * len(slots))))
    _core.run_op("select_slots_fwd", {"x": x, "y": y}, {"slots": slots})
    np.testing.assert_array_equal(y, x[:, slots].reshape(9, -1))
    dx, wanted = lay_out(real.empty((9, 5, dim))), np.zeros((9, 5, dim))
    for i, slot in enumerate(slots):
        wanted[:, slot] += real.values(y)[:, dim * i : dim * (i + 1)]
    _core.run_op("select_slots_bwd", {"dy": y, "dx": dx}, {"slots": slots})
    assert_close(real.values(dx), wanted, tolerance=real.tolerance)
