# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.partials import partial_rows

from hugectr import _core

L1, L2 = 0, 1


def value(w, kind):
    return np.abs(w).sum() if kind == L1 else 0.5 * (w * w).sum()


@pytest.mark.parametrize("kind", [L1, L2])
@pytest.mark.parametrize("n", [1, 255, 3000, 100_000])
def test_regularizer(rng, assert_close, n, kind):
    w = rng.standard_normal(n).astype(np.float32)
    w[::3] = 0
    w[0] = -1.5
    attributes = {"kind": kind, "lambda": 0.02, "share": 0.25 / 48}
    loss, dw = np.array([0.7], np.float32), rng.standard_normal(n).astype(np.float32)
    before = dw.copy()
    partial = np.full(partial_rows(n), np.nan)
    _core.run_op("regularizer_loss", {"w": w, "loss": loss, "partial": partial}, attributes)
    _core.run_op("regularizer_grad", {"w": w, "dw": dw}, attributes)
    factor, w64 = 0.25 * 0.02 / 48, w.astype(np.float64)
    assert_close(loss, [0.7 + factor * value(w64, kind)])
    assert_close(dw, before + factor * (np.sign(w64) if kind == L1 else w64))


@pytest.mark.parametrize("kind", [L1, L2])
def test_regularizer_grad_is_scaled(rng, assert_close, kind):
    w = rng.standard_normal(37).astype(np.float32)
    dw = np.zeros(37, np.float32)
    _core.run_op(
        "regularizer_grad",
        {"w": w, "loss_scale": np.full(1, 256, np.float32), "dw": dw},
        {"kind": kind, "lambda": 3.0, "share": 0.25},
    )
    assert_close(dw, 256 * 0.75 * (np.sign(w) if kind == L1 else w.astype(np.float64)))


@pytest.mark.parametrize("kind", [L1, L2])
def test_regularizer_grad_is_the_derivative(rng, assert_close, numeric_gradients, kind):
    w = rng.standard_normal(9).astype(np.float32)
    w += np.sign(w) * 0.01  # away from the kink of |w|
    dw = np.zeros(9, np.float32)
    attributes = {"kind": kind, "lambda": 3.0, "share": 1.0}
    _core.run_op("regularizer_grad", {"w": w, "dw": dw}, attributes)
    assert_close(dw, numeric_gradients(lambda w: 3 * value(w, kind), [w], 1.0)[0])


@pytest.mark.parametrize("kind", [L1, L2])
def test_a_weight_that_is_nan_has_a_gradient_that_is_nan(kind):
    w = np.array([1.0, np.nan, 0.0], np.float32)
    dw = np.zeros(3, np.float32)
    _core.run_op(
        "regularizer_grad",
        {"w": w, "dw": dw},
        {"kind": kind, "lambda": 1.0, "share": 1.0},
    )
    np.testing.assert_array_equal(dw, [1.0, np.nan, 0.0])
