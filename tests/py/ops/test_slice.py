# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

CASES = [
    ((9, 10), [(0, 10), (0, 10)], 1),
    ((9, 10), [(0, 4), (4, 10)], 1),
    ((9, 10), [(2, 7), (1, 3), (6, 8), (2, 3)], 1),
    ((9, 10), [(8, 10), (0, 1)], 1),
    ((400, 100), [(0, 60), (40, 100), (0, 100)], 1),
    ((6, 5, 3), [(0, 5), (0, 5), (0, 5)], 1),
    ((6, 5, 3), [(1, 4), (3, 5)], 1),
]


@pytest.mark.parametrize(("shape", "ranges", "axis"), [*CASES, ((6, 2, 7), [(0, 3), (2, 7)], 2)])
def test_slice_fwd(rows, shape, ranges, axis):
    x = rows(shape)
    wanted = [np.take(x, range(a, b), axis=axis) for a, b in ranges]
    ys = [rows(np.zeros(w.shape)) for w in wanted]
    begins = [a for a, _ in ranges]
    _core.run_op("slice_fwd", {"x": x, "ys": ys}, {"begins": begins, "axis": axis})
    for y, w in zip(ys, wanted, strict=True):
        np.testing.assert_array_equal(y, w)


@pytest.mark.parametrize(("shape", "ranges", "axis"), CASES)
def test_slice_bwd_adds_what_overlaps(rows, assert_close, shape, ranges, axis):
    dys = [rows((shape[0], b - a, *shape[2:])) for a, b in ranges]
    wanted = np.zeros(shape)
    for (a, b), dy in zip(ranges, dys, strict=True):
        wanted[:, a:b] += dy
    dx = rows(np.full(shape, np.nan))
    _core.run_op("slice_bwd", {"dys": dys, "dx": dx}, {"begins": [a for a, _ in ranges]})
    assert_close(dx, wanted)
    covered = np.zeros(shape[1], bool)
    for a, b in ranges:
        covered[a:b] = True
    np.testing.assert_array_equal(dx[:, ~covered], 0)


def test_range_outside_is_named():
    x = np.zeros((4, 3), np.float32)
    y = np.zeros((4, 2), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"range 0 is \[2, 4\), must lie in \[0, 3\)"):
        _core.run_op("slice_fwd", {"x": x, "ys": [y]}, {"begins": [2]})
    with pytest.raises(_core.InvalidArgument, match="1 ys but 2 begins"):
        _core.run_op("slice_fwd", {"x": x, "ys": [y]}, {"begins": [0, 1]})
