# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import REALS

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


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("count", [2, 4, 5, 9, 70])
def test_elementwise_multiply_of_many_and_in_16_bits(rng, assert_close, lay_out, real, count):
    shape = (19, 32)
    sign = np.where(rng.random((count, *shape)) < 0.5, -1, 1)
    factors = sign * np.exp(rng.standard_normal((count, *shape)) / np.sqrt(count))
    factors *= rng.random(factors.shape) > 0.5 / count  # some zeros
    xs = [lay_out(real.store(x)) for x in factors]
    dy, y = lay_out(real.store(rng.standard_normal(shape))), lay_out(real.empty(shape))
    values = [real.values(x) for x in xs]
    _core.run_op("elementwise_multiply_fwd", {"xs": xs, "y": y})
    assert_close(real.values(y), np.prod(values, axis=0), tolerance=real.tolerance)
    dxs = [lay_out(real.empty(shape)) for _ in range(count)]
    _core.run_op("elementwise_multiply_bwd", {"xs": xs, "dy": dy, "dxs": dxs})
    for dx, wanted in zip(dxs, products_of_others(values, real.values(dy)), strict=True):
        assert_close(real.values(dx), wanted, tolerance=real.tolerance)


def test_elementwise_multiply_in_16_bits_keeps_large_products():
    # The product of the last two factors is no float16, their gradients are.
    xs = [np.full((1, 8), v, np.float16) for v in (2.0**-10, 1.0, 2.0**-3, 2.0**10, 2.0**10)]
    dy = np.full((1, 8), 2.0**-5, np.float16)
    dxs = [np.full((1, 8), np.nan, np.float16) for _ in xs]
    _core.run_op("elementwise_multiply_bwd", {"xs": xs, "dy": dy, "dxs": dxs})
    for dx, exponent in zip(dxs, [12, 2, 5, -8, -8], strict=True):
        np.testing.assert_array_equal(dx, np.float16(2.0**exponent))
