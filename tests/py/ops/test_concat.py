# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES

from hugectr import _core


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(7, 3)], 1),
        ([(7, 3), (7, 1), (7, 12)], 1),
        ([(300, 40), (300, 400)], 1),
        ([(5, 2, 4), (5, 3, 4)], 1),
        ([(5, 2, 4), (5, 2, 1), (5, 2, 9)], 2),
    ],
)
def test_concat_fwd(rows, shapes, axis):
    xs = [rows(shape) for shape in shapes]
    wanted = np.concatenate(xs, axis=axis)
    y = rows(np.zeros(wanted.shape))
    _core.run_op("concat_fwd", {"xs": xs, "y": y}, {"axis": axis})
    np.testing.assert_array_equal(y, wanted)


def test_concat_fwd_leaves_the_other_columns_alone(rng):
    wide = np.full((4, 10), np.float32(7))
    x = rng.standard_normal((4, 3)).astype(np.float32)
    _core.run_op("concat_fwd", {"xs": [x, x], "y": wide[:, 2:8]}, {"axis": 1})
    np.testing.assert_array_equal(wide[:, :2], 7)
    np.testing.assert_array_equal(wide[:, 8:], 7)
    np.testing.assert_array_equal(wide[:, 2:8], np.concatenate([x, x], axis=1))


@pytest.mark.parametrize(
    ("shapes", "y_shape", "axis", "message"),
    [
        ([(4, 3), (4, 2)], (4, 6), 1, "sum to 5, y has 6"),
        ([(4, 3), (5, 2)], (4, 5), 1, r"\(5, 2\) and \(4, 5\)"),
        ([(4, 3)], (4, 3), 2, "axis is 2, must be 1"),
        ([(4, 3)], (4, 3), 0, "axis is 0"),
    ],
)
def test_concat_fwd_says_what_does_not_fit(shapes, y_shape, axis, message):
    xs = [np.zeros(shape, np.float32) for shape in shapes]
    y = np.zeros(y_shape, np.float32)
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.run_op("concat_fwd", {"xs": xs, "y": y}, {"axis": axis})


@pytest.mark.parametrize("widths", [(3, 1, 12), (8, 16, 40), (26, 2, 4), (7,) * 20])
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_concat_fwd_in_16_bits(rng, lay_out, real, widths):
    xs = [lay_out(real.store(rng.standard_normal((33, n)))) for n in widths]
    y = lay_out(real.empty((33, sum(widths))))
    _core.run_op("concat_fwd", {"xs": xs, "y": y}, {"axis": 1})
    np.testing.assert_array_equal(y, np.concatenate(xs, axis=1))


def test_concat_fwd_wants_one_dtype():
    x, y = np.zeros((4, 3), np.float16), np.zeros((4, 3), np.float32)
    with pytest.raises(_core.InvalidArgument, match="xs holds float16, must hold float32"):
        _core.run_op("concat_fwd", {"xs": [x], "y": y}, {"axis": 1})
