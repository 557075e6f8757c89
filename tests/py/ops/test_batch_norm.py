# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import batch_norm, batch_statistics
from oracle.partials import partial_rows
from oracle.reals import HALVES, REALS
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

EPS = 1e-3
SHAPES = [(6, 3), (1000, 17)]
CASES_OF_16_BITS = [
    (layout, *shape) for layout in LAYOUTS for shape in [*SHAPES, (600, 429), (300, 256)]
]
CASES_OF_16_BITS += [("aligned", 9001, 40)]  # a GPU takes several rows a thread


def nans(*shape):
    return np.full(shape, np.nan)


def sums_of(x, weight):
    sums = nans(x.shape[1] + 1)
    partial = nans(partial_rows(len(x)), x.shape[1] + 1)
    _core.run_op("batch_norm_sums", {"x": x, "weight": weight, "sums": sums, "partial": partial})
    return sums


def squares_of(x, weight, sums):
    squares, partial = nans(x.shape[1]), nans(partial_rows(len(x)), x.shape[1])
    _core.run_op(
        "batch_norm_squares",
        {"x": x, "weight": weight, "sums": sums, "squares": squares, "partial": partial},
    )
    return squares


def statistics_of(sums, squares, running_mean, running_var, factor=0.25, running_low=None):
    """Mean and its low part, of the batch and running, as (2, n); and the variance."""
    n = len(squares)
    mean, low, var = (nans(n).astype(np.float32) for _ in range(3))
    running_low = np.zeros(n, np.float32) if running_low is None else running_low
    _core.run_op(
        "batch_norm_statistics",
        {
            "sums": sums,
            "squares": squares,
            "mean": mean,
            "mean_low": low,
            "var": var,
            "running_mean": running_mean,
            "running_mean_low": running_low,
            "running_var": running_var,
        },
        {"factor": factor},
    )
    return np.stack([mean, low]), var


def whole(mean):
    """A mean of its two parts."""
    return np.asarray(mean, np.float64).sum(0)


def draw(rng, batch, n):
    """Weights with padding in the middle and at the end; scale, shift."""
    weight = np.ones(batch, np.float32)
    weight[[2, -1]] = 0
    gamma, beta = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    return weight, gamma, beta


@pytest.mark.parametrize(("batch", "n"), SHAPES)
def test_batch_norm_statistics(rows, rng, assert_close, batch, n):
    x = rows(rng.standard_normal((batch, n)) + 100)  # a large mean costs no digits of the variance
    weight, old_mean, old_var = draw(rng, batch, n)
    x[2] = np.nan  # padding is not looked at
    sums = sums_of(x, weight)
    squares = squares_of(x, weight, sums)
    new_mean, new_var = old_mean.copy(), old_var.copy()
    new_low = np.zeros(n, np.float32)
    mean, var = statistics_of(sums, squares, new_mean, new_var, running_low=new_low)
    real = np.delete(x, 2, axis=0).astype(np.float64)
    wanted = batch_statistics(real, np.delete(weight, 2))
    assert sums[n] == batch - 2
    for found, value, running, old in zip(
        (whole(mean), var), wanted, (new_mean, new_var), (old_mean, old_var), strict=True
    ):
        assert_close(found, value)
        assert_close(running, 0.75 * old.astype(np.float64) + 0.25 * value)
    # A mean keeps 48 bits, the running one too.
    np.testing.assert_allclose(whole(mean), wanted[0], rtol=1e-14)
    running_mean = 0.75 * old_mean.astype(np.float64) + 0.25 * wanted[0]
    np.testing.assert_allclose(whole((new_mean, new_low)), running_mean, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("batch", "n"), SHAPES)
def test_batch_norm_over_two_devices(rng, assert_close, batch, n):
    """Sums of parts, added, give the statistics of the whole."""
    x = rng.standard_normal((batch, n)).astype(np.float32)
    weight = draw(rng, batch, n)[0]
    half = batch // 3
    parts = [(x[:half], weight[:half]), (x[half:], weight[half:])]
    sums = sum(sums_of(*part) for part in parts)
    squares = sum(squares_of(*part, sums) for part in parts)
    mean, var = statistics_of(sums, squares, *np.zeros((2, n), np.float32))
    wanted = batch_statistics(x.astype(np.float64), weight)
    assert_close(whole(mean), wanted[0])
    assert_close(var, wanted[1])


