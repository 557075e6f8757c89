# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import FLOAT32, REALS
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

SHAPES = [(1, 1, 1), (5, 3, 2), (6, 8, 3), (700, 16, 1), (37, 45, 6), (601, 429, 6)]
#: More columns than threads of a block have pairs, more than shared memory holds weights of, more
#: layers than the GPU's fast ways keep in registers.
WIDE = [(70, 1677, 5), (9, 4603, 6), (130, 45, 9), (130, 33, 13)]

every_real = pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def cross(x0, *weights):
    """Layer by layer, as the formula is written: w and b of layer 0, of layer 1, ..."""
    x = x0
    for w, b in zip(weights[::2], weights[1::2], strict=True):
        x = x0 * (x @ w)[:, None] + x + b
    return x


def cross_gradients(x0, ws, bs, dy):
    """Backpropagation through the layers one by one.

    dx0, then dw of every layer and db of every layer; and their usual sizes (``usual_dot``).
    """
    xs = [x0]
    for w, b in zip(ws, bs, strict=True):
        xs.append(x0 * (xs[-1] @ w)[:, None] + xs[-1] + b)
    g, dx0, dws, dbs = dy, np.zeros_like(x0), [], []
    dx_size, dw_sizes, db_sizes = 0.0, [], []
    for w, x in zip(ws[::-1], xs[-2::-1], strict=True):
        dbs.insert(0, g.sum(axis=0))
        db_sizes.insert(0, np.linalg.norm(g))
        dot = (g * x0).sum(axis=1)
        dws.insert(0, dot @ x)
        dw_sizes.insert(0, np.linalg.norm(usual_dot(g, x0) * np.linalg.norm(x, axis=1)))
        dx0 += g * (x @ w)[:, None]
        dx_size += np.linalg.norm(np.linalg.norm(g, axis=1) * usual_dot(x, w[None]))
        g = g + dot[:, None] * w
        dx_size += np.linalg.norm(usual_dot(g, x0)) * np.linalg.norm(w)
    return dx0 + g, dws + dbs, dx_size, dw_sizes + db_sizes


def usual_dot(a, b):
    """Size that products of rows usually have: what the rounding of one that cancels is like."""
    return np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1) / np.sqrt(a.shape[1])


def cross_size(x0, ws, bs):
    """Usual size of the forward result."""
    x, size = x0, np.linalg.norm(x0)
    for w, b in zip(ws, bs, strict=True):
        size += np.linalg.norm(np.linalg.norm(x0, axis=1) * usual_dot(x, w[None]))
        size += np.linalg.norm(b) * np.sqrt(len(x0))
        x = x0 * (x @ w)[:, None] + x + b
    return size


def draw_weights(rng, n, layers):
    # Weights as small as trained ones, so that the layers neither vanish nor leave float16.
    spread = min(1.0, 6 / layers) / np.sqrt(n)
    ws = [(rng.standard_normal(n) * spread).astype(np.float32) for _ in range(layers)]
    bs = [(rng.standard_normal(n) * 0.3).astype(np.float32) for _ in range(layers)]
    return ws, bs


def forward(real, layout, x, ws, bs):
    y = blank(real, x.view.shape, layout)
    dots = np.full((len(x.view), len(ws)), np.nan, np.float32)
    _core.run_op("multi_cross_fwd", {"x": x.view, "ws": ws, "bs": bs, "y": y.view, "dots": dots})
    y.check_gaps()
    return y, dots


