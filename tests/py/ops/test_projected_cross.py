# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.partials import partial_rows
from oracle.reals import HALVES
from oracle.row_layouts import LAYOUTS, LaidOut, assert_near, blank

from hugectr import _core

SHAPES = [(4, 3, 1), (37, 45, 8), (600, 24, 12)]


def formula(x0, x, u, v, bias):
    return x0 * (x @ u @ v + bias) + x


def weights(rng, n, k):
    return (
        (rng.standard_normal((n, k)) / np.sqrt(n)).astype(np.float32),
        (rng.standard_normal((k, n)) / np.sqrt(k)).astype(np.float32),
        rng.standard_normal(n).astype(np.float32),
    )


def forward(rows, x0, x, u, v, bias):
    h = rows(np.full((x.shape[0], u.shape[1]), np.nan))
    z, y = rows(np.full(x.shape, np.nan)), rows(np.full(x.shape, np.nan))
    tensors = {"x0": x0, "x": x, "u": u, "v": v, "bias": bias, "h": h, "z": z, "y": y}
    _core.run_op("projected_cross_fwd", tensors)
    return h, z, y


def size_of_sum(a, b):
    """Size that a.T @ b usually has."""
    return np.linalg.norm(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


@pytest.mark.parametrize(("batch", "n", "k"), SHAPES)
def test_projected_cross_fwd(rows, rng, assert_close, batch, n, k):
    x0, x = rows((batch, n)), rows((batch, n))
    u, v, bias = weights(rng, n, k)
    _, _, y = forward(rows, x0, x, u, v, bias)
    assert_close(y, formula(*(a.astype(np.float64) for a in (x0, x, u, v, bias))))


@pytest.mark.parametrize("first", [True, False], ids=["x_is_x0", "later"])
@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("with_dx", [True, False])
@pytest.mark.parametrize(("batch", "n", "k"), SHAPES)
def test_projected_cross_bwd(rows, rng, assert_close, batch, n, k, with_dx, accumulate, first):
    x0 = rows((batch, n))
    x = x0 if first else rows((batch, n))
    u, v, bias = weights(rng, n, k)
    h, z, _ = forward(rows, x0, x, u, v, bias)
    dy = rows((batch, n))
    dx0 = rows((batch, n)) if with_dx else None
    dx0_before = np.array(dx0, np.float64) if with_dx and accumulate else np.zeros((batch, n))
    dx = rows(np.full((batch, n), np.nan)) if with_dx and not first else None
    before = [rng.standard_normal(a.shape).astype(np.float32) for a in (u, v, bias)]
    du, dv, dbias = (b.copy() for b in before)
    samples = max(256, -(-batch // 64))
    scratch = {
        "dz": rows(np.full((batch, n), np.nan)),
        "dh": rows(np.full((batch, k), np.nan)),
        "partial": np.full((-(-batch // samples), n), np.nan, np.float32),
    }
    tensors = {"x0": x0, "x": x, "u": u, "v": v, "h": h, "z": z, "dy": dy, "dx0": dx0, "dx": dx}
    _core.run_op(
        "projected_cross_bwd",
        tensors | {"du": du, "dv": dv, "dbias": dbias} | scratch,
        {"accumulate": accumulate, "x_is_x0": first},
    )
    x0, x, u, v, bias, dy = (np.array(a, np.float64) for a in (x0, x, u, v, bias, dy))
    dz = dy * x0
    dh = dz @ v.T
    x_part = dy + dh @ u.T
    assert_close(du, before[0] + x.T @ dh)
    assert_close(dv, before[1] + (x @ u).T @ dz)
    assert_close(dbias, before[2] + dz.sum(axis=0))
    if with_dx:
        direct = dx0_before + dy * (x @ u @ v + bias)
        assert_close(dx0, direct + x_part if first else direct)
    if dx is not None:
        assert_close(dx, x_part)


@pytest.mark.parametrize("first", [True, False], ids=["x_is_x0", "later"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
@pytest.mark.parametrize(("batch", "n", "k"), [(64, 3, 1), *SHAPES[1:], (300, 429, 16)])
def test_projected_cross_in_16_bits(rng, real, layout, batch, n, k, first):
    x0 = LaidOut(real, rng.standard_normal((batch, n)), layout)
    x = x0 if first else LaidOut(real, rng.standard_normal((batch, n)), layout)
    u, v, bias = (real.store(a) for a in weights(rng, n, k))
    h, dh = (blank(real, (batch, k), layout) for _ in range(2))
    z, y, dz, dx = (blank(real, (batch, n), layout) for _ in range(4))
    common = {"x0": x0.view, "x": x.view, "u": u, "v": v, "h": h.view, "z": z.view}
    _core.run_op("projected_cross_fwd", common | {"bias": bias, "y": y.view})
    a0, a, u64, v64, b64 = x0.values, x.values, *(real.values(w) for w in (u, v, bias))
    assert_near(y.values, formula(a0, a, u64, v64, b64), real.tolerance)

    dy = LaidOut(real, rng.standard_normal((batch, n)), layout)
    dx0 = LaidOut(real, rng.standard_normal((batch, n)), layout)
    before = dx0.values
    du, dv, dbias = np.ones((n, k), np.float32), np.ones((k, n), np.float32), np.ones(n, np.float32)
    partial = np.full((partial_rows(batch), n), np.nan, np.float32)
    outputs = {"dy": dy.view, "dx0": dx0.view, "dx": None if first else dx.view, "dz": dz.view}
    outputs |= {"dh": dh.view, "du": du, "dv": dv, "dbias": dbias, "partial": partial}
    _core.run_op("projected_cross_bwd", common | outputs, {"accumulate": True, "x_is_x0": first})
    g = dy.values * a0
    x_part = dy.values + g @ v64.T @ u64.T
    direct = before + dy.values * (a @ u64 @ v64 + b64)
    assert_near(dx0.values, direct + x_part if first else direct, real.tolerance)
    if not first:
        assert_near(dx.values, x_part, real.tolerance)
    # Few columns: the samples' terms can cancel, their roundings do not.
    assert_near(du, 1 + a.T @ (g @ v64.T), real.tolerance, size_of_sum(a, g @ v64.T))
    assert_near(dv, 1 + (a @ u64).T @ g, real.tolerance, size_of_sum(a @ u64, g))
    assert_near(dbias, 1 + g.sum(axis=0), 1e-5, np.linalg.norm(g))
    for tensor in (h, z, y, dz, dh, dx0):
        tensor.check_gaps()
