# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES, REALS

from hugectr import _core

CASES = [
    ((9, 10), [(0, 10), (0, 10)], 1),
    ((9, 10), [(0, 4), (4, 10)], 1),
    ((9, 10), [(2, 7), (1, 3), (6, 8), (2, 3)], 1),
    ((9, 10), [(8, 10), (0, 1)], 1),
    ((400, 100), [(0, 60), (40, 100), (0, 100)], 1),
    ((6, 5, 3), [(0, 5), (0, 5), (0, 5)], 1),
    ((6, 5, 3), [(1, 4), (3, 5)], 1),
    ((6, 5, 3, 2), [(1, 4), (3, 5)], 1),
]


@pytest.mark.parametrize(
    ("shape", "ranges", "axis"),
    [*CASES, ((6, 2, 7), [(0, 3), (2, 7)], 2), ((6, 2, 7, 3), [(0, 3), (2, 7)], 2)],
)
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


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize(
    ("shape", "ranges", "axis"),
    [
        ((40, 64), [(0, 64), (8, 40)], 1),
        ((40, 63), [(0, 5), (4, 60), (62, 63)], 1),
        ((40, 4, 16), [(1, 4), (0, 2)], 1),
        ((40, 4, 16), [(0, 8), (2, 11)], 2),
    ],
)
def test_slice_fwd_in_16_bits(rng, lay_out, real, shape, ranges, axis):
    x = lay_out(real.store(rng.standard_normal(shape)))
    wanted = [np.take(x, range(a, b), axis=axis) for a, b in ranges]
    ys = [lay_out(real.empty(w.shape)) for w in wanted]
    begins = [a for a, _ in ranges]
    _core.run_op("slice_fwd", {"x": x, "ys": ys}, {"begins": begins, "axis": axis})
    for y, w in zip(ys, wanted, strict=True):
        np.testing.assert_array_equal(y, w)


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("width", [16, 24, 13])
@pytest.mark.parametrize("overlapping", [2, 4, 9])
def test_slice_bwd_in_16_bits(rng, assert_close, lay_out, real, width, overlapping):
    begins = [8, *[0] * overlapping]
    sizes = [width, *[8 + width] * overlapping]
    dys = [lay_out(real.store(rng.standard_normal((50, n)))) for n in sizes]
    wanted = np.zeros((50, 16 + width))
    for begin, dy in zip(begins, dys, strict=True):
        wanted[:, begin : begin + dy.shape[1]] += real.values(dy)
    dx = lay_out(real.empty(wanted.shape))
    _core.run_op("slice_bwd", {"dys": dys, "dx": dx}, {"begins": begins})
    assert_close(real.values(dx), wanted, tolerance=real.tolerance)
    np.testing.assert_array_equal(real.values(dx)[:, 8 + width :], 0)


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("width", [429, 8, 9, 15, 13, 3])
@pytest.mark.parametrize("count", [1, 2, 6])
def test_slice_bwd_of_rows_that_begin_at_16_bytes_and_end_anywhere(
    rng, assert_close, real, width, count
):
    """What lies behind a row belongs to somebody else: neither used nor written."""
    whole = (width + 7) // 8 * 8

    def in_padded_rows(values):
        wide = real.empty((70, whole))
        wide[:, :width] = values
        return wide

    dys = [in_padded_rows(real.store(rng.standard_normal((70, width)))) for _ in range(count)]
    dx = in_padded_rows(real.empty((70, width)))
    tensors = {"dys": [dy[:, :width] for dy in dys], "dx": dx[:, :width]}
    _core.run_op("slice_bwd", tensors, {"begins": [0] * count})
    wanted = sum(real.values(dy[:, :width]) for dy in dys)
    assert_close(real.values(dx[:, :width]), wanted, tolerance=real.tolerance)
    if count == 1:
        np.testing.assert_array_equal(dx[:, :width], dys[0][:, :width])
    np.testing.assert_array_equal(dx[:, width:], real.empty((70, whole - width)))


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize(("begin", "width"), [(0, 13), (16, 13), (8, 429), (3, 21)])
def test_slice_fwd_of_rows_that_begin_at_16_bytes_and_end_anywhere(rng, real, begin, width):
    x = real.store(rng.standard_normal((70, 448)))
    y = real.empty((70, width + 11 - (width + 3) % 8))  # rows a multiple of 8 elements apart
    _core.run_op("slice_fwd", {"x": x, "ys": [y[:, :width]]}, {"begins": [begin]})
    np.testing.assert_array_equal(y[:, :width], x[:, begin : begin + width])
    np.testing.assert_array_equal(y[:, width:], real.empty(y[:, width:].shape))
