# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import binary_cross_entropy, sigmoid
from oracle.partials import partial_rows
from oracle.reals import HALVES

from hugectr import _core


def run(
    logits,
    labels,
    weight,
    inv_weight_sum,
    dlogits=None,
    prediction=None,
    grad_scale=1.0,
    loss_scale=None,
):
    loss = np.full(1, np.nan, np.float32)
    _core.run_op(
        "bce_loss",
        {
            "logits": logits,
            "labels": labels,
            "weight": weight,
            "inv_weight_sum": np.array([inv_weight_sum], np.float32),
            "loss_scale": loss_scale,
            "loss": loss,
            "dlogits": dlogits,
            "prediction": prediction,
            "partial": np.full(partial_rows(len(logits)), np.nan),
        },
        {"grad_scale": grad_scale},
    )
    return loss[0]


@pytest.mark.parametrize("batch", [1, 5, 1000, 20_000])
def test_bce_loss(rows, rng, assert_close, batch):
    x = rows(rng.standard_normal((batch, 1)) * 4)
    y = rows((rng.random((batch, 1)) < 0.3) * 1.0)
    weight = (rng.random(batch) < 0.9).astype(np.float32)
    weight[0] = 1
    dx, p = rows(np.full((batch, 1), np.nan)), rows(np.full((batch, 1), np.nan))
    total = float(weight.sum()) + 3  # other devices have samples too
    loss = run(x, y, weight, 1 / total, dx, p, grad_scale=8.0)
    x64, w = x.astype(np.float64), weight[:, None]
    assert_close(loss, (w * binary_cross_entropy(x64, y)).sum() / total)
    assert_close(dx, 8.0 * w * (sigmoid(x64) - y) / total)
    assert_close(p, sigmoid(x64))


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize("batch", [1, 777, 20_000])
def test_bce_loss_in_16_bits(rng, assert_close, real, batch):
    wide = real.store(rng.standard_normal((batch, 3)) * 4)
    x, dx = wide[:, 1:2], real.empty((batch, 1))
    y = ((rng.random((batch, 1)) < 0.3) * 1.0).astype(np.float32)
    weight = (rng.random(batch) < 0.9).astype(np.float32)
    weight[0] = 1
    p = np.full((batch, 1), np.nan, np.float32)
    loss = run(x, y, weight, 1 / weight.sum(), dx, p, grad_scale=1024.0)
    x64, w = real.values(x), weight[:, None]
    assert_close(loss, (w * binary_cross_entropy(x64, y)).sum() / weight.sum())
    wanted = 1024.0 * w * (sigmoid(x64) - y) / weight.sum()
    assert_close(real.values(dx), wanted, tolerance=real.tolerance)
    assert_close(p, sigmoid(x64))


def test_bce_loss_scale_is_of_the_gradient_alone(rng, assert_close):
    x = rng.standard_normal((50, 1)).astype(np.float32)
    y, weight = (x > 0).astype(np.float32), np.ones(50, np.float32)
    dx = np.empty_like(x)
    loss = run(x, y, weight, 0.02, dx, loss_scale=np.array([512], np.float32))
    assert_close(loss, binary_cross_entropy(x.astype(np.float64), y).mean())
    assert_close(dx, 512 * (sigmoid(x.astype(np.float64)) - y) / 50)


def test_bce_gradient_is_in_the_dtype_of_the_logits():
    x = np.zeros((4, 1), np.float16)
    y, weight = np.zeros((4, 1), np.float32), np.ones(4, np.float32)
    with pytest.raises(_core.InvalidArgument, match="dlogits holds float32, must hold float16"):
        run(x, y, weight, 0.25, np.zeros((4, 1), np.float32))


def test_bce_gradient_is_the_derivative(rng, assert_close, numeric_gradients):
    x, y = rng.standard_normal((6, 1)).astype(np.float32), np.array([[0, 1] * 3], np.float32).T
    weight, dx = np.array([1, 1, 0, 1, 1, 1], np.float32), np.empty((6, 1), np.float32)
    run(x, y, weight, 0.2, dx)
    wanted = numeric_gradients(
        lambda x: binary_cross_entropy(x, y) * weight[:, None] / 5, [x], np.ones((6, 1))
    )
    assert_close(dx, wanted[0])


def test_bce_is_finite_for_large_logits(assert_close):
    x = np.array([[-1e4], [1e4], [-1e4], [1e4]], np.float32)
    y = np.array([[0], [1], [1], [0]], np.float32)
    dx = np.empty_like(x)
    assert_close(run(x, y, np.ones(4, np.float32), 0.25, dx), 0.5e4)
    np.testing.assert_allclose(dx[:, 0], [0, 0, -0.25, 0.25], atol=1e-7)


def test_bce_does_not_look_at_padding():
    x, y = np.array([[0.0], [np.nan]], np.float32), np.zeros((2, 1), np.float32)
    dx = np.full((2, 1), np.nan, np.float32)
    loss = run(x, y, np.array([1, 0], np.float32), 1.0, dx)
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-6)
    np.testing.assert_array_equal(dx, [[0.5], [0.0]])


def test_bce_wants_one_logit():
    x = np.zeros((4, 2), np.float32)
    with pytest.raises(ValueError, match=r"logits have shape \(4, 2\), must be \(batch, 1\)"):
        run(x, x, np.ones(4, np.float32), 0.25)
