# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import batch_statistics, dice, sigmoid
from oracle.partials import partial_rows
from oracle.reals import REALS
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

ALPHA, EPS = 0.2, 1e-3
SHAPES = [(6, 3), (1000, 17), (600, 429), (300, 256)]
CASES = [(layout, *shape) for layout in LAYOUTS for shape in SHAPES]
# A GPU takes several rows a thread; in the second all its multiprocessors leave sums behind.
CASES += [("aligned", 9001, 40), ("packed", 9001, 64)]


def statistics(x, weight):
    """As batch_norm_statistics gives them, in float32."""
    mean, var = batch_statistics(x, weight)
    high = mean.astype(np.float32)
    return {"mean": high, "mean_low": (mean - high).astype(np.float32), "var": var.astype("f4")}


def gradient_sums(x, dy, of_batch, n, rows):
    dsums, partial = np.full(2 * n, np.nan), np.full((partial_rows(rows), 2 * n), np.nan)
    tensors = {"x": x, "dy": dy, **of_batch, "dsums": dsums, "partial": partial}
    _core.run_op("dice_bwd_sums", tensors, {"alpha": ALPHA, "eps": EPS})
    return dsums


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize(("layout", "batch", "n"), CASES)
def test_dice(rng, real, layout, batch, n):
    x = LaidOut(real, rng.standard_normal((batch, n)) + 1, layout)
    dy = LaidOut(real, rng.standard_normal((batch, n)), layout)
    y, dx = (blank(real, (batch, n), layout) for _ in range(2))
    weight = np.ones(batch, np.float32)
    weight[[2, -1]] = 0
    of_batch = statistics(x.values, weight)
    settings = {"alpha": ALPHA, "eps": EPS}
    _core.run_op("dice_fwd", {"x": x.view, **of_batch, "y": y.view}, settings)
    y.check_gaps()
    assert_near(y.values, dice(x.values, weight, ALPHA, EPS), real.tolerance)

    mean, var = batch_statistics(x.values, weight)
    scale = 1 / np.sqrt(var + EPS)
    hat = (x.values - mean) * scale
    p = sigmoid(hat)
    g = dy.values * (1 - ALPHA) * x.values * p * (1 - p)
    wanted = np.concatenate([g.sum(0), (g * hat).sum(0)])
    dsums = gradient_sums(x.view, dy.view, of_batch, n, batch)
    assert_near(dsums, wanted, 1e-5)
    sums = np.append(weight @ x.values, weight.sum())
    tensors = {"x": x.view, "weight": weight, **of_batch, "dy": dy.view}
    tensors |= {"sums": sums, "dsums": dsums, "dx": dx.view}
    _core.run_op("dice_bwd", tensors, settings)
    dx.check_gaps()
    shared = weight[:, None] * (wanted[:n] + hat * wanted[n:]) / weight.sum()
    slope = ALPHA + (1 - ALPHA) * p
    assert_near(dx.values, dy.values * slope + scale * (g - shared), real.tolerance)


def test_far_from_the_batch_nothing_overflows():
    x = np.array([[1e30], [-1e30], [0.0]], np.float32)
    y = np.full_like(x, np.nan)
    of_batch = {"mean": np.zeros(1, "f4"), "mean_low": np.zeros(1, "f4"), "var": np.ones(1, "f4")}
    _core.run_op("dice_fwd", {"x": x, **of_batch, "y": y}, {"alpha": ALPHA, "eps": EPS})
    np.testing.assert_allclose(y[:, 0], [1e30, -ALPHA * 1e30, 0.0], rtol=1e-6)
    dsums = gradient_sums(x, np.ones_like(x), of_batch, 1, 3)
    np.testing.assert_allclose(dsums, [0.0, 0.0], atol=1e-30)


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("n", [64, 429])
def test_sums_have_the_same_bits_every_time(rng, real, n):
    """Whichever block of a GPU comes last and adds what all have left."""
    x = LaidOut(real, rng.standard_normal((6001, n)) + 1, "aligned")
    dy = LaidOut(real, rng.standard_normal((6001, n)), "aligned")
    of_batch = statistics(x.values, np.ones(6001, np.float32))
    first = gradient_sums(x.view, dy.view, of_batch, n, 6001)
    for _ in range(5):
        found = gradient_sums(x.view, dy.view, of_batch, n, 6001)
        np.testing.assert_array_equal(found, first)