def forward(x, mean, var, gamma, beta, y):
    _core.run_op(
        "batch_norm_fwd",
        {
            "x": x,
            "mean": mean[0],
            "mean_low": mean[1],
            "var": var,
            "gamma": gamma,
            "beta": beta,
            "y": y,
        },
        {"eps": EPS},
    )


def backward(x, weight, gamma, dy, dx, dgamma, dbeta):
    n = x.shape[1]
    sums = sums_of(x, weight)
    mean, var = statistics_of(sums, squares_of(x, weight, sums), *np.zeros((2, n), np.float32))
    dsums = nans(2 * n)
    common = {"x": x, "mean": mean[0], "mean_low": mean[1], "var": var, "dy": dy, "dsums": dsums}
    partial = nans(partial_rows(len(x)), 2 * n)
    _core.run_op(
        "batch_norm_bwd_sums",
        {**common, "dgamma": dgamma, "dbeta": dbeta, "partial": partial},
        {"eps": EPS},
    )
    _core.run_op(
        "batch_norm_bwd",
        {**common, "weight": weight, "gamma": gamma, "sums": sums, "dx": dx},
        {"eps": EPS},
    )


@pytest.mark.parametrize(("batch", "n"), SHAPES)
def test_batch_norm_fwd(rows, rng, assert_close, batch, n):
    x, y = rows((batch, n)), rows(nans(batch, n))
    _, gamma, beta = draw(rng, batch, n)
    mean, var = rng.standard_normal((2, n)).astype(np.float32), rng.random(n).astype(np.float32)
    forward(x, mean, var, gamma, beta, y)
    x64, var64 = x.astype(np.float64), var.astype(np.float64)
    assert_close(y, gamma * (x64 - whole(mean)) / np.sqrt(var64 + EPS) + beta)


def test_batch_norm_bwd_is_the_derivative(rows, rng, assert_close, numeric_gradients):
    batch, n = 7, 3
    x, dy, dx = rows((batch, n)), rows((batch, n)), rows(nans(batch, n))
    weight, gamma, beta = draw(rng, batch, n)
    dy[weight == 0] = 0  # the loss gives padding no gradient
    start = rng.standard_normal((2, n)).astype(np.float32)
    found = start.copy()
    backward(x, weight, gamma, dy, dx, found[0], found[1])
    wanted = numeric_gradients(
        lambda x, gamma, beta: batch_norm(x, weight, gamma, beta, EPS), [x, gamma, beta], dy
    )
    assert_close(dx, wanted[0])
    assert_close(found[0] - start[0].astype(np.float64), wanted[1])
    assert_close(found[1] - start[1].astype(np.float64), wanted[2])
    assert not dx[weight == 0].any()


def test_batch_norm_of_a_large_batch(rows, rng, assert_close):
    batch, n = 1000, 17
    x, dy, dx = rows((batch, n)), rows((batch, n)), rows(nans(batch, n))
    weight, gamma, _ = draw(rng, batch, n)
    dy[weight == 0] = 0
    backward(x, weight, gamma, dy, dx, *np.zeros((2, n), np.float32))
    x64, dy64, count = x.astype(np.float64), dy.astype(np.float64), weight.sum()
    mean, var = batch_statistics(x64, weight)
    hat = (x64 - mean) / np.sqrt(var + EPS)
    shared = weight[:, None] * (dy64.sum(0) + hat * (dy64 * hat).sum(0)) / count
    assert_close(dx, gamma / np.sqrt(var + EPS) * (dy64 - shared))


