# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def products_of_others(xs, dy):
    return [
        dy * np.prod([x for k, x in enumerate(xs) if k != i], axis=0, initial=1.0)
        for i in range(len(xs))
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(5, 1), (40, 33), (300, 70), (6, 4, 3)])
def test_elementwise_multiply_fwd(rows, assert_close, count, shape):
    xs = [rows(shape) for _ in range(count)]
    y = rows(np.full(shape, np.nan))
    _core.run_op("elementwise_multiply_fwd", {"xs": xs, "y": y})
    assert_close(y, np.prod(np.array(xs, np.float64), axis=0))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(40, 33), (300, 70), (6, 4, 3)])
def test_elementwise_multiply_bwd_with_zeros(rows, rng, assert_close, count, shape):
    # One factor in three is zero: many elements have two zero factors, many exactly one.
    xs = [rows(rng.standard_normal(shape) * (rng.random(shape) > 0.33)) for _ in range(count)]
    dy = rows(shape)
    dxs = [rows(np.full(shape, np.nan)) for _ in range(count)]
    _core.run_op("elementwise_multiply_bwd", {"xs": xs, "dy": dy, "dxs": dxs})
    wanted = products_of_others(np.array(xs, np.float64), dy)
    for dx, w in zip(dxs, wanted, strict=True):
        assert_close(dx, w)


def test_elementwise_multiply_bwd_of_some_inputs(rows, assert_close):
    xs = [rows((30, 20)) for _ in range(4)]
    dy = rows((30, 20))
    dxs = [rows(np.full((30, 20), np.nan)) for _ in range(2)]
    _core.run_op("elementwise_multiply_bwd", {"xs": xs, "dy": dy, "dxs": dxs}, {"wanted": [1, 3]})
    wanted = products_of_others(np.array(xs, np.float64), dy)
    assert_close(dxs[0], wanted[1])
    assert_close(dxs[1], wanted[3])
