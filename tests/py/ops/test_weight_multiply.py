# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.partials import partial_rows
from oracle.reals import HALVES
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

SHAPES = [(7, 3, 4), (600, 13, 11), (900, 13, 1), (300, 13, 16), (1, 1, 1)]


def formula(x, w):
    return (x[:, :, None] * w).reshape(x.shape[0], -1)


@pytest.mark.parametrize(("batch", "slots", "dim"), SHAPES)
def test_weight_multiply_fwd(rows, rng, assert_close, batch, slots, dim):
    x, w = rows((batch, slots)), rng.standard_normal((slots, dim)).astype(np.float32)
    y = rows(np.full((batch, slots * dim), np.nan))
    _core.run_op("weight_multiply_fwd", {"x": x, "w": w, "y": y})
    assert_close(y, formula(x.astype(np.float64), w.astype(np.float64)))


@pytest.mark.parametrize("with_dx", [True, False])
@pytest.mark.parametrize(("batch", "slots", "dim"), SHAPES)
def test_weight_multiply_bwd(rows, rng, assert_close, batch, slots, dim, with_dx):
    x, w = rows((batch, slots)), rng.standard_normal((slots, dim)).astype(np.float32)
    dy = rows((batch, slots * dim))
    dx = rows(np.full((batch, slots), np.nan)) if with_dx else None
    before = rng.standard_normal((slots, dim)).astype(np.float32)
    dw = before.copy()
    partial = np.full((partial_rows(batch), slots * dim), np.nan, np.float32)
    _core.run_op(
        "weight_multiply_bwd", {"x": x, "w": w, "dy": dy, "dx": dx, "dw": dw, "partial": partial}
    )
    cube = dy.astype(np.float64).reshape(batch, slots, dim)
    # What is added may cancel what was there.
    size = float(np.linalg.norm(before))
    assert_close(dw, before + np.einsum("bsd,bs->sd", cube, x.astype(np.float64)), scale=size)
    if with_dx:
        assert_close(dx, np.einsum("bsd,sd->bs", cube, w.astype(np.float64)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize(("batch", "slots", "dim"), SHAPES)
def test_weight_multiply_in_16_bits(rng, real, layout, batch, slots, dim):
    x = LaidOut(real, rng.standard_normal((batch, slots)), layout)
    dy = LaidOut(real, rng.standard_normal((batch, slots * dim)), layout)
    w = rng.standard_normal((slots, dim)).astype(np.float32)
    y, dx = blank(real, dy.view.shape, layout), blank(real, x.view.shape, layout)
    dw = np.ones((slots, dim), np.float32)
    partial = np.full((partial_rows(batch), slots * dim), np.nan, np.float32)
    _core.run_op("weight_multiply_fwd", {"x": x.view, "w": w, "y": y.view})
    tensors = {"x": x.view, "w": w, "dy": dy.view, "dx": dx.view, "dw": dw, "partial": partial}
    _core.run_op("weight_multiply_bwd", tensors)
    y.check_gaps()
    dx.check_gaps()
    cube, w64 = dy.values.reshape(batch, slots, dim), w.astype(np.float64)
    assert_near(y.values, formula(x.values, w64), real.tolerance)
    assert_near(dx.values, np.einsum("bsd,sd->bs", cube, w64), real.tolerance)
    assert_near(dw, 1 + np.einsum("bsd,bs->sd", cube, x.values), 1e-5)


def test_weight_multiply_gradient_is_the_derivative(rows, rng, assert_close, numeric_gradients):
    x, w = rows((4, 3)), rng.standard_normal((3, 2)).astype(np.float32)
    dy = rows((4, 6))
    dx, dw = np.zeros((4, 3), np.float32), np.zeros((3, 2), np.float32)
    partial = np.zeros((1, 6), np.float32)
    _core.run_op(
        "weight_multiply_bwd", {"x": x, "w": w, "dy": dy, "dx": dx, "dw": dw, "partial": partial}
    )
    wanted = numeric_gradients(formula, [x, w], dy)
    assert_close(dx, wanted[0])
    assert_close(dw, wanted[1])
