# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES

from hugectr import _core


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((6, 4, 5), (6, 20)),
        ((6, 4, 5), (24, 5)),
        ((24, 5), (6, 20)),
        ((12, 10), (8, 3, 5)),
        ((700, 26, 16), (700, 416)),
        ((6, 7), (6, 7)),
        ((1, 35), (7, 5)),
    ],
)
def test_reshape_fwd(rows, shape, target):
    x = rows(shape)
    y = rows(np.zeros(target))
    _core.run_op("reshape_fwd", {"x": x, "y": y})
    np.testing.assert_array_equal(y, np.array(x).reshape(target))


def test_reshape_fwd_wants_equal_sizes():
    x, y = np.zeros((4, 3), np.float32), np.zeros((4, 4), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"\(4, 3\) has 12 elements, y \(4, 4\) has 16"):
        _core.run_op("reshape_fwd", {"x": x, "y": y})


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize(
    ("shape", "target"),
    [((70, 26, 16), (70, 416)), ((6, 4, 5), (24, 5)), ((24, 8), (6, 32)), ((12, 10), (8, 3, 5))],
)
def test_reshape_fwd_in_16_bits(rng, lay_out, real, shape, target):
    x, y = lay_out(real.store(rng.standard_normal(shape))), lay_out(real.empty(target))
    _core.run_op("reshape_fwd", {"x": x, "y": y})
    np.testing.assert_array_equal(y, np.array(x).reshape(target))


def test_reshape_fwd_wants_one_dtype():
    x, y = np.zeros((4, 3), np.float16), np.zeros((3, 4), np.float32)
    with pytest.raises(_core.InvalidArgument, match="y holds float32, must hold float16"):
        _core.run_op("reshape_fwd", {"x": x, "y": y})
