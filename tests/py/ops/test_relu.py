# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES, REALS

from hugectr import _core

SHAPES = [(5, 7), (300, 130), (9, 4, 3), (1, 1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_relu_fwd(rows, shape):
    x, y = rows(shape), rows(np.full(shape, np.nan))
    _core.run_op("relu_fwd", {"x": x, "y": y})
    np.testing.assert_array_equal(y, np.maximum(x, 0))


@pytest.mark.parametrize("shape", SHAPES)
def test_relu_bwd(rows, shape):
    y, dy = rows(shape), rows(shape)
    y[...] = np.maximum(y, 0)
    dx = rows(np.full(shape, np.nan))
    _core.run_op("relu_bwd", {"y": y, "dy": dy, "dx": dx})
    np.testing.assert_array_equal(dx, np.where(y > 0, dy, 0))


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_relu_in_16_bits(rng, real):
    x, dy = (real.store(rng.standard_normal((301, 77))) for _ in range(2))
    y, dx = real.empty(x.shape), real.empty(x.shape)
    _core.run_op("relu_fwd", {"x": x, "y": y})
    np.testing.assert_array_equal(real.values(y), np.maximum(real.values(x), 0))
    _core.run_op("relu_bwd", {"y": y, "dy": dy, "dx": dx})
    np.testing.assert_array_equal(real.values(dx), np.where(real.values(y) > 0, real.values(dy), 0))


def test_relu_in_place_and_nan():
    x = np.array([[-1.0, 0.0, 2.0, np.nan]], np.float32)
    _core.run_op("relu_fwd", {"x": x, "y": x})
    np.testing.assert_array_equal(x, np.array([[0.0, 0.0, 2.0, np.nan]], np.float32))


def test_relu_rejects_unequal_shapes():
    with pytest.raises(ValueError, match=r"relu_fwd: y has shape \(2, 4\), must have \(2, 3\)"):
        _core.run_op(
            "relu_fwd", {"x": np.zeros((2, 3), np.float32), "y": np.zeros((2, 4), np.float32)}
        )


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("width", [3, 64])
def test_nan_passes_backward_as_it_passes_forward(real, width):
    y = np.zeros((4, width))
    y[1], y[2, 0], y[3] = np.nan, np.nan, 2.0
    dy, dx = np.full(y.shape, 3.0), real.empty(y.shape)
    _core.run_op("relu_bwd", {"y": real.store(y), "dy": real.store(dy), "dx": dx})
    np.testing.assert_array_equal(real.values(dx), np.where(y <= 0, 0.0, 3.0))
