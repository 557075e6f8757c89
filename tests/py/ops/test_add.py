# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [(5, 1), (40, 33), (300, 70), (6, 4, 3)])
def test_add_fwd(rows, assert_close, count, shape):
    xs = [rows(shape) for _ in range(count)]
    y = rows(np.full(shape, np.nan))
    _core.run_op("add_fwd", {"xs": xs, "y": y})
    assert_close(y, np.sum(np.array(xs, np.float64), axis=0))


def test_add_fwd_in_place(rows, assert_close):
    a, b = rows((50, 70)), rows((50, 70))
    wanted = a.astype(np.float64) + 2.0 * b
    _core.run_op("add_fwd", {"xs": [a, b, b], "y": b})
    assert_close(b, wanted)


def test_add_fwd_wants_equal_shapes():
    a, b = np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"xs has shape \(4, 2\), must have \(4, 3\)"):
        _core.run_op("add_fwd", {"xs": [a, b], "y": a.copy()})
