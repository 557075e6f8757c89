# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import sigmoid
from oracle.reals import HALVES

from hugectr import _core

SHAPES = [(5, 7), (300, 130), (9, 4, 3), (1, 1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_sigmoid_fwd(rows, rng, assert_close, shape):
    x, y = rows(rng.standard_normal(shape) * 5), rows(np.full(shape, np.nan))
    _core.run_op("sigmoid_fwd", {"x": x, "y": y})
    assert_close(y, sigmoid(x.astype(np.float64)))


@pytest.mark.parametrize("shape", SHAPES)
def test_sigmoid_bwd(rows, assert_close, shape):
    y, dy, dx = rows(shape), rows(shape), rows(np.full(shape, np.nan))
    y[...] = sigmoid(y.astype(np.float64))
    _core.run_op("sigmoid_bwd", {"y": y, "dy": dy, "dx": dx})
    y64 = y.astype(np.float64)
    assert_close(dx, dy * y64 * (1 - y64))


def test_sigmoid_gradient_is_the_derivative(rng, assert_close, numeric_gradients):
    x, dy = (rng.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
    y, dx = np.empty_like(x), np.empty_like(x)
    _core.run_op("sigmoid_fwd", {"x": x, "y": y})
    _core.run_op("sigmoid_bwd", {"y": y, "dy": dy, "dx": dx})
    assert_close(dx, numeric_gradients(sigmoid, [x], dy)[0])


def test_sigmoid_does_not_overflow():
    x = np.array([[-1e4, -100.0, 100.0, 1e4]], np.float32)
    _core.run_op("sigmoid_fwd", {"x": x, "y": x})
    np.testing.assert_allclose(x, [[0.0, 0.0, 1.0, 1.0]], atol=1e-30)


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("shape", [(301, 77), (64, 128), (3, 5, 8)])
def test_sigmoid_in_16_bits(rng, assert_close, lay_out, real, shape):
    x, dy = (lay_out(real.store(rng.standard_normal(shape) * 3)) for _ in range(2))
    y, dx = lay_out(real.empty(shape)), lay_out(real.empty(shape))
    _core.run_op("sigmoid_fwd", {"x": x, "y": y})
    assert_close(real.values(y), sigmoid(real.values(x)), tolerance=real.tolerance)
    _core.run_op("sigmoid_bwd", {"y": y, "dy": dy, "dx": dx})
    p = real.values(y)
    assert_close(real.values(dx), real.values(dy) * p * (1 - p), tolerance=real.tolerance)
