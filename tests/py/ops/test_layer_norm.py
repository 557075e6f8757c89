# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import layer_norm
from oracle.reals import REALS
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

EPS = 1e-3
#: Every way in which a GPU cuts rows: few lanes, a warp, several packs a lane, not held at all;
#: whole packs and shorter ones at the end.
SHAPES = [(7, 3), (70, 16), (33, 60), (300, 64), (70, 128), (40, 250), (40, 256), (50, 512)]
SHAPES += [(600, 900), (30, 1024), (9, 2500), (9, 2504)]
#: More rows than a GPU works on at once: its groups of lanes take several, with loads ahead.
MANY = [(40001, 8), (13001, 64), (5001, 136)]
CASES = [(layout, *shape) for layout in LAYOUTS for shape in SHAPES]
CASES += [("aligned", *shape) for shape in MANY]


def pieces(rows):
    return min(max(-(-rows // 16), 1), 512)


def draw(rng, n):
    return (rng.standard_normal(n).astype(np.float32) for _ in range(2))


def backward(x, gamma, dy, dx):
    n, rows = x.shape[-1], int(np.prod(x.shape[:-1]))
    dgamma, dbeta = np.ones((2, n), np.float32)
    partial = np.full((pieces(rows), 2 * n), np.nan, np.float32)
    tensors = {"x": x, "gamma": gamma, "dy": dy, "dgamma": dgamma, "dbeta": dbeta}
    tensors |= {"partial": partial} | ({} if dx is None else {"dx": dx})
    _core.run_op("layer_norm_bwd", tensors, {"eps": EPS})
    return dgamma - 1, dbeta - 1


def gradients(x, gamma, dy):
    """In float64: dx, dgamma, dbeta."""
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)
    hat, g = centred * scale, gamma * dy
    dx = g - g.mean(-1, keepdims=True) - hat * (g * hat).mean(-1, keepdims=True)
    axes = tuple(range(x.ndim - 1))
    return dx * scale, (dy * hat).sum(axes), dy.sum(axes)


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize(("layout", "rows", "n"), CASES)
def test_layer_norm(rng, real, layout, rows, n):
    x = LaidOut(real, rng.standard_normal((rows, n)) + 3, layout)
    dy = LaidOut(real, rng.standard_normal((rows, n)), layout)
    y, dx = (blank(real, (rows, n), layout) for _ in range(2))
    gamma, beta = draw(rng, n)
    tensors = {"x": x.view, "gamma": gamma, "beta": beta, "y": y.view}
    _core.run_op("layer_norm_fwd", tensors, {"eps": EPS})
    y.check_gaps()
    assert_near(y.values, layer_norm(x.values, gamma, beta, EPS), real.tolerance)
    dgamma, dbeta = backward(x.view, gamma, dy.view, dx.view)
    dx.check_gaps()
    wanted, wanted_gamma, wanted_beta = gradients(x.values, gamma, dy.values)
    assert_near(dx.values, wanted, real.tolerance)
    assert_near(dgamma, wanted_gamma, 1e-5, np.sqrt(rows * n) * 0.1)
    assert_near(dbeta, wanted_beta, 1e-5, np.sqrt(rows * n) * 0.1)


def test_gradient_is_the_derivative(rng, assert_close, numeric_gradients):
    x, dy = rng.standard_normal((2, 4, 3, 5)).astype(np.float32)
    gamma, beta = draw(rng, 5)
    dx = np.full(x.shape, np.nan, np.float32)
    found = [dx, *backward(x, gamma, dy, dx)]
    arguments = [x, gamma, beta]
    wanted = numeric_gradients(lambda *a: layer_norm(*a, EPS), arguments, dy)
    for mine, theirs, what in zip(found, wanted, ["x", "gamma", "beta"], strict=True):
        assert_close(mine, theirs, what, tolerance=1e-4)


def test_gradient_in_place_and_without_dx(rng):
    x, dy = rng.standard_normal((2, 30, 64)).astype(np.float32)
    gamma, _ = draw(rng, 64)
    wanted, *sums = gradients(*(a.astype(np.float64) for a in (x, gamma, dy)))
    for mine, theirs in zip(backward(x, gamma, dy, None), sums, strict=True):
        assert_near(mine, theirs, 1e-5)
    backward(x, gamma, dy, dy)
    assert_near(dy, wanted, 1e-5)


@pytest.mark.parametrize("n", [64, 301])
def test_a_large_mean_costs_no_digits(rng, n):
    x = (rng.standard_normal((20, n)) + 1000).astype(np.float32)
    y = np.full_like(x, np.nan)
    ones, zeros = np.ones(n, np.float32), np.zeros(n, np.float32)
    _core.run_op("layer_norm_fwd", {"x": x, "gamma": ones, "beta": zeros, "y": y}, {"eps": EPS})
    # float32 holds the mean of a row to 3e-5 of its deviation.
    assert_near(y, layer_norm(x.astype(np.float64), ones, zeros, EPS), 1e-4)


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("n", [64, 256, 1024])
def test_gradients_of_columns_have_the_same_bits_every_time(rng, real, n):
    """Whichever block of a GPU comes last and adds what all have left."""
    x, dy = (LaidOut(real, rng.standard_normal((6001, n)), "packed") for _ in range(2))
    gamma, _ = draw(rng, n)
    first = backward(x.view, gamma, dy.view, None)
    for _ in range(4):
        for found, wanted in zip(backward(x.view, gamma, dy.view, None), first, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_strided_tensor_of_three_dimensions_is_refused():
    x = np.zeros((4, 6, 5), np.float32)[:, :3]
    ones = np.ones(5, np.float32)
    y = np.zeros((4, 3, 5), np.float32)
    with pytest.raises(_core.InvalidArgument, match=r"x of shape \(4, 3, 5\) must be contiguous"):
        _core.run_op("layer_norm_fwd", {"x": x, "gamma": ones, "beta": ones, "y": y})