def pieces(batch):
    samples = max(32, -(-batch // 528))
    return -(-batch // samples)


def backward(x, ws, bs, dots, dy, dx, dws, dbs):
    n, layers = x.view.shape[1], len(ws)
    partial = np.full((pieces(len(x.view)), (layers + 1) * n + layers), np.nan, np.float32)
    tensors = {"x": x.view, "ws": ws, "bs": bs, "dots": dots, "dy": dy.view}
    tensors["dx"] = None if dx is None else dx.view
    _core.run_op("multi_cross_bwd", tensors | {"dws": dws, "dbs": dbs, "partial": partial})
    if dx is not None:
        dx.check_gaps()


def check_fwd(rng, real, layout, batch, n, layers):
    x = LaidOut(real, rng.standard_normal((batch, n)), layout)
    ws, bs = draw_weights(rng, n, layers)
    y, dots = forward(real, layout, x, ws, bs)
    weights = [a.astype(np.float64) for pair in zip(ws, bs, strict=True) for a in pair]
    size = cross_size(x.values, weights[::2], weights[1::2])
    assert_near(y.values, cross(x.values, *weights), real.tolerance, size)
    # Kept in float32 whatever x is stored as.
    wanted = x.values @ np.array(ws, np.float64).T
    assert_near(dots, wanted, 1e-5, np.linalg.norm(x.values))


def check_bwd(rng, real, layout, batch, n, layers, with_dx=True):
    x, dy = (LaidOut(real, rng.standard_normal((batch, n)), layout) for _ in range(2))
    ws, bs = draw_weights(rng, n, layers)
    _, dots = forward(real, layout, x, ws, bs)
    dx = blank(real, (batch, n), layout) if with_dx else None
    before = [rng.standard_normal(n).astype(np.float32) for _ in range(2 * layers)]
    grads = [b.copy() for b in before]
    backward(x, ws, bs, dots, dy, dx, grads[:layers], grads[layers:])
    dx64, wanted, dx_size, sizes = cross_gradients(
        x.values, np.array(ws, np.float64), np.array(bs, np.float64), dy.values
    )
    if with_dx:
        assert_near(dx.values, dx64, real.tolerance, dx_size)
    # The gradients of the weights are float32: no digit of the stored inputs is lost.
    for found, start, more, size in zip(grads, before, wanted, sizes, strict=True):
        assert_near(found, start + more, 1e-5, size + np.linalg.norm(start))


@every_layout
@every_real
@pytest.mark.parametrize(("batch", "n", "layers"), SHAPES)
def test_multi_cross_fwd(rng, real, layout, batch, n, layers):
    check_fwd(rng, real, layout, batch, n, layers)


@pytest.mark.parametrize("with_dx", [True, False])
@every_layout
@every_real
@pytest.mark.parametrize(("batch", "n", "layers"), SHAPES)
def test_multi_cross_bwd(rng, real, layout, batch, n, layers, with_dx):
    check_bwd(rng, real, layout, batch, n, layers, with_dx)


@every_layout
@every_real
@pytest.mark.parametrize(("batch", "n", "layers"), WIDE)
def test_multi_cross_of_unusual_shapes(rng, real, layout, batch, n, layers):
    check_fwd(rng, real, layout, batch, n, layers)
    check_bwd(rng, real, layout, batch, n, layers)


@every_real
def test_multi_cross_of_a_large_batch(rng, real):
    """Sums over 65,537 samples lose no digits."""
    check_bwd(rng, real, "aligned", 65537, 21, 3)


def test_multi_cross_gradient_is_the_derivative(rng, assert_close, numeric_gradients):
    x, dy = (LaidOut(FLOAT32, rng.standard_normal((4, 5)), "packed") for _ in range(2))
    ws, bs = draw_weights(rng, 5, 3)
    _, dots = forward(FLOAT32, "packed", x, ws, bs)
    dx = blank(FLOAT32, (4, 5), "packed")
    dws, dbs = ([np.zeros(5, np.float32) for _ in range(3)] for _ in range(2))
    backward(x, ws, bs, dots, dy, dx, dws, dbs)
    weights = [a for pair in zip(ws, bs, strict=True) for a in pair]
    wanted = numeric_gradients(cross, [x.view, *weights], dy.view)
    assert_close(dx.view, wanted[0])
    for layer in range(3):
        assert_close(dws[layer], wanted[1 + 2 * layer])
        assert_close(dbs[layer], wanted[2 + 2 * layer])


@every_real
def test_multi_cross_is_the_same_every_time(rng, real):
    x, dy = (LaidOut(real, rng.standard_normal((3000, 45)), "aligned") for _ in range(2))
    ws, bs = draw_weights(rng, 45, 4)
    runs = []
    for _ in range(2):
        y, dots = forward(real, "aligned", x, ws, bs)
        dx = blank(real, (3000, 45), "aligned")
        grads = [np.zeros(45, np.float32) for _ in range(8)]
        backward(x, ws, bs, dots, dy, dx, grads[:4], grads[4:])
        runs.append([y.values, dx.values, *grads])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_multi_cross_refuses_mixed_types_and_too_many_layers():
    x, y = np.zeros((2, 3), np.float16), np.zeros((2, 3), np.float32)
    w, dots = [np.zeros(3, np.float32)], np.zeros((2, 1), np.float32)
    with pytest.raises(ValueError, match="multi_cross_fwd: y holds float32, must hold float16"):
        _core.run_op("multi_cross_fwd", {"x": x, "ws": w, "bs": w, "y": y, "dots": dots})
    with pytest.raises(ValueError, match="multi_cross_fwd: 65 ws, must be 1 to 64"):
        _core.run_op("multi_cross_fwd", {"x": y, "ws": w * 65, "bs": w * 65, "y": y, "dots": dots})


@pytest.mark.cpu_only  # a GPU's reads of a row go by where it begins
@pytest.mark.parametrize("real", [FLOAT32], ids=["float32"])
@pytest.mark.parametrize("layers", [1, 2, 3, 6])
@pytest.mark.parametrize("n", [8, 16, 45, 429])
def test_a_row_has_the_same_bits_in_every_batch(rng, real, n, layers):
    x, dy = (rng.standard_normal((23, n)).astype(np.float32) for _ in range(2))
    ws, bs = draw_weights(rng, n, layers)

    def of(part):
        rows, given = LaidOut(real, x[part], LAYOUTS[0]), LaidOut(real, dy[part], LAYOUTS[0])
        y, dots = forward(real, LAYOUTS[0], rows, ws, bs)
        dx = blank(real, rows.view.shape, LAYOUTS[0])
        sums = [np.zeros(n, np.float32) for _ in range(2 * layers)]
        backward(rows, ws, bs, dots, given, dx, sums[:layers], sums[layers:])
        return y.view.copy(), dots, dx.view.copy()

    whole = of(slice(None))
    for size in (1, 2, 3, 5, 7):
        for begin in range(0, len(x), size):
            part = slice(begin, begin + size)
            for found, wanted in zip(of(part), whole, strict=True):
                np.testing.assert_array_equal(found, wanted[part])
