# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES, REALS
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

SHAPES = [(5, 3, 4), (40, 26, 10), (300, 26, 16), (7, 1, 3), (9, 6, 21)]


def formula(x, dim):
    v = x.reshape(x.shape[0], -1, dim)
    return 0.5 * (v.sum(axis=1) ** 2 - (v**2).sum(axis=1))


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(("batch", "vectors", "dim"), SHAPES)
def test_fm_order2_fwd(rows, rng, batch, vectors, dim, flat):
    x = rows((batch, vectors * dim) if flat else (batch, vectors, dim))
    y = rows(np.full((batch, dim), np.nan))
    _core.run_op("fm_order2_fwd", {"x": x, "y": y})
    # What is positive and negative may cancel, so compare with the size of that too.
    wanted = formula(x.astype(np.float64), dim)
    scale = np.linalg.norm((x.astype(np.float64).reshape(batch, vectors, dim) ** 2).sum(axis=1))
    assert np.linalg.norm(y - wanted) <= 1e-5 * max(np.linalg.norm(wanted), scale)


@pytest.mark.parametrize(("batch", "vectors", "dim"), SHAPES)
def test_fm_order2_bwd(rows, batch, vectors, dim):
    x, dy = rows((batch, vectors, dim)), rows((batch, dim))
    dx = rows(np.full(x.shape, np.nan))
    _core.run_op("fm_order2_bwd", {"x": x, "dy": dy, "dx": dx})
    v = x.astype(np.float64)
    wanted = dy[:, None, :] * (v.sum(axis=1, keepdims=True) - v)
    scale = np.linalg.norm(dy[:, None, :] * v)
    assert np.linalg.norm(dx - wanted) <= 1e-5 * max(np.linalg.norm(wanted), scale)


def test_fm_order2_gradient_is_the_derivative(rows, assert_close, numeric_gradients):
    x, dy = rows((3, 12)), rows((3, 4))
    dx = np.zeros((3, 12), np.float32)
    _core.run_op("fm_order2_bwd", {"x": x, "dy": dy, "dx": dx})
    assert_close(dx, numeric_gradients(lambda v: formula(v, 4), [x], dy)[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize(("batch", "vectors", "dim"), SHAPES)
def test_fm_order2_in_16_bits(rng, real, layout, batch, vectors, dim):
    x = LaidOut(real, rng.standard_normal((batch, vectors, dim)), layout)
    dy = LaidOut(real, rng.standard_normal((batch, dim)), layout)
    y, dx = blank(real, dy.view.shape, layout), blank(real, x.view.shape, layout)
    _core.run_op("fm_order2_fwd", {"x": x.view, "y": y.view})
    _core.run_op("fm_order2_bwd", {"x": x.view, "dy": dy.view, "dx": dx.view})
    y.check_gaps()
    dx.check_gaps()
    v = x.values
    squares = np.linalg.norm((v**2).sum(axis=1))
    assert_near(y.values, formula(v, dim), real.tolerance, 1e-2 * squares)
    wanted = dy.values[:, None, :] * (v.sum(axis=1, keepdims=True) - v)
    assert_near(dx.values, wanted, real.tolerance, 1e-2 * np.linalg.norm(v))


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize("dim", [1, 8, 19])
def test_one_vector_has_no_interactions(rng, real, dim):
    """Exactly 0, and its gradient too: 0.5 (v^2 - v^2) leaves what the rounding of v^2 loses."""
    x, dy = (real.store(1e3 * rng.standard_normal((40, dim))) for _ in range(2))
    y, dx = real.empty(dy.shape), real.empty(x.shape)
    _core.run_op("fm_order2_fwd", {"x": x, "y": y})
    _core.run_op("fm_order2_bwd", {"x": x, "dy": dy, "dx": dx})
    np.testing.assert_array_equal(real.values(y), 0)
    np.testing.assert_array_equal(real.values(dx), 0)


def test_a_large_vector_does_not_hide_the_others(rng):
    """The squares of a large vector are in neither the result nor its error."""
    x = rng.uniform(0.5, 1.5, (50, 6, 8)).astype(np.float32)
    x[:, 2] *= 1e4
    y = np.full((50, 8), np.nan, np.float32)
    _core.run_op("fm_order2_fwd", {"x": x, "y": y})
    v = x.astype(np.float64)
    wanted = sum(v[:, i] * v[:, m] for i in range(6) for m in range(i))
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
