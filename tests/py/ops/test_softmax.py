# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import softmax
from oracle.reals import REALS
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

#: Those of layer_norm, and more rows than a GPU works on at once.
SHAPES = [(7, 3), (70, 16), (33, 60), (300, 64), (70, 128), (40, 250), (40, 256), (50, 512)]
SHAPES += [(60, 900), (30, 1024), (9, 2500), (9, 2504)]
MANY = [(40001, 8), (5001, 136)]
CASES = [(layout, *shape) for layout in LAYOUTS for shape in SHAPES]
CASES += [("aligned", *shape) for shape in MANY]


@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
@pytest.mark.parametrize(("layout", "rows", "n"), CASES)
def test_softmax(rng, real, layout, rows, n):
    x = LaidOut(real, rng.standard_normal((rows, n)) * 3, layout)
    mask = LaidOut(real, rng.random((rows, n)) < 0.8, layout)
    dy = LaidOut(real, rng.standard_normal((rows, n)), layout)
    y, masked, dx = (blank(real, (rows, n), layout) for _ in range(3))
    _core.run_op("softmax_fwd", {"x": x.view, "y": y.view})
    y.check_gaps()
    assert_near(y.values, softmax(x.values), real.tolerance)
    _core.run_op("softmax_fwd", {"x": x.view, "mask": mask.view, "y": masked.view})
    masked.check_gaps()
    some = mask.values.any(-1)  # a row of masked ones alone loses the digits of x
    assert_near(masked.values[some], softmax(x.values, mask.values)[some], real.tolerance)
    _core.run_op("softmax_bwd", {"y": y.view, "dy": dy.view, "dx": dx.view})
    dx.check_gaps()
    p, g = y.values, dy.values
    assert_near(dx.values, p * (g - (g * p).sum(-1, keepdims=True)), real.tolerance)


def test_large_numbers_do_not_overflow(rng):
    x = np.array([[1e4, 1e4 - 1, -1e4], [-1e30, 0, 1e30]], np.float32)
    y = np.full_like(x, np.nan)
    _core.run_op("softmax_fwd", {"x": x, "y": y})
    assert_near(y, softmax(x.astype(np.float64)), 1e-6)


def test_a_mask_for_all_heads(rng):
    x = rng.standard_normal((3, 4, 5, 6)).astype(np.float32)
    mask = (rng.random((3, 1, 5, 6)) < 0.7).astype(np.float32)
    mask[..., 0] = 1
    y = np.full_like(x, np.nan)
    _core.run_op("softmax_fwd", {"x": x, "mask": mask, "y": y})
    assert_near(y, softmax(x.astype(np.float64), mask.astype(np.float64)), 1e-6)


def test_gradient_is_the_derivative_also_in_place(rng, assert_close, numeric_gradients):
    x, dy = rng.standard_normal((2, 4, 5)).astype(np.float32)
    y = np.full_like(x, np.nan)
    _core.run_op("softmax_fwd", {"x": x, "y": y})
    wanted = numeric_gradients(softmax, [x], dy)[0]
    _core.run_op("softmax_bwd", {"y": y, "dy": dy, "dx": dy})
    assert_close(dy, wanted)
