# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

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