def test_batch_of_padding_keeps_what_was_learned():
    x, weight = np.ones((4, 2), np.float32), np.zeros(4, np.float32)
    sums = sums_of(x, weight)
    running = np.array([[3.0, 4.0], [5.0, 6.0]], np.float32)
    low = np.array([1e-8, 2e-8], np.float32)
    squares = squares_of(x, weight, sums)
    mean, var = statistics_of(sums, squares, running[0], running[1], running_low=low)
    np.testing.assert_array_equal([mean[0], var], [[3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(mean[1], low)
    np.testing.assert_array_equal(running, [[3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(low, np.array([1e-8, 2e-8], np.float32))


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_running_statistics_keep_off_what_is_not_finite(rng, bad):
    x, weight = rng.standard_normal((9, 2)).astype(np.float32), np.ones(9, np.float32)
    x[4, 1] = bad
    sums = sums_of(x, weight)
    running = np.array([[3.0, 4.0], [5.0, 6.0]], np.float32)
    low = np.array([1e-8, 2e-8], np.float32)
    squares = squares_of(x, weight, sums)
    (mean, _), _ = statistics_of(sums, squares, running[0], running[1], running_low=low)
    assert not np.isfinite(mean[1])
    assert low[1] == np.float32(2e-8)
    np.testing.assert_array_equal(running[:, 1], [4.0, 6.0])
    assert (running[:, 0] != [3.0, 5.0]).all()


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize(("layout", "batch", "n"), CASES_OF_16_BITS)
def test_batch_norm_in_16_bits(rng, real, layout, batch, n):
    x = LaidOut(real, rng.standard_normal((batch, n)) + 3, layout)
    dy = LaidOut(real, rng.standard_normal((batch, n)), layout)
    y, dx = (blank(real, (batch, n), layout) for _ in range(2))
    weight, gamma, beta = draw(rng, batch, n)
    sums = sums_of(x.view, weight)
    mean, var = statistics_of(sums, squares_of(x.view, weight, sums), *np.zeros((2, n), np.float32))
    wanted_mean, wanted_var = batch_statistics(x.values, weight)
    assert_near(whole(mean), wanted_mean, 1e-5)  # statistics stay float32
    assert_near(var, wanted_var, 1e-5)
    forward(x.view, mean, var, gamma, beta, y.view)
    y.check_gaps()
    hat = (x.values - wanted_mean) / np.sqrt(wanted_var + EPS)
    assert_near(y.values, gamma * hat + beta, real.tolerance)
    dgamma, dbeta = np.zeros((2, n), np.float32)
    backward(x.view, weight, gamma, dy.view, dx.view, dgamma, dbeta)
    dx.check_gaps()
    g = dy.values
    assert_near(dbeta, g.sum(0), 1e-5)
    assert_near(dgamma, (g * hat).sum(0), 1e-5)
    shared = weight[:, None] * (g.sum(0) + hat * (g * hat).sum(0)) / weight.sum()
    assert_near(dx.values, gamma / np.sqrt(wanted_var + EPS) * (g - shared), real.tolerance)


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_batch_norm_statistics_of_many_samples(rng, real):
    """Sums over 65,537 samples lose no digits."""
    x = LaidOut(real, rng.standard_normal((65537, 9)) + 10, "aligned")
    weight = np.ones(65537, np.float32)
    sums = sums_of(x.view, weight)
    squares = squares_of(x.view, weight, sums)
    assert_near(sums[:9], x.values.sum(0), 1e-12)
    assert_near(squares, ((x.values - x.values.mean(0)) ** 2).sum(0), 1e-12)


@pytest.mark.parametrize("center", [1e6, -3e7, 1e-3])
def test_a_mean_far_from_zero_costs_no_digits(rows, rng, assert_close, center):
    """The result is as near to float64 as with a mean of 0: x itself is what float32 holds."""
    batch, n = 1000, 17
    x, y, dx = rows(rng.standard_normal((batch, n)) + center), rows((batch, n)), rows((batch, n))
    dy = rows((batch, n))
    weight, gamma, beta = np.ones(batch, np.float32), *rng.random((2, n)).astype(np.float32)
    running, low, var = (np.zeros(n, np.float32) for _ in range(3))
    sums = sums_of(x, weight)
    statistics = statistics_of(sums, squares_of(x, weight, sums), running, var, 1.0, low)
    x64 = x.astype(np.float64)
    wanted = batch_norm(x64, weight, gamma, beta, EPS)
    forward(x, *statistics, gamma, beta, y)
    assert_close(y, wanted)
    forward(x, (running, low), var, gamma, beta, y)  # as evaluation does
    assert_close(y, wanted)
    dgamma, dbeta = np.zeros((2, n), np.float32)
    backward(x, weight, gamma, dy, dx, dgamma, dbeta)
    mean, var64 = batch_statistics(x64, weight)
    hat, g = (x64 - mean) / np.sqrt(var64 + EPS), dy.astype(np.float64)
    assert_close(dgamma, (g * hat).sum(0))
    assert_close(dbeta, g.sum(0))
    shared = (g.sum(0) + hat * (g * hat).sum(0)) / batch
    assert_close(dx, gamma / np.sqrt(var64 + EPS) * (g - shared))
