# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import REALS

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


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("count", [1, 3, 64, 65, 140])
def test_add_fwd_of_many_and_in_16_bits(rng, assert_close, lay_out, real, count):
    xs = [lay_out(real.store(rng.standard_normal((21, 24)))) for _ in range(count)]
    wanted = np.sum([real.values(x) for x in xs], axis=0)
    y = lay_out(real.empty((21, 24)))
    _core.run_op("add_fwd", {"xs": xs, "y": y})
    assert_close(real.values(y), wanted, tolerance=real.tolerance)
    _core.run_op("add_fwd", {"xs": xs, "y": xs[-1]})  # in place
    np.testing.assert_array_equal(xs[-1], y)


def test_add_fwd_in_16_bits_rounds_once():
    # Every step of a sum that is rounded at every step would stay at 2048.
    xs = [np.full((2, 3), 2048, np.float16), *[np.ones((2, 3), np.float16)] * 100]
    y = np.empty((2, 3), np.float16)
    _core.run_op("add_fwd", {"xs": xs, "y": y})
    np.testing.assert_array_equal(y, np.float16(2148))


def test_add_fwd_wants_one_dtype():
    a, b = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float16)
    with pytest.raises(_core.InvalidArgument, match="xs holds float16, must hold float32"):
        _core.run_op("add_fwd", {"xs": [a, b], "y": a.copy()})
