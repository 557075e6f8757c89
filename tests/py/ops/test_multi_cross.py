# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core

SHAPES = [(1, 1, 1), (5, 3, 2), (6, 8, 3), (700, 16, 1), (37, 45, 6), (601, 429, 6)]


def cross(x0, *weights):
    """Layer by layer, as the formula is written: w and b of layer 0, of layer 1, ..."""
    x = x0
    for w, b in zip(weights[::2], weights[1::2], strict=True):
        x = x0 * (x @ w)[:, None] + x + b
    return x


def cross_gradients(x0, ws, bs, dy):
    """Backpropagation through the layers one by one; x0, then dw and db of every layer."""
    xs = [x0]
    for w, b in zip(ws, bs, strict=True):
        xs.append(x0 * (xs[-1] @ w)[:, None] + xs[-1] + b)
    g, dx0, dws, dbs = dy, np.zeros_like(x0), [], []
    for w, x in zip(ws[::-1], xs[-2::-1], strict=True):
        dbs.insert(0, g.sum(axis=0))
        dot = (g * x0).sum(axis=1)
        dws.insert(0, dot @ x)
        dx0 += g * (x @ w)[:, None]
        g = g + dot[:, None] * w
    return dx0 + g, dws, dbs


def inputs(rows, rng, batch, n, layers):
    # Weights as small as trained ones, so that six layers neither vanish nor explode.
    ws = [(rng.standard_normal(n) / np.sqrt(n)).astype(np.float32) for _ in range(layers)]
    bs = [(rng.standard_normal(n) * 0.3).astype(np.float32) for _ in range(layers)]
    return rows((batch, n)), ws, bs


def forward(rows, x, ws, bs):
    y = rows(np.full(x.shape, np.nan))
    dots = np.full((x.shape[0], len(ws)), np.nan, np.float32)
    _core.run_op("multi_cross_fwd", {"x": x, "ws": ws, "bs": bs, "y": y, "dots": dots})
    return y, dots


def backward(x, ws, bs, dots, dy, dx, dws, dbs):
    batch, n, layers = *x.shape, len(ws)
    samples = max(256, -(-batch // 64))
    partial = np.full((-(-batch // samples), (layers + 1) * n + layers), np.nan, np.float32)
    tensors = {"x": x, "ws": ws, "bs": bs, "dots": dots, "dy": dy, "dx": dx}
    _core.run_op("multi_cross_bwd", tensors | {"dws": dws, "dbs": dbs, "partial": partial})


@pytest.mark.parametrize(("batch", "n", "layers"), SHAPES)
def test_multi_cross_fwd(rows, rng, assert_close, batch, n, layers):
    x, ws, bs = inputs(rows, rng, batch, n, layers)
    y, dots = forward(rows, x, ws, bs)
    x64 = x.astype(np.float64)
    weights = [a.astype(np.float64) for pair in zip(ws, bs, strict=True) for a in pair]
    assert_close(y, cross(x64, *weights))
    assert np.linalg.norm(dots - x64 @ np.array(ws).T) <= 1e-5 * np.linalg.norm(x64)


@pytest.mark.parametrize("with_dx", [True, False])
@pytest.mark.parametrize(("batch", "n", "layers"), SHAPES)
def test_multi_cross_bwd(rows, rng, assert_close, batch, n, layers, with_dx):
    x, ws, bs = inputs(rows, rng, batch, n, layers)
    _, dots = forward(rows, x, ws, bs)
    dy = rows((batch, n))
    dx = rows(np.full((batch, n), np.nan)) if with_dx else None
    before = [rng.standard_normal(n).astype(np.float32) for _ in range(2 * layers)]
    grads = [b.copy() for b in before]
    backward(x, ws, bs, dots, dy, dx, grads[:layers], grads[layers:])
    dx64, dws, dbs = cross_gradients(
        *(np.array(a, np.float64) for a in (x, ws, bs)), dy.astype(np.float64)
    )
    if with_dx:
        assert_close(dx, dx64, "dx")
    for found, start, wanted in zip(grads, before, dws + dbs, strict=True):
        assert_close(found, start + wanted, "weights")


def test_multi_cross_gradient_is_the_derivative(rows, rng, assert_close, numeric_gradients):
    x, ws, bs = inputs(rows, rng, 4, 5, 3)
    _, dots = forward(rows, x, ws, bs)
    dy, dx = rows((4, 5)), np.zeros((4, 5), np.float32)
    dws, dbs = ([np.zeros(5, np.float32) for _ in range(3)] for _ in range(2))
    backward(x, ws, bs, dots, dy, dx, dws, dbs)
    weights = [a for pair in zip(ws, bs, strict=True) for a in pair]
    wanted = numeric_gradients(cross, [x, *weights], dy)
    assert_close(dx, wanted[0])
    for layer in range(3):
        assert_close(dws[layer], wanted[1 + 2 * layer])
        assert_close(dbs[layer], wanted[2 + 2 * layer])


def test_multi_cross_is_the_same_every_time(rows, rng):
    x, ws, bs = inputs(rows, rng, 3000, 45, 4)
    dy = rows((3000, 45))
    runs = []
    for _ in range(2):
        y, dots = forward(rows, x, ws, bs)
        dx = np.zeros((3000, 45), np.float32)
        grads = [np.zeros(45, np.float32) for _ in range(8)]
        backward(x, ws, bs, dots, dy, dx, grads[:4], grads[4:])
        runs.append([np.array(y), dx, *grads])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)
